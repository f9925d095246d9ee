"""Cluster bootstrap of every metric: whole series are resampled, because questions of one series are not independent.

A replicate is a vector of weights, how often each cluster was drawn. Every metric is computed from weighted sums, so that nothing is copied
and several forecasters share the same draws, which makes their replicates paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether.calibration import strict
from bellwether.calibration.equal_mass import Ordered
from bellwether.calibration.forecasts import Floats, Forecasts, Ints
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.sufficient import WIDTH, Sums, per_cluster
from bellwether.errors import ScoringError

#: Floats held at a time by one block of replicates, about 16 MB; blocks that fit the cache are the fastest.
_BLOCK = 2_000_000

#: Multiplications in a matrix product up to which OpenBLAS uses one thread.
_ONE_THREAD = 250_000


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are made. The same plan gives the same draws in every process.

    Parameters
    ----------
    replicates: number of resamples; 0 makes no interval.
    seed: of the generator (PCG64).
    level: mass of the percentile interval.
    least_clusters: a forecaster whose forecasts come from fewer clusters gets no interval.
    most_undefined: an interval is withheld when a metric is undefined on more than this share of the replicates.
    """

    replicates: int = 10_000
    seed: int = 1950
    level: float = 0.95
    least_clusters: int = 2
    most_undefined: float = 0.05

    def __post_init__(self) -> None:
        if self.replicates < 0:
            raise ScoringError(f"bootstrap: replicates is {self.replicates}; give 0 for no interval, or a positive number")
        if not 0 < self.level < 1:
            raise ScoringError(f"bootstrap: level is {self.level}; give a mass between 0 and 1, such as 0.95")

    def weights(self, n_clusters: int, block: int) -> Iterator[Floats]:
        """Blocks of at most `block` replicates: float64 (block, n_clusters), how often each cluster was drawn. Draws do not depend on `block`."""
        generator = np.random.Generator(np.random.PCG64(self.seed))
        for start in range(0, self.replicates, block):
            rows = min(block, self.replicates - start)
            drawn = generator.integers(0, n_clusters, size=(rows, n_clusters))
            drawn += np.arange(rows)[:, None] * n_clusters
            yield np.bincount(drawn.ravel(), minlength=rows * n_clusters).reshape(rows, n_clusters).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Forecasts of one forecaster with the index of each one's cluster: intp (N,), in [0, n_clusters)."""

    forecasts: Forecasts
    cluster: Ints


def replicate(samples: Sequence[Clustered], n_clusters: int, plan: Bootstrap) -> Floats:
    """Every metric on every replicate, NaN where undefined.

    `samples` are forecasters on the same `n_clusters` clusters; a forecaster may lack some. Returns float64
    (forecasters, metrics, replicates), metrics in the order of `ESTIMATED`. Time grows with replicates x forecasts, memory beyond the
    result is bounded.
    """
    result = np.full((len(samples), len(ESTIMATED), plan.replicates), np.nan)
    if not n_clusters or not samples:
        return result
    sums = [exactly_summable(per_cluster(sample.forecasts, sample.cluster, n_clusters).matrix) for sample in samples]
    ordered = [Ordered.of(sample.forecasts) for sample in samples]
    sorted_cluster = [sample.cluster[order.order] for sample, order in zip(samples, ordered, strict=True)]
    largest = max(len(sample.cluster) for sample in samples)
    block = max(1, _BLOCK // (n_clusters + WIDTH + 5 * largest))
    start = 0
    for weights in plan.weights(n_clusters, block):
        rows = slice(start, start + len(weights))
        for index, (matrix, order, cluster) in enumerate(zip(sums, ordered, sorted_cluster, strict=True)):
            values = strict.from_sums(Sums(product(weights, matrix)), order.weighted_ace(weights.take(cluster, axis=1)))
            result[index, :, rows] = [values[name] for name in ESTIMATED]
        start += len(weights)
    return result


def percentile_interval(replicates: Floats, plan: Bootstrap) -> tuple[float, float]:
    """Percentile interval of one metric from its replicates, float64 (R,); (NaN, NaN) when too many of them are undefined."""
    defined = replicates[~np.isnan(replicates)]
    if len(defined) == 0 or len(replicates) - len(defined) > plan.most_undefined * len(replicates):
        return float("nan"), float("nan")
    tail = (1 - plan.level) / 2
    lower, upper = np.quantile(defined, [tail, 1 - tail])
    return float(lower), float(upper)


def product(weights: Floats, sums: Floats) -> Floats:
    """`weights @ sums`, in slices so small that BLAS works on them alone: threads cost such products more than they save."""
    totals = np.empty((len(weights), sums.shape[1]))
    rows = max(1, _ONE_THREAD // sums.size)
    for start in range(0, len(weights), rows):
        np.matmul(weights[start : start + rows], sums, out=totals[start : start + rows])
    return totals


def exactly_summable(sums: Floats) -> Floats:
    """Round each column of per-cluster sums (C, K) to a power of two so small that any replicate's total is exact in float64.

    A replicate draws C clusters, so no partial sum exceeds C times the largest. Exact sums make the result independent of the order in
    which a matrix product adds, and so of its blocks, its threads and who else is scored. A total changes by at most 2^-53 C times that bound.
    """
    bound = len(sums) * np.abs(sums).max(axis=0)
    exponent = np.maximum(np.frexp(bound)[1], -500)  # below that the power itself would vanish
    quantum = np.ldexp(1.0, exponent - 53)
    return np.rint(sums / quantum) * quantum
