"""Reliability curves with consistency bands: the range in which a calibrated forecaster's curve lies by chance.

A band assumes calibration (Bröcker & Smith, Weather and Forecasting 22, 2007; for CORP Dimitriadis, Gneiting & Jordan, PNAS 118, 2021). The
forecasts stay fixed, outcomes are drawn from them many times, and the band is the central range of the resulting curves, point by point. With
clusters, outcomes have correlation one half inside each (`calibration_test.calibrated_outcomes`).

Large samples use fewer resamples: above 20,000 forecasts fewer than 1,000, down to 200 from 100,000 on, and down to 50 with 200 clusters or more.
With too few for quantiles, the band is that of a normal distribution with their mean and standard deviation. (A recalibrated forecast is nearly normal there: its limit is
Chernoff's distribution, whose middle 95 % reach 1.94 standard deviations, not 1.96; Groeneboom and Wellner, J. Comput. Graph. Stat. 10, 2001.)
Both approximations move the ends by about a tenth of the band's width, which shrinks with n. Above 10,000 distinct forecasts, neighbours are
recalibrated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration.calibration_test import calibrated_outcomes
from bellwether.calibration.clusters import Clusters, Grouping, Labels
from bellwether.calibration.forecasts import BINS, Bins, Floats, Forecasts, Ints
from bellwether.calibration.sorted_forecasts import SortedForecasts, isotonic_fit
from bellwether.errors import ScoringError

RESAMPLES = 1_000

#: Maximum number of points of a curve; more distinct forecasts are thinned evenly by rank.
_POINTS = 1_000

#: Maximum number of distinct forecasts of a resample; more are merged evenly by rank.
_CELLS = 10_000

#: Number of floats in memory while outcomes are drawn.
_BLOCK = 2_000_000

#: Maximum number of drawn outcomes, and minimum number of resamples.
_MAX_OUTCOMES, _MIN_RESAMPLES = 20_000_000, 200

#: Number of clusters from which on sums are nearly normal, and the minimum number of resamples there.
_MANY_CLUSTERS, _MIN_NORMAL = 200, 50


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
    """Compute the CORP reliability curve (isotonic recalibration) of forecasts `p` of yes on outcomes `y`, with its consistency band.

    One row per distinct forecast, ascending: forecast, n (forecasts equal to it), recalibrated (its frequency of yes by isotonic regression),
    lower and upper (the band at `level` for `recalibrated` if the forecasts were calibrated). Above 1,000 distinct forecasts, 1,000 are returned.
    `clusters` as in `evaluate`. Raises `ScoringError` for invalid input.
    """
    _check(level, resamples)
    forecasts = Forecasts.of(p, y, weights=weights)
    cells = _Cells.of(forecasts, Bins.of())
    (resampled,) = _resample_statistics(cells, _independence(forecasts, clusters), resamples, seed, cells.curves)
    return cells.curve(_central_range(resampled, level, resamples))


def reliability_bands(
    p: ArrayLike,
    clusters: Labels | None = None,
    *,
    weights: ArrayLike | None = None,
    bins: int | ArrayLike = BINS,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 1950,
) -> pl.DataFrame:
    """Compute consistency bands of the binned reliability diagram of forecasts `p`: one row per bin, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, mean_forecast, lower and upper: the band at `level` for the bin's frequency of yes if the
    forecasts were calibrated. `clusters` and `weights` as in `evaluate`. Raises `ScoringError` for invalid input.
    """
    _check(level, resamples)
    forecasts = Forecasts.of(p, np.zeros(np.shape(p)), weights=weights)
    cells = _Cells.of(forecasts, Bins.of(bins))
    (rates,) = _resample_statistics(cells, _independence(forecasts, clusters), resamples, seed, cells.rates)
    return cells.bands(rates, level, resamples)


def bands_and_curve(
    forecasts: Forecasts, clusters: Clusters | None, bins: Bins, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 1950
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compute `reliability_bands` and `corp_curve` of validated forecasts from the same resamples."""
    _check(level, resamples)
    cells = _Cells.of(forecasts, bins)
    rates, curves = _resample_statistics(cells, clusters, resamples, seed, cells.rates, cells.curves)
    return cells.bands(rates, level, resamples), cells.curve(_central_range(curves, level, resamples))


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """N forecasts in ascending order, divided into K cells. A cell contains equal forecasts or, if there are too many different ones,
    neighbouring forecasts of one bin.

    start: intp (K,), position of the first forecast of each cell. mass: float64 (K,), its weight. member: float64 (K, bins), 1 in its bin.
    shown: intp (points,), groups of equal forecasts that the curve shows. at: intp (points,), their cells.
    """

    forecasts: Forecasts
    ordered: SortedForecasts
    bins: Bins
    start: Ints
    mass: Floats
    member: Floats
    shown: Ints
    at: Ints

    @classmethod
    def of(cls, forecasts: Forecasts, bins: Bins) -> _Cells:
        ordered = SortedForecasts.of(forecasts)
        groups = len(ordered.p)
        group_start = np.append(0, ordered.group_ends[:-1] + 1)[:groups].astype(np.intp)
        index = bins.index(ordered.p)
        first = np.union1d(_spaced_indices(groups, _CELLS), np.flatnonzero(np.diff(index, prepend=-1))).astype(np.intp)
        start, shown = group_start[first], _spaced_indices(groups, _POINTS)
        mass = np.add.reduceat(ordered.weight, start) if groups else np.zeros(0)
        member = np.zeros((len(first), bins.count))
        member[np.arange(len(first)), index[first]] = 1.0
        return cls(forecasts, ordered, bins, start, mass, member, shown, np.searchsorted(first, shown, side="right") - 1)

    @property
    def are_groups(self) -> bool:
        """True if each cell contains only equal forecasts."""
        return len(self.start) == len(self.ordered.p)

    def rates(self, yes: Floats) -> Floats:
        """Sum the weight of yes by bin, for R resamples: float64 (R, bins). yes: weight of yes by cell, (R, K)."""
        if self.forecasts.is_weighted:
            return np.asarray(yes @ self.member)
        # Counts are exact in any order, and a threaded matrix product is many times slower than these few sums.
        index = self.member.argmax(axis=-1)
        first = np.flatnonzero(np.diff(index, prepend=-1))
        rates = np.zeros((len(yes), self.bins.count))
        if len(first):
            rates[:, index[first]] = np.add.reduceat(yes, first, axis=-1, dtype=np.float64)
        return rates

    def curves(self, yes: Floats) -> Floats:
        """Recalibrate R resamples and return the recalibrated forecasts at the curve's points, (R, points). yes: weight of yes by cell, (R,
        K).
        """
        return isotonic_fit(self.mass, yes)[:, self.at]

    def curve(self, band: Floats) -> pl.DataFrame:
        """Build the frame that `corp_curve` returns. band: lower and upper ends of the consistency band, (2, points)."""
        mass, yes = self.ordered.tally()
        return pl.DataFrame(
            {
                "forecast": self.ordered.p[self.shown],
                "n": np.diff(self.ordered.group_ends + 1, prepend=0)[self.shown].astype(np.int64),
                "recalibrated": isotonic_fit(mass, yes)[self.shown],
                "lower": band[0],
                "upper": band[1],
            }
        )

    def bands(self, rates: Floats, level: float, resamples: int) -> pl.DataFrame:
        """Build the frame that `reliability_bands` returns. rates: weight of yes by bin in each resample, (R, bins). resamples: number of
        resamples requested.
        """
        p, weight, count = self.forecasts.p, self.forecasts.weight, self.bins.count
        index = self.bins.index(p)
        whole = self.mass @ self.member
        occupied = np.bincount(index, minlength=count) > 0
        columns = np.full((3, count), np.nan)
        columns[0, occupied] = np.bincount(index, weight * p, count)[occupied] / np.bincount(index, weight, count)[occupied]
        columns[1:, occupied] = _central_range(rates[:, occupied] / whole[occupied], level, resamples)
        named = zip(("mean_forecast", "lower", "upper"), columns, strict=True)
        return pl.DataFrame(
            {
                "bin": np.arange(count, dtype=np.int32),
                "lower_edge": self.bins.edges[:-1],
                "upper_edge": self.bins.edges[1:],
                "n": np.bincount(index, minlength=count).astype(np.int64),
                **{name: pl.Series(values, nan_to_null=True) for name, values in named},
            }
        )


def _independence(forecasts: Forecasts, clusters: Labels | None) -> Clusters | None:
    """Validate the clusters; None without labels, which means independent forecasts."""
    return None if clusters is None else Clusters.of(clusters, len(forecasts))


def _resample_statistics(
    cells: _Cells, clusters: Clusters | None, resamples: int, seed: int, *statistics: Callable[[Floats], Floats]
) -> list[Floats]:
    """Draw outcomes of calibrated forecasts `resamples` times, and compute each of `statistics` (functions of the weight of yes by cell),
    float64 (resamples, ...) each.
    """
    blocks: list[list[Floats]] = [[] for _ in statistics]
    for yes in _draw_cells(cells, clusters, resamples, seed):
        for rows, statistic in zip(blocks, statistics, strict=True):
            rows.append(statistic(yes))
    return [np.concatenate(rows) for rows in blocks]


def _draw_cells(cells: _Cells, clusters: Clusters | None, resamples: int, seed: int) -> Iterator[Floats]:
    """Draw outcomes of calibrated forecasts, and sum the weight of yes in each cell. Yields `resamples` rows, fewer for large samples, in
    blocks (block, K).
    """
    forecasts, size = cells.forecasts, len(cells.forecasts)
    grouping = Grouping(np.arange(size), size) if clusters is None else min(clusters.ways, key=lambda candidate: candidate.count)
    if grouping.count == size and not forecasts.is_weighted and cells.are_groups:
        yield from _draw_counts(cells, resamples, seed)
        return
    minimum = _MIN_NORMAL if grouping.count >= _MANY_CLUSTERS else _MIN_RESAMPLES
    count = min(resamples, max(minimum, _MAX_OUTCOMES // size))
    order, bits = cells.ordered.order, np.random.PCG64(seed)
    if grouping.count == size:
        outcomes = _draw_independent(forecasts.p[order], count, bits)
    else:
        dtype = np.float64 if count == resamples else np.float32
        outcomes = calibrated_outcomes(forecasts.p[order], grouping.take(order), count, bits, dtype=dtype)
    for rows in outcomes:
        yield np.add.reduceat(np.multiply(rows, cells.ordered.weight, out=rows), cells.start, axis=-1)


def _draw_independent(p: Floats, rows: int, bits: np.random.BitGenerator) -> Iterator[Floats]:
    """Draw independent outcomes of calibrated forecasts `p` (N,). Yields `rows` rows in blocks (block, N)."""
    generator = np.random.Generator(bits)
    block = max(1, _BLOCK // len(p))
    for start in range(0, rows, block):
        yield (generator.random((min(block, rows - start), len(p))) < p).astype(np.float64)


def _draw_counts(cells: _Cells, resamples: int, seed: int) -> Iterator[Floats]:
    """Draw the number of yes in each cell for calibrated forecasts with independent outcomes. Yields blocks (block, K)."""
    generator = np.random.Generator(np.random.PCG64(seed))
    trials = np.rint(cells.mass).astype(np.int64)
    block = max(1, _BLOCK // max(1, len(trials)))
    for start in range(0, resamples, block):
        size = (min(block, resamples - start), len(trials))
        yield generator.binomial(trials, cells.ordered.p, size=size).astype(np.float64)


def _central_range(resampled: Floats, level: float, resamples: int) -> Floats:
    """Return for each column the central interval with mass `level`, float64 (2, columns): lower and upper ends. resampled: (R, columns).

    With too few rows for quantiles, the range is that of a normal distribution.
    """
    if not resampled.size:
        return np.empty((2, resampled.shape[1]))
    if len(resampled) >= min(resamples, _MIN_RESAMPLES):
        ends = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    else:
        from scipy.special import ndtri

        reach = ndtri((1 + level) / 2) * resampled.std(axis=0, ddof=1)
        ends = resampled.mean(axis=0) + np.array([[-1.0], [1.0]]) * reach
    return np.clip(ends, 0, 1)


def _spaced_indices(groups: int, limit: int) -> Ints:
    """Return at most `limit` evenly spaced indices of `groups` groups, including the first and the last."""
    return np.unique(np.linspace(0, groups - 1, min(groups, limit)).astype(np.intp))


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise ScoringError(f"consistency band: level is {level}; give a mass between 0 and 1, such as 0.95")
    if resamples < 1:
        raise ScoringError(f"consistency band: resamples is {resamples}; give a positive number")
