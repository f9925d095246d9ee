"""Reliability: observed frequencies by bin with intervals, the CORP curve, and consistency bands.

A consistency band is the range in which a calibrated forecaster's frequencies lie by chance (Bröcker & Smith, Weather and Forecasting 22, 2007; for
CORP Dimitriadis, Gneiting & Jordan, PNAS 118, 2021). The forecasts stay fixed, outcomes are drawn from them many times, and the band is the middle
95 % of the resulting frequencies, point by point. With clusters, outcomes have correlation one half inside each
(`calibration_test.calibrated_outcomes`).

Above 20,000 forecasts, fewer than 1,000 resamples are drawn, down to 200. Above 10,000 distinct forecasts, neighbours of one bin are recalibrated
together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration.bootstrap import NO_CLUSTERS, Bounds, Inference, Statistic, bootstrap
from bellwether.calibration.calibration_test import calibrated_outcomes
from bellwether.calibration.clusters import Clusters, Grouping, Labels
from bellwether.calibration.forecasts import BINS, EDGES, Floats, Forecasts, Ints, bin_index
from bellwether.calibration.formulas import sum_bins
from bellwether.calibration.sorted_forecasts import SortedForecasts, isotonic_fit

RESAMPLES = 1_000

_EMPTY = "no forecast in the bin"

#: Mass of a consistency band.
_LEVEL = 0.95

#: Maximum number of points of a curve; more distinct forecasts are thinned evenly by rank.
_POINTS = 1_000

#: Maximum number of distinct forecasts of a resample; more are merged evenly by rank.
_CELLS = 10_000

#: Maximum number of drawn outcomes, and minimum number of resamples.
_MAX_OUTCOMES, _MIN_RESAMPLES = 20_000_000, 200


def reliability_bins(
    p: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    *,
    weights: ArrayLike | None = None,
    level: float = Inference().level,
) -> pl.DataFrame:
    """Compute the reliability table of forecasts `p` of yes against outcomes `y`: one row per bin, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, n_clusters, mean_forecast, yes_rate, gap (mean_forecast - yes_rate), yes_rate_lower, yes_rate_upper
    and reason (of a missing interval), as in the table benchmark/reliability. Intervals need `clusters`, as in `evaluate`; give `range(N)` for
    independent forecasts. Raises `ScoringError` for invalid input.
    """
    forecasts = Forecasts.of(p, y, weights=weights)
    return bins_of(forecasts, None if clusters is None else Clusters.of(clusters, len(forecasts)), Inference(level))


def bins_of(forecasts: Forecasts, clusters: Clusters | None, plan: Inference | None = None) -> pl.DataFrame:
    """Compute the table of `reliability_bins` from validated forecasts. plan: level and seed of the intervals."""
    sums, index = sum_bins(forecasts), bin_index(forecasts.p)
    mean_forecast, yes_rate = (np.divide(part, sums.n, out=np.full(BINS, np.nan), where=sums.n > 0) for part in (sums.p, sums.yes))
    rates = _rates(forecasts, clusters, index, plan or Inference())
    filled = {
        "mean_forecast": mean_forecast,
        "yes_rate": yes_rate,
        "gap": mean_forecast - yes_rate,
        "yes_rate_lower": [rate.lower for rate in rates],
        "yes_rate_upper": [rate.upper for rate in rates],
    }
    return _bin_edges(index).with_columns(
        pl.Series("n_clusters", [rate.n_clusters for rate in rates], dtype=pl.Int64),
        *(pl.Series(name, values, dtype=pl.Float64, nan_to_null=True) for name, values in filled.items()),
        pl.Series("reason", [rate.reason for rate in rates], dtype=pl.String),
    )


def _bin_edges(index: Ints) -> pl.DataFrame:
    """Return one row per bin: bin, lower_edge, upper_edge and n. index: bin of each forecast."""
    return pl.DataFrame(
        {
            "bin": np.arange(BINS, dtype=np.int32),
            "lower_edge": EDGES[:-1],
            "upper_edge": EDGES[1:],
            "n": np.bincount(index, minlength=BINS).astype(np.int64),
        }
    )


def _rates(forecasts: Forecasts, clusters: Clusters | None, index: Ints, plan: Inference) -> list[Bounds]:
    """Compute the frequency of yes in each bin with its interval. index: bin of each forecast."""
    outcomes = (forecasts.y, np.zeros(len(forecasts)), np.ones(len(forecasts)))
    inside = [index == place for place in range(BINS)]
    if clusters is None:
        return [Bounds(None, reason=NO_CLUSTERS if within.any() else _EMPTY) for within in inside]
    rates = (
        Statistic(np.stack([y * within for y in outcomes])[:, None], np.broadcast_to(within.astype(float), (3, 1, len(within))))
        for within in inside
    )
    bounds = bootstrap(rates, forecasts.weight, clusters, plan)
    return [bound if within.any() else replace(bound, reason=_EMPTY) for bound, within in zip(bounds, inside, strict=True)]


def corp_curve(
    p: ArrayLike, y: ArrayLike, clusters: Labels | None = None, *, weights: ArrayLike | None = None, seed: int = 1950
) -> pl.DataFrame:
    """Compute the CORP reliability curve (isotonic recalibration) of forecasts `p` of yes on outcomes `y`, with its consistency band.

    One row per distinct forecast, ascending: forecast, n (forecasts equal to it), recalibrated (its frequency of yes by isotonic regression),
    lower and upper (the 95 % band for `recalibrated` if the forecasts were calibrated). Above 1,000 distinct forecasts, 1,000 are returned.
    `clusters` as in `evaluate`. Raises `ScoringError` for invalid input.
    """
    forecasts = Forecasts.of(p, y, weights=weights)
    cells = _Cells.of(forecasts)
    groups = len(cells.ordered.p)
    shown = _spaced_indices(groups, _POINTS)
    at = np.searchsorted(cells.first, shown, side="right") - 1
    drawn = [isotonic_fit(cells.mass, yes)[:, at] for yes in _draw_cells(cells, _independence(forecasts, clusters), RESAMPLES, seed)]
    band = _central_range(np.concatenate(drawn))
    mass, yes = cells.ordered.tally()
    return pl.DataFrame(
        {
            "forecast": cells.ordered.p[shown],
            "n": np.diff(cells.ordered.starts, append=len(forecasts))[shown].astype(np.int64),
            "recalibrated": isotonic_fit(mass, yes)[shown],
            "lower": band[0],
            "upper": band[1],
        }
    )


def reliability_bands(
    p: ArrayLike, clusters: Labels | None = None, *, weights: ArrayLike | None = None, resamples: int = RESAMPLES, seed: int = 1950
) -> pl.DataFrame:
    """Compute consistency bands of the binned reliability diagram of forecasts `p`: one row per bin, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, mean_forecast, lower and upper: the 95 % band for the bin's frequency of yes if the forecasts were
    calibrated. `clusters` and `weights` as in `evaluate`. Raises `ScoringError` for invalid input.
    """
    forecasts = Forecasts.of(p, np.zeros(np.shape(p)), weights=weights)
    cells, index, sums = _Cells.of(forecasts), bin_index(forecasts.p), sum_bins(forecasts)
    cell_bins = bin_index(cells.ordered.p[cells.first])
    occupied, first = np.unique(cell_bins, return_index=True)
    drawn = [
        np.add.reduceat(yes, first, axis=1) if len(first) else np.zeros((len(yes), 0))
        for yes in _draw_cells(cells, _independence(forecasts, clusters), resamples, seed)
    ]
    columns = np.full((3, BINS), np.nan)
    columns[0, occupied] = sums.p[occupied] / sums.n[occupied]
    columns[1:, occupied] = _central_range(np.concatenate(drawn) / sums.n[occupied])
    named = zip(("mean_forecast", "lower", "upper"), columns, strict=True)
    return _bin_edges(index).with_columns(pl.Series(name, values, nan_to_null=True) for name, values in named)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """N forecasts in ascending order, divided into K cells. A cell contains equal forecasts or, if there are too many different ones,
    neighbouring forecasts of one bin.

    first: intp (K,), the first group of equal forecasts of each cell. start: intp (K,), its first forecast. mass: float64 (K,), its weight.
    """

    forecasts: Forecasts
    ordered: SortedForecasts
    first: Ints
    start: Ints
    mass: Floats

    @classmethod
    def of(cls, forecasts: Forecasts) -> _Cells:
        ordered = SortedForecasts.of(forecasts)
        bin_starts = np.flatnonzero(np.diff(bin_index(ordered.p), prepend=-1))
        first = np.union1d(_spaced_indices(len(ordered.p), _CELLS), bin_starts).astype(np.intp)
        start = ordered.starts[first]
        return cls(forecasts, ordered, first, start, np.add.reduceat(ordered.weight, start) if len(start) else np.zeros(0))


def _independence(forecasts: Forecasts, clusters: Labels | None) -> Clusters | None:
    """Validate the clusters; None without labels, which means independent forecasts."""
    return None if clusters is None else Clusters.of(clusters, len(forecasts))


def _draw_cells(cells: _Cells, clusters: Clusters | None, resamples: int, seed: int) -> Iterator[Floats]:
    """Draw outcomes of calibrated forecasts, and sum the weight of yes in each cell. Yields `resamples` rows, fewer for large samples, in
    blocks (block, K).
    """
    size, p = len(cells.forecasts), cells.forecasts.p[cells.ordered.order]
    if not size:
        yield np.zeros((1, 0))
        return
    grouping = Grouping(np.arange(size), size) if clusters is None else min(clusters.ways, key=lambda way: way.count)
    rows = min(resamples, max(_MIN_RESAMPLES, _MAX_OUTCOMES // size))
    for outcomes in calibrated_outcomes(p, grouping.take(cells.ordered.order), rows, np.random.PCG64(seed)):
        yield np.add.reduceat(outcomes * cells.ordered.weight, cells.start, axis=1)


def _central_range(resampled: Floats) -> Floats:
    """Return for each column the central interval, float64 (2, columns): lower and upper ends. resampled: (R, columns)."""
    return np.clip(np.quantile(resampled, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0), 0, 1)


def _spaced_indices(groups: int, limit: int) -> Ints:
    """Return at most `limit` evenly spaced indices of `groups` groups, including the first and the last."""
    return np.unique(np.linspace(0, groups - 1, min(groups, limit)).astype(np.intp))
