"""Validated arrays of forecasts and outcomes, the input of every metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bellwether.errors import ScoringError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]

#: Maximum distance from [0, 1] that counts as a rounding error.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Forecasts:
    """N forecasts with their outcomes. Create it with `Forecasts.of`, which validates.

    Attributes:
        p: float64 (N,), forecast probability of yes, in [0, 1].
        y: float64 (N,), the outcome, 1 for yes and 0 for no; a share in between for a fractional outcome.
        decision: bool (N,), True for a decision of yes.
        market: float64 (N,), the market's price of yes at the comparison horizon, NaN without a price.
        weight: float64 (N,), weight of each forecast; positive.
        sell, buy: float64 (N,), proceeds of selling and cost of buying a contract of yes at the market, after fees, in dollars; NaN without a quote.
    """

    p: Floats
    y: Floats
    decision: Bools
    market: Floats
    weight: Floats
    sell: Floats
    buy: Floats

    @classmethod
    def of(
        cls,
        p: ArrayLike,
        y: ArrayLike,
        *,
        answer: Sequence[Any] | NDArray[Any] | None = None,
        market: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        sell: ArrayLike | None = None,
        buy: ArrayLike | None = None,
    ) -> Forecasts:
        """Build forecasts from columns of equal length, which are validated.

        `y` contains 0 and 1 (or booleans), or shares of yes in between. `answer` contains "yes", "no" or None per forecast; the decision is the
        answer if given, else p >= 0.5. `market`, `sell` and `buy` may contain NaN. `weights` are positive. Raises `ScoringError` with the column, the index and the
        value of the first invalid entry.
        """
        probability = _column("p", p)
        size = len(probability)
        _check("p", probability, (probability >= 0) & (probability <= 1), _probability_advice(probability))
        outcome = _column("y", y, size)
        _check("y", outcome, (outcome >= 0) & (outcome <= 1), "give 0, 1 or a share in between; leave out unresolved questions")
        price = np.full(size, np.nan) if market is None else _column("market", market, size)
        _check("market", price, ((price >= 0) & (price <= 1)) | np.isnan(price), "give a price in [0, 1], or NaN for a missing one")
        weight = np.ones(size) if weights is None else _column("weights", weights, size)
        _check(
            "weights", weight, (weight > 0) & np.isfinite(weight), "give a positive, finite weight; leave out forecasts that do not count"
        )
        sides = (np.full(size, np.nan) if side is None else _column(name, side, size) for name, side in (("sell", sell), ("buy", buy)))
        return cls(probability, outcome, _decide(probability, answer), price, weight, *sides)

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def is_binary(self) -> bool:
        """True if every outcome is yes or no. Otherwise classification and discrimination are undefined."""
        return bool(((self.y == 0) | (self.y == 1)).all())

    def take(self, rows: Ints | Bools) -> Forecasts:
        """Return the forecasts at `rows` (a mask, or indices, which may repeat)."""
        return Forecasts(*(getattr(self, field.name)[rows] for field in fields(self)))


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
        raise ScoringError(f"scoring: column {name} is {float(values[index])!r} at index {index}; {advice}")


def _probability_advice(p: Floats) -> str:
    """Return advice on the first invalid probability in `p`, for the error message."""
    bad = p[~((p >= 0) & (p <= 1))]
    if not len(bad) or np.isnan(bad[0]):
        return "leave out questions without a forecast"
    if np.nanmin(p) >= -_ROUNDING and np.nanmax(p) <= 1 + _ROUNDING:
        return "the value is outside [0, 1] by a rounding error; clip it: numpy.clip(p, 0, 1)"
    if np.nanmin(p) >= 0 and np.nanmax(p) <= 100:
        return "give a probability in [0, 1]; divide percentages by 100"
    return "give a probability in [0, 1]"


def _decide(p: Floats, answer: Sequence[Any] | NDArray[Any] | None) -> Bools:
    """Return a mask of the decisions for yes: the answer if given, else p >= 0.5. Raises `ScoringError` for an invalid answer."""
    leaning = p >= 0.5
    if answer is None:
        return leaning
    answers = np.asarray(answer, dtype=object)
    if answers.shape != p.shape:
        raise ScoringError(f"scoring: column answer has {len(answers)} values and p has {len(p)}; give one value per forecast")
    yes, no, none = answers == "yes", answers == "no", np.array([value is None for value in answers], dtype=bool)
    good = yes | no | none
    if not good.all():
        index = int(np.argmin(good))
        raise ScoringError(f"scoring: column answer is {answers[index]!r} at index {index}; give 'yes', 'no' or None")
    return yes | (none & leaning)


#: Number of bins of equal width.
BINS = 10

#: Edges of the bins: the literal floats of `numpy.linspace`. 0.3 and 0.7 differ from 3/10 and 7/10 in the last bit, which matters for forecasts at
#: these values.
EDGES: Floats = np.linspace(0.0, 1.0, BINS + 1)
EDGES.flags.writeable = False


def bin_index(p: Floats) -> Ints:
    """Return the bin of each probability, from 0: intp of the shape of `p`. A bin includes its left edge, and the last one also 1."""
    return np.minimum(np.searchsorted(EDGES, p, side="right") - 1, BINS - 1)
