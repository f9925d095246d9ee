"""Cluster bootstrap of every metric: whole series are resampled, because questions of one series are not independent.

A replicate is a vector of weights, how often each cluster was drawn. Every metric is computed from weighted sums, so that nothing is copied
and several forecasters share the same draws, which makes their replicates paired. Leaving out one cluster at a time is such weights too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bellwether.calibration import strict
from bellwether.calibration.equal_mass import weighted_ace
from bellwether.calibration.forecasts import Floats, Forecasts, Ints
from bellwether.calibration.isotonic import explained
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.ordered import Ordered
from bellwether.calibration.smooth import Smoother
from bellwether.calibration.sufficient import WIDTH, Sums, per_cluster
from bellwether.errors import ScoringError

#: Floats held at a time by one block of replicates, about 16 MB; blocks that fit the cache are the fastest.
_BLOCK = 2_000_000

#: Relative difference up to which two values of a metric are the same but for rounding.
_EQUAL = 1e-9

#: Multiplications in a matrix product up to which OpenBLAS uses one thread.
_ONE_THREAD = 250_000


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are made. The same plan gives the same draws in every process.

    Parameters
    ----------
    replicates: number of resamples; 0 makes no interval.
    seed: of the generator (PCG64).
    level: mass of the intervals.
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
    prepared = [_Prepared.of(sample, n_clusters) for sample in samples]
    return _metrics(prepared, plan.weights(n_clusters, _block(prepared, n_clusters)) if n_clusters else iter(()), plan.replicates)


def jackknife(samples: Sequence[Clustered], n_clusters: int) -> Floats:
    """Every metric without one cluster, for each cluster: as `replicate`, float64 (forecasters, metrics, n_clusters)."""
    prepared = [_Prepared.of(sample, n_clusters) for sample in samples]
    block = _block(prepared, n_clusters)
    each = np.arange(n_clusters)
    weights = ((each[start : start + block, None] != each).astype(np.float64) for start in range(0, n_clusters, block))
    return _metrics(prepared, weights, n_clusters)


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """A forecaster with all that does not change from one replicate to the next; `cluster` is that of each forecast in ascending order of p."""

    sums: Floats
    ordered: Ordered
    cluster: Ints
    smoother: Smoother

    @classmethod
    def of(cls, sample: Clustered, n_clusters: int) -> _Prepared:
        sums = exactly_summable(per_cluster(sample.forecasts, sample.cluster, n_clusters).matrix)
        ordered = Ordered.of(sample.forecasts)
        return cls(sums, ordered, sample.cluster[ordered.order], Smoother.near(ordered))

    def metrics(self, weights: Floats) -> list[Floats]:
        """Each metric of `ESTIMATED` on each replicate, float64 (R,), from float64 (R, C) counts of the clusters."""
        each = weights.take(self.cluster, axis=1)
        mass, yes = self.ordered.weighted_tally(each)
        ranked = strict.Ranked(weighted_ace(self.ordered, each), explained(mass, yes), self.smoother.replicates(mass, yes))
        values = strict.from_sums(Sums(product(weights, self.sums)), ranked)
        return [values[name] for name in ESTIMATED]


def _metrics(prepared: Sequence[_Prepared], blocks: Iterator[Floats], rows: int) -> Floats:
    """Every metric of every forecaster on `rows` rows of weights that come in blocks."""
    result = np.full((len(prepared), len(ESTIMATED), rows), np.nan)
    start = 0
    for weights in blocks:
        for index, sample in enumerate(prepared):
            result[index, :, start : start + len(weights)] = sample.metrics(weights)
        start += len(weights)
    return result


def _block(prepared: Sequence[_Prepared], n_clusters: int) -> int:
    """Rows of weights at a time."""
    largest = max((len(sample.cluster) for sample in prepared), default=0)
    return max(1, _BLOCK // (n_clusters + WIDTH + 8 * largest))


def percentile_interval(replicates: Floats, plan: Bootstrap) -> tuple[float, float]:
    """Percentile interval of one metric from its replicates, float64 (R,); (NaN, NaN) when too many of them are undefined."""
    defined = replicates[~np.isnan(replicates)]
    if len(defined) == 0 or len(replicates) - len(defined) > plan.most_undefined * len(replicates):
        return float("nan"), float("nan")
    tail = (1 - plan.level) / 2
    lower, upper = np.quantile(defined, [tail, 1 - tail])
    return float(lower), float(upper)


def bca_interval(value: float, replicates: Floats, without: Floats, plan: Bootstrap) -> tuple[float, float]:
    """Bias-corrected and accelerated interval of one metric (Efron, JASA 82, 1987), from the replicates of the percentile interval.

    value: the metric on all forecasts. replicates: float64 (R,). without: float64 (C,), the metric without each cluster.

    The acceleration is that of the jackknife over clusters, 0 where leaving out a cluster changes nothing. (NaN, NaN) when too many
    replicates are undefined, when a cluster cannot be left out, or when so many replicates are on one side of the value that the correction
    overshoots: its interval would lie beside the value, and rest on the few replicates of the other side.
    """
    nowhere = float("nan"), float("nan")
    defined = replicates[~np.isnan(replicates)]
    if len(defined) == 0 or len(replicates) - len(defined) > plan.most_undefined * len(replicates) or np.isnan(without).any():
        return nowhere
    equal = _EQUAL * max(abs(value), 1.0)
    below = (np.count_nonzero(defined < value - equal) + np.count_nonzero(defined <= value + equal)) / (2 * len(defined))
    if not 0 < below < 1:
        return nowhere
    normal = NormalDist()
    bias = normal.inv_cdf(below)
    acceleration = _acceleration(without, equal)
    tails = []
    for tail in ((1 - plan.level) / 2, (1 + plan.level) / 2):
        shifted = bias + normal.inv_cdf(tail)
        if acceleration * shifted >= 1:
            return nowhere
        tails.append(normal.cdf(bias + shifted / (1 - acceleration * shifted)))
    lower, upper = np.quantile(defined, tails)
    return (float(lower), float(upper)) if lower - equal <= value <= upper + equal else nowhere


def _acceleration(without: Floats, equal: float) -> float:
    """A sixth of the skewness of the jackknife's influences."""
    influence = without.mean() - without
    if np.abs(influence).max() <= equal:
        return 0.0
    return float(np.sum(influence**3) / (6 * np.sum(influence**2) ** 1.5))


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
