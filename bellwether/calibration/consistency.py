"""Reliability curves and their consistency bands: how far from the diagonal a calibrated forecaster would come by chance.

A band is made by resampling under the hypothesis of calibration (Bröcker & Smith, Weather and Forecasting 22, 2007; for CORP Dimitriadis,
Gneiting & Jordan, PNAS 118, 2021): the forecasts stay as they are, outcomes are drawn from them many times, and the band holds the middle of
what the curve does, point by point. Outcomes are drawn independently, so that dependent questions make a band too narrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.binning import BINS, EDGES, bin_of
from bellwether.calibration.forecasts import Floats, Forecasts, Ints
from bellwether.calibration.isotonic import fit
from bellwether.calibration.ordered import Ordered
from bellwether.errors import ScoringError

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 1_000

#: Points of a curve; of more distinct forecasts, so many are taken, evenly by rank.
_POINTS = 1_000

#: Floats held at a time while outcomes are drawn.
_BLOCK = 2_000_000


def corp_curve(p: ArrayLike, y: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 1950) -> pl.DataFrame:
    """The CORP reliability curve of forecasts `p` of yes on outcomes `y`, with its consistency band.

    One row per distinct forecast, ascending: forecast, n (forecasts equal to it), recalibrated (the frequency of yes that isotonic
    regression gives it), lower and upper (the band at `level` for `recalibrated` if the forecasts were calibrated). Of more than 1,000
    distinct forecasts, 1,000 are given. Raises `ScoringError` for what cannot be scored.
    """
    import polars as pl

    _check(level, resamples)
    ordered = Ordered.of(Forecasts.of(p, y))
    mass, yes = ordered.tally()
    shown = _evenly(len(ordered.p))
    resampled = np.concatenate([fit(mass, drawn)[:, shown] for drawn in _outcomes(ordered.p, mass, resamples, seed)])
    lower, upper = _middle(resampled, level)
    return pl.DataFrame(
        {
            "forecast": ordered.p[shown],
            "n": mass[shown].astype(np.int64),
            "recalibrated": fit(mass, yes)[shown],
            "lower": lower,
            "upper": upper,
        }
    )


def reliability_bands(p: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 1950) -> pl.DataFrame:
    """Consistency bands of the binned reliability diagram of forecasts `p`: ten rows, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, mean_forecast, lower and upper: the band at `level` for the bin's frequency of yes if the
    forecasts were calibrated. Raises `ScoringError` for what cannot be scored.
    """
    import polars as pl

    _check(level, resamples)
    ordered = Ordered.of(Forecasts.of(p, np.zeros(np.shape(p))))
    mass, _ = ordered.tally()
    member = np.zeros((len(mass), BINS))
    member[np.arange(len(mass)), bin_of(ordered.p)] = 1.0
    count = mass @ member
    some = count > 0
    each = np.where(some, count, np.nan)
    columns = np.full((3, BINS), np.nan)
    columns[0] = (mass * ordered.p) @ member / each
    rates = np.concatenate([drawn @ member for drawn in _outcomes(ordered.p, mass, resamples, seed)]) / each
    columns[1:, some] = _middle(rates[:, some], level)
    return pl.DataFrame(
        {
            "bin": np.arange(BINS, dtype=np.int32),
            "lower_edge": EDGES[:-1],
            "upper_edge": EDGES[1:],
            "n": count.astype(np.int64),
            **{
                name: pl.Series(values, nan_to_null=True) for name, values in zip(("mean_forecast", "lower", "upper"), columns, strict=True)
            },
        }
    )


def _outcomes(p: Floats, mass: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Yes outcomes of each group of calibrated forecasts: float64 (rows, G), `resamples` rows in all."""
    generator = np.random.Generator(np.random.PCG64(seed))
    trials = mass.astype(np.int64)
    block = max(1, _BLOCK // max(1, len(p)))
    for start in range(0, resamples, block):
        yield generator.binomial(trials, p, size=(min(block, resamples - start), len(p))).astype(np.float64)


def _middle(resampled: Floats, level: float) -> Floats:
    """The middle of each column that holds a share of `level`: float64 (2, columns), lower and upper."""
    return np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0) if resampled.size else np.empty((2, resampled.shape[1]))


def _evenly(groups: int) -> Ints:
    """Indices of at most `_POINTS` of so many groups, both ends among them."""
    return np.unique(np.linspace(0, groups - 1, min(groups, _POINTS)).astype(np.intp))


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise ScoringError(f"consistency band: level is {level}; give a mass between 0 and 1, such as 0.95")
    if resamples < 1:
        raise ScoringError(f"consistency band: resamples is {resamples}; give a positive number")
