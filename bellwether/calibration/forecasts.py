"""Forecasts as validated arrays: what every metric is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bellwether.errors import ScoringError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]

#: A probability this far outside [0, 1] is a rounding error of the program that made it.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Forecasts:
    """N forecasts with their outcomes. Make it with `Forecasts.of`, which validates.

    Attributes:
        p: float64 (N,), forecast probability of yes, in [0, 1].
        y: float64 (N,), the outcome, 1 for yes and 0 for no; a share in between for a fractional outcome.
        decision: bool (N,), True where the forecaster decided yes.
        market: float64 (N,), the market's price of yes at the comparison horizon, NaN where there was none.
        weight: float64 (N,), how much each forecast counts; positive.
    """

    p: Floats
    y: Floats
    decision: Bools
    market: Floats
    weight: Floats

    @classmethod
    def of(
        cls,
        p: ArrayLike,
        y: ArrayLike,
        *,
        answer: Sequence[Any] | NDArray[Any] | None = None,
        market: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Forecasts:
        """Validate columns of equal length.

        `y` holds 0 and 1 (or booleans), or shares of yes in between. `answer` holds "yes", "no" or None per forecast; the decision is the
        answer where one was given, else p >= 0.5. `market` may hold NaN. `weights` are positive. Raises `ScoringError` with the column,
        the index and the value of the first misfit.
        """
        probability = _column("p", p)
        size = len(probability)
        _check("p", probability, (probability >= 0) & (probability <= 1), _probability_advice(probability))
        outcome = _column("y", y, size)
        _check(
            "y",
            outcome,
            (outcome >= 0) & (outcome <= 1),
            "an outcome is 0 or 1, or a share in between; leave out questions that are not resolved",
        )
        price = np.full(size, np.nan) if market is None else _column("market", market, size)
        _check("market", price, ((price >= 0) & (price <= 1)) | np.isnan(price), "a price lies in [0, 1], or is NaN where there was none")
        weight = np.ones(size) if weights is None else _column("weights", weights, size)
        _check("weights", weight, (weight > 0) & np.isfinite(weight), "a weight is positive and finite; leave out what does not count")
        return cls(probability, outcome, _decide(probability, answer), price, weight)

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def is_binary(self) -> bool:
        """True if every outcome is yes or no. Classification and discrimination are undefined otherwise."""
        return bool(((self.y == 0) | (self.y == 1)).all())

    @cached_property
    def is_weighted(self) -> bool:
        """True if the forecasts have different weights."""
        return bool((self.weight != 1).any())

    def take(self, rows: Ints | Bools) -> Forecasts:
        """The forecasts at `rows` (indices, repeated as often as given, or a mask)."""
        return Forecasts(self.p[rows], self.y[rows], self.decision[rows], self.market[rows], self.weight[rows])


def _column(name: str, values: ArrayLike, size: int | None = None) -> Floats:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoringError(f"scoring: column {name} is not numeric ({error}); give numbers") from None
    if column.ndim != 1:
        raise ScoringError(f"scoring: column {name} has {column.ndim} dimensions; give one value per forecast")
    if size is not None and len(column) != size:
        raise ScoringError(f"scoring: column {name} has {len(column)} values and p has {size}; give one value per forecast")
    return column


def _check(name: str, values: Floats, good: Bools, advice: str) -> None:
    if not good.all():
        index = int(np.argmin(good))
        raise ScoringError(f"scoring: column {name} holds {float(values[index])!r} at index {index}; {advice}")


def _probability_advice(p: Floats) -> str:
    """Remedy for the first value of `p` that is no probability."""
    bad = p[~((p >= 0) & (p <= 1))]
    if not len(bad) or np.isnan(bad[0]):
        return "leave out questions without a forecast"
    if np.nanmin(p) >= -_ROUNDING and np.nanmax(p) <= 1 + _ROUNDING:
        return "a rounding error beyond [0, 1]; clip it: numpy.clip(p, 0, 1)"
    if np.nanmin(p) >= 0 and np.nanmax(p) <= 100:
        return "a probability lies in [0, 1]; if these are percentages, divide by 100"
    return "a probability lies in [0, 1]"


def _decide(p: Floats, answer: Sequence[Any] | NDArray[Any] | None) -> Bools:
    leaning = p >= 0.5
    if answer is None:
        return leaning
    said = np.asarray(answer, dtype=object)
    if said.shape != p.shape:
        raise ScoringError(f"scoring: column answer has {len(said)} values and p has {len(p)}; give one value per forecast")
    yes, no, none = said == "yes", said == "no", np.array([one is None for one in said], dtype=bool)
    good = yes | no | none
    if not good.all():
        index = int(np.argmin(good))
        raise ScoringError(f"scoring: column answer holds {said[index]!r} at index {index}; an answer is 'yes', 'no' or None")
    return yes | (none & leaning)


#: Equal-width bins, and equal-mass bins of the adaptive calibration error, when nothing else is chosen.
BINS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins of [0, 1] between ascending `edges`, float64 (K + 1,): left edge inside, right edge outside except in the last bin."""

    edges: Floats

    @classmethod
    def of(cls, bins: int | ArrayLike = BINS) -> Bins:
        """So many bins of equal width, or bins between given edges from 0 to 1. Raises `ScoringError` for anything else.

        The edges of equal-width bins are the literal floats of `numpy.linspace(0, 1, K + 1)`: of ten, 0.3 and 0.7 differ from 3/10 and
        7/10 in the last bit, and forecasts sit on them.
        """
        if isinstance(bins, int | np.integer):
            if bins < 1:
                raise ScoringError(f"binning: bins is {bins}; give a positive number, or edges from 0 to 1")
            return cls(np.linspace(0.0, 1.0, int(bins) + 1))
        try:
            edges = np.asarray(bins, dtype=np.float64)
        except (TypeError, ValueError):
            raise ScoringError(f"binning: bins is {bins!r}; give a number, or edges from 0 to 1") from None
        if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
            raise ScoringError(f"binning: the edges are {edges.tolist()}; give ascending edges from 0 to 1")
        return cls(edges)

    @property
    def count(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def index(self, p: Floats) -> Ints:
        """Bin of each probability, intp of the shape of `p`."""
        return np.minimum(np.searchsorted(self.edges, p, side="right") - 1, self.count - 1)


#: Ten bins of equal width.
DECILES = Bins.of(BINS)
DECILES.edges.flags.writeable = False
EDGES: Floats = DECILES.edges
