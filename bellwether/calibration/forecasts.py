"""Forecasts as validated arrays: what every metric is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bellwether.errors import ScoringError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """N binary forecasts with their outcomes. Make it with `Forecasts.of`, which validates.

    Parameters
    ----------
    p: float64 (N,), forecast probability of yes, in [0, 1].
    y: bool (N,), True where the outcome is yes.
    decision: bool (N,), True where the forecaster decided yes.
    market: float64 (N,), the market's price of yes at the comparison horizon, NaN where there was none.
    """

    p: Floats
    y: Bools
    decision: Bools
    market: Floats

    @classmethod
    def of(
        cls, p: ArrayLike, y: ArrayLike, *, answer: Sequence[Any] | NDArray[Any] | None = None, market: ArrayLike | None = None
    ) -> Forecasts:
        """Validate columns of equal length.

        `y` holds 0 and 1 (or booleans). `answer` holds "yes", "no" or None per forecast; the decision is the answer where one was
        given, else p >= 0.5. `market` may hold NaN. Raises `ScoringError` with the column, the index and the value of the first misfit.
        """
        probability = _column("p", p)
        size = len(probability)
        _check(
            "p",
            probability,
            (probability >= 0) & (probability <= 1),
            "a probability lies in [0, 1]; leave out questions without a forecast",
        )
        outcome = _column("y", y, size)
        yes = outcome == 1
        _check("y", outcome, yes | (outcome == 0), "an outcome is 0 or 1; leave out questions that did not resolve yes or no")
        price = np.full(size, np.nan) if market is None else _column("market", market, size)
        _check("market", price, ((price >= 0) & (price <= 1)) | np.isnan(price), "a price lies in [0, 1], or is NaN where there was none")
        return cls(probability, yes, _decide(probability, answer), price)

    def __len__(self) -> int:
        return len(self.p)

    def take(self, rows: Ints | Bools) -> Forecasts:
        """The forecasts at `rows` (indices, repeated as often as given, or a mask)."""
        return Forecasts(self.p[rows], self.y[rows], self.decision[rows], self.market[rows])


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
