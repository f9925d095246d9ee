"""Reliability curves and their consistency bands: how far from the diagonal a calibrated forecaster would come by chance.

A band is made under the hypothesis of calibration (Bröcker & Smith, Weather and Forecasting 22, 2007; for CORP Dimitriadis, Gneiting & Jordan,
PNAS 118, 2021): the forecasts stay as they are, outcomes are drawn from them many times, and the band holds the middle of what the curve does,
point by point. With clusters, outcomes are correlated by one half inside each (`calibration_test.calibrated_outcomes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.binning import BINS, Bins
from bellwether.calibration.calibration_test import calibrated_outcomes
from bellwether.calibration.clusters import Clusters, Labels
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

#: Correlated outcomes that are drawn at most, and resamples that remain at least.
_MOST_OUTCOMES, _LEAST_RESAMPLES = 20_000_000, 200


def corp_curve(
    p: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 1950,
) -> pl.DataFrame:
    """The CORP reliability curve of forecasts `p` of yes on outcomes `y`, with its consistency band.

    One row per distinct forecast, ascending: forecast, n (forecasts equal to it), recalibrated (the frequency of yes that isotonic
    regression gives it), lower and upper (the band at `level` for `recalibrated` if the forecasts were calibrated). Of more than 1,000
    distinct forecasts, 1,000 are given. `clusters` as in `evaluate`. Raises `ScoringError` for what cannot be scored.
    """
    import polars as pl

    _check(level, resamples)
    forecasts = Forecasts.of(p, y, weights=weights)
    ordered = Ordered.of(forecasts)
    mass, yes = ordered.tally()
    shown = _evenly(len(ordered.p))
    drawn = _drawn(forecasts, ordered, clusters, resamples, seed)
    resampled = np.concatenate([fit(mass, outcomes)[:, shown] for outcomes in drawn])
    lower, upper = _middle(resampled, level)
    return pl.DataFrame(
        {
            "forecast": ordered.p[shown],
            "n": np.diff(ordered.group_ends + 1, prepend=0)[shown].astype(np.int64),
            "recalibrated": fit(mass, yes)[shown],
            "lower": lower,
            "upper": upper,
        }
    )


def reliability_bands(
    p: ArrayLike,
    clusters: Labels | None = None,
    *,
    bins: int | ArrayLike = BINS,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 1950,
) -> pl.DataFrame:
    """Consistency bands of the binned reliability diagram of forecasts `p`: one row per bin, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, mean_forecast, lower and upper: the band at `level` for the bin's frequency of yes if the
    forecasts were calibrated. `clusters` as in `evaluate`. Raises `ScoringError` for what cannot be scored.
    """
    import polars as pl

    _check(level, resamples)
    chosen = Bins.of(bins)
    forecasts = Forecasts.of(p, np.zeros(np.shape(p)))
    ordered = Ordered.of(forecasts)
    mass, _ = ordered.tally()
    member = np.zeros((len(mass), chosen.count))
    member[np.arange(len(mass)), chosen.index(ordered.p)] = 1.0
    count = mass @ member
    some = count > 0
    each = np.where(some, count, np.nan)
    columns = np.full((3, chosen.count), np.nan)
    columns[0] = (mass * ordered.p) @ member / each
    rates = np.concatenate([drawn @ member for drawn in _drawn(forecasts, ordered, clusters, resamples, seed)]) / each
    columns[1:, some] = np.clip(_middle(rates[:, some], level), 0, 1)
    return pl.DataFrame(
        {
            "bin": np.arange(chosen.count, dtype=np.int32),
            "lower_edge": chosen.edges[:-1],
            "upper_edge": chosen.edges[1:],
            "n": count.astype(np.int64),
            **{
                name: pl.Series(values, nan_to_null=True) for name, values in zip(("mean_forecast", "lower", "upper"), columns, strict=True)
            },
        }
    )


def _drawn(forecasts: Forecasts, ordered: Ordered, clusters: Labels | None, resamples: int, seed: int) -> Iterator[Floats]:
    """Yes outcomes of each group of calibrated forecasts: float64 (rows, G), `resamples` rows in all."""
    if clusters is None:
        yield from _independent(ordered, resamples, seed)
        return
    known = Clusters.of(clusters, len(forecasts))
    way = min(known.ways, key=lambda one: one.count).take(ordered.order)
    fewer = max(_LEAST_RESAMPLES, min(resamples, _MOST_OUTCOMES // max(1, len(forecasts))))
    for outcomes in calibrated_outcomes(forecasts.p[ordered.order], way, min(resamples, fewer), np.random.PCG64(seed)):
        yield ordered.group_sums(outcomes * ordered.weight)


def _independent(ordered: Ordered, resamples: int, seed: int) -> Iterator[Floats]:
    generator = np.random.Generator(np.random.PCG64(seed))
    mass, _ = ordered.tally()
    trials = np.rint(mass).astype(np.int64)
    block = max(1, _BLOCK // max(1, len(mass)))
    for start in range(0, resamples, block):
        drawn = generator.binomial(trials, ordered.p, size=(min(block, resamples - start), len(mass)))
        yield drawn.astype(np.float64) * np.divide(mass, trials, out=np.ones(len(mass)), where=trials > 0)


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
