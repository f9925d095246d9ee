"""Intervals and tests of all metrics: the Bayesian bootstrap over clusters, with a pseudo-cluster at each end of the possible outcomes.

A draw gives every cluster an exponential weight (Rubin, Annals of Statistics 9, 1981) and recomputes the statistic. A sample of few clusters, or
one of rare surprises, lacks outcomes that the next cluster may have. So each draw for the lower end also contains a pseudo-cluster: the average of
the observed clusters with the outcomes that lower the statistic most. For the upper end, they have the outcomes that raise it most. In the average,
each cluster counts in proportion to what its outcomes can change, so that clusters in which a forecast equals the reference dilute nothing. The
pseudo-cluster has half the weight of a cluster, so that it fades as clusters accumulate.

The interval lies between the lower quantile of the draws for the lower end and the upper quantile of those for the upper end. The p-value is the
smallest level at which the interval contains 0, and comes from the same draws. Two-way clusters have the product of two weights. Draws depend only
on the seed and on the clusters, and sums are exact, so that neither the order of the forecasts nor the process changes a result.
benchmarks/README.md has the measured coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Floats, Ints
from bellwether.errors import ScoringError

#: Minimum number of replicates of a test of calibration; fewer do not resolve a tail.
MIN_REPLICATES = 200
#: Minimum number of clusters of an interval.
MIN_CLUSTERS = 3
#: Reason for a missing skill, ratio or rank.
FEW_CLUSTERS = "fewer than three clusters"
NO_CLUSTERS = "no clusters were given"
UNDEFINED = "undefined on these forecasts"
CONSTANT = "no outcome changes it"

#: Number of draws of an interval, and of draws that share a random stream.
_DRAWS, _ROWS = 4_000, 200
#: Weight of the pseudo-cluster, in clusters.
_PSEUDO = 0.5
#: Minimum number of draws beyond 0 for a p-value from `_DRAWS` draws; a smaller p-value uses more draws, `_DRAWS_PER_TEST` for each test.
_RESOLVED, _DRAWS_PER_TEST = 20, 200
#: Maximum number of one-way clusters that are drawn individually.
_CELLS = 10_000
#: Number of statistics whose draws are in memory together.
_BATCH = 200
#: Unit of the weights of clusters, and their maximum in bits.
_WEIGHT_UNIT, _WEIGHT_BITS = 2.0**-12, 6
_ROUNDING = 1e-12
#: Maximum number of multiplications for which OpenBLAS uses one thread.
_ONE_THREAD = 250_000


@dataclass(frozen=True, slots=True)
class Inference:
    """Settings of intervals and tests. Equal settings give equal numbers in every process.

    Attributes:
        level: mass of the intervals.
        replicates: of calibration errors under calibration, at most 1,000 are used; 0 disables these tests.
        seed: of the generators (PCG64), also of the draws of intervals and paired tests.
    """

    level: float = 0.95
    replicates: int = 1_000
    seed: int = 1950

    def __post_init__(self) -> None:
        if self.replicates != 0 and self.replicates < MIN_REPLICATES:
            raise ScoringError(
                f"inference: replicates is {self.replicates}; give at least {MIN_REPLICATES}, or 0 for no simulated distribution"
            )
        if not 0 < self.level < 1:
            raise ScoringError(f"inference: level is {self.level}; give a mass between 0 and 1, such as 0.95")


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """A statistic of N observations: sum over terms t of coefficient_t * (sum of numerator_t) / (sum of denominator_t), weighted.


    numerators, denominators: float64 (1 + K, T, N); row 0 as observed, the others under each of K extreme outcomes of the observation.
    coefficients: (T,). relative: whether it is a skill, which only observations with a numerator move from 0.
    """

    numerators: Floats
    denominators: Floats
    coefficients: tuple[float, ...] = (1.0,)
    relative: bool = False

    @classmethod
    def mean(cls, values: Sequence[Floats]) -> Statistic:
        """Build a mean of values: as observed, and under each extreme outcome, float64 (N,) each."""
        numerators = np.stack(values)[:, None]
        return cls(numerators, np.ones_like(numerators))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Interval of a statistic and its two-sided p-value against 0; None with the `reason` if they are missing.

    A statistic that no outcome changes has no interval, and p = 1 if it is 0, such as the difference of identical forecasts, else p = 0.

    value: the statistic itself; None if undefined. n_clusters: number of clusters whose outcomes matter to it.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    p: float | None = None
    n_clusters: int = 0
    reason: str | None = None


def bootstrap(statistics: Iterable[Statistic], weight: Floats, clusters: Clusters, plan: Inference) -> list[Bounds]:
    """Compute intervals and p-values of statistics of the same N observations.

    The p-value is below 1 - level exactly if the interval excludes 0, at levels up to 0.95.

    Args:
        statistics: in the order of the result, all with the same number of terms.
        weight: weight of each observation, float64 (N,), positive.
        clusters: one-way or two-way clusters of the observations.
        plan: level and seed.
    """
    found: list[Bounds] = []
    unresolved: list[tuple[int, _Sums]] = []
    cells = _Cells.of(clusters, plan.seed)
    remaining = iter(statistics)
    while sums := [_Sums.of(statistic, weight, clusters, cells) for statistic in islice(remaining, _BATCH)]:
        drawn = [part for part in sums if part.reason is None]
        ends = iter(_find_ends(cells, drawn, plan.level))
        for part in sums:
            bounds = next(ends) if part.reason is None else part.bounds
            if bounds.p is not None and bounds.p < 2 * _RESOLVED / _DRAWS:
                unresolved.append((len(found), part))
            found.append(bounds)
    draws = _DRAWS_PER_TEST * len(found)
    if draws > _DRAWS:
        for start in range(0, len(unresolved), _BATCH):
            batch = unresolved[start : start + _BATCH]
            values = _count_beyond_zero(cells, [part for _, part in batch], draws)
            for (index, _), p in zip(batch, values, strict=True):
                found[index] = replace(found[index], p=p)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Cells of observations with one weight: clusters, or the intersections of two-way clusters.

    grouping: cells of the observations. ways: cluster of each cell by way, intp (cells,) each. counts: number of clusters by way.
    """

    grouping: Grouping
    ways: tuple[Ints, ...]
    counts: tuple[int, ...]
    seed: int

    @classmethod
    def of(cls, clusters: Clusters, seed: int) -> _Cells:
        if clusters.both is not None:
            _, first = np.unique(clusters.both.index, return_index=True)
            return cls(clusters.both, tuple(way.index[first] for way in clusters.ways), tuple(way.count for way in clusters.ways), seed)
        grouping = clusters.ways[0]
        if grouping.count > _CELLS:  # groups of independent clusters are independent too
            grouping = Grouping(grouping.index % _CELLS, _CELLS)
        return cls(grouping, (np.arange(grouping.count),), (grouping.count,), seed)

    def draws(self, number: int) -> Iterator[tuple[Floats, Floats]]:
        """Yield weights of cells, float64 (rows, cells), and of the pseudo-cluster, float64 (rows,), in blocks."""
        for block in range(-(-number // _ROWS)):
            weights = np.ones((1, 1))
            for way, (cells, count) in enumerate(zip(self.ways, self.counts, strict=True)):
                generator = np.random.Generator(np.random.PCG64([self.seed, way, block]))
                weights = weights * generator.standard_exponential((_ROWS, count))[:, cells]
            pseudo = np.random.Generator(np.random.PCG64([self.seed, len(self.ways), block])).standard_gamma(_PSEUDO, _ROWS)
            rows = min(_ROWS, number - block * _ROWS)
            yield np.minimum(np.rint(weights[:rows] / _WEIGHT_UNIT) * _WEIGHT_UNIT, 2.0**_WEIGHT_BITS), pseudo[:rows]


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of a statistic by cell, and of the pseudo-cluster at the lower and at the upper end.

    numerators, denominators: float64 (T, cells). low, high: numerators and denominators of the pseudo-cluster, float64 (2, T).
    """

    coefficients: tuple[float, ...]
    numerators: Floats
    denominators: Floats
    low: Floats
    high: Floats
    value: float
    n_clusters: int
    reason: str | None

    @classmethod
    def of(cls, statistic: Statistic, weight: Floats, clusters: Clusters, cells: _Cells) -> _Sums:
        sides = statistic.numerators * weight, statistic.denominators * weight
        numerators, denominators = (np.stack([cells.grouping.sums(term) for term in side[0]]) for side in sides)
        whole = denominators.sum(axis=1)
        if not (whole > 0).all():
            return cls(statistic.coefficients, numerators, denominators, whole, whole, float("nan"), 0, reason=UNDEFINED)
        ratios = numerators.sum(axis=1) / whole
        # Products are rounded before they are added: with fused multiply-adds equal terms would not cancel on some processors.
        value = float((np.asarray(statistic.coefficients) * ratios).sum())
        scale = np.asarray(statistic.coefficients) / whole * weight.sum()
        influence = (scale[:, None] * (statistic.numerators[1:] - ratios[:, None] * statistic.denominators[1:])).sum(axis=1)
        moved = (scale[:, None] * statistic.numerators[1:]).sum(axis=1) if statistic.relative else influence
        change = np.ptp(moved, axis=0)
        change = np.where(change > _ROUNDING, weight * change, 0.0)
        if not change.any():
            return cls(statistic.coefficients, numerators, denominators, whole, whole, value, clusters.count, reason=CONSTANT)
        share = max((_shares(way, change) for way in clusters.ways), key=lambda shares: float((shares * change).sum()))
        at = np.arange(len(weight))
        low, high = (
            _round_for_exact_sums(np.stack([(side[1:][chosen, :, at] * share[:, None]).sum(axis=0) for side in sides]))
            for chosen in (influence.argmin(axis=0), influence.argmax(axis=0))
        )
        contributing = min(int(np.count_nonzero(sums)) for way in clusters.ways for sums in (way.sums(change), *map(way.sums, sides[1][0])))
        reason = explain_few_clusters(contributing) if contributing < MIN_CLUSTERS else None
        return cls(statistic.coefficients, numerators, denominators, low, high, value, contributing, reason=reason)

    @property
    def bounds(self) -> Bounds:
        """Result without an interval."""
        p = None if self.reason != CONSTANT else float(abs(self.value) <= _ROUNDING)
        return Bounds(None if np.isnan(self.value) else self.value, p=p, n_clusters=self.n_clusters, reason=self.reason)


def _shares(way: Grouping, change: Floats) -> Floats:
    """Return the share of each observation's cluster in all that outcomes can change, float64 (N,)."""
    sizes = way.sums(change)
    return np.asarray((sizes / sizes.sum())[way.index])


def explain_few_clusters(clusters: int) -> str:
    """Return the text that explains a missing interval by too few clusters."""
    return f"{clusters} cluster{'' if clusters == 1 else 's'}; an interval needs {MIN_CLUSTERS}"


def _find_ends(cells: _Cells, sums: Sequence[_Sums], level: float) -> list[Bounds]:
    """Compute the interval and p-value of each statistic from `_DRAWS` draws."""
    draws = np.empty((2, len(sums), _DRAWS))
    for start, lows, highs in _draw_statistics(cells, sums, _DRAWS):
        draws[0, :, start : start + lows.shape[1]], draws[1, :, start : start + lows.shape[1]] = lows, highs
    place = max(round((1 - level) / 2 * _DRAWS) - 1, 0)
    lower = np.partition(draws[0], place, axis=1)[:, place]
    upper = np.partition(draws[1], _DRAWS - 1 - place, axis=1)[:, _DRAWS - 1 - place]
    below, above = np.count_nonzero(draws[0] <= 0, axis=1), np.count_nonzero(draws[1] >= 0, axis=1)
    return [
        Bounds(part.value, min(float(low), part.value), max(float(high), part.value), _two_sided(int(count), _DRAWS), part.n_clusters)
        for part, low, high, count in zip(sums, lower, upper, np.minimum(below, above), strict=True)
    ]


def _count_beyond_zero(cells: _Cells, sums: Sequence[_Sums], number: int) -> list[float]:
    """Return the p-value of each statistic from `number` draws."""
    below, above = np.zeros(len(sums), dtype=int), np.zeros(len(sums), dtype=int)
    for _, lows, highs in _draw_statistics(cells, sums, number):
        below += np.count_nonzero(lows <= 0, axis=1)
        above += np.count_nonzero(highs >= 0, axis=1)
    return [_two_sided(int(count), number) for count in np.minimum(below, above)]


def _draw_statistics(cells: _Cells, sums: Sequence[_Sums], number: int) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield the first draw of each block, and the block's draws for the lower and the upper end, float64 (statistics, rows) each."""
    if not sums:
        return
    coefficients = np.array([part.coefficients for part in sums]).T
    numerators, denominators = (
        [_round_for_exact_sums(np.stack(term, axis=1)) for term in zip(*(getattr(part, side) for part in sums), strict=True)]
        for side in ("numerators", "denominators")
    )
    ends = [np.stack([getattr(part, name) for part in sums], axis=-1) for name in ("low", "high")]
    start = 0
    for weights, pseudo in cells.draws(number):
        draws = [np.zeros((len(sums), len(weights))) for _ in ends]
        for term, coefficient in enumerate(coefficients):
            over, under = (_multiply(weights, sides[term]).T for sides in (numerators, denominators))
            for place, end in enumerate(ends):
                added = np.multiply.outer(end[:, term], pseudo)
                draws[place] += coefficient[:, None] * (over + added[0]) / (under + added[1])
        yield start, draws[0], draws[1]
        start += len(weights)


def _multiply(weights: Floats, sums: Floats) -> Floats:
    """Return `weights @ sums`, in slices of columns that are small enough for one thread of BLAS, which is faster here."""
    product = np.empty((len(weights), sums.shape[1]))
    columns = max(1, _ONE_THREAD // weights.size)
    for start in range(0, sums.shape[1], columns):
        np.matmul(weights, sums[:, start : start + columns], out=product[:, start : start + columns])
    return product


def _two_sided(count: int, draws: int) -> float:
    return min(2 * (count + 1) / (draws + 1), 1.0)


def _round_for_exact_sums(sums: Floats) -> Floats:
    """Round each column of sums (cells, columns) so that every weighted total is exact in float64, and does not depend on the order of addition.

    Weights have `_WEIGHT_BITS` bits before and 12 after the point.
    """
    bound = len(sums) * np.abs(sums).max(axis=0, initial=0.0) * 2.0**_WEIGHT_BITS
    exponent = np.maximum(np.frexp(bound)[1], -500)  # below this the quantum underflows
    quantum = np.ldexp(1.0, exponent - 53 + 12)
    return np.asarray(np.rint(sums / quantum) * quantum)
