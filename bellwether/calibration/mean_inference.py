"""Intervals and tests of many means at once, from clustered values such as differences of losses, or P&L of episodes.

Intervals and tests use Student's t with the cluster-robust variance CR3 and Satterthwaite's degrees of freedom (`jackknife`), so that an interval excludes
0 exactly when the p-value is below 1 - level. No fixed scale removes the skewness of a mean. The interval is therefore the hull of the t
interval and of Hall's (P. Hall, On the removal of skewness by transformation, J. R. Stat. Soc. B 54, 1992). From 20 clusters on Hall's has half of
the estimated skewness, to avoid overcoverage. A known lower bound of the variance replaces this correction with fewer than 20 clusters or, given as
`floor`, with any number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.intervals import CONSTANT, LARGEST_SHARE, MIN_CLUSTERS, few_clusters_reason, large_cluster_reason
from bellwether.calibration.jackknife import satterthwaite
from bellwether.calibration.outcome_noise import MANY

NOTHING = "there is nothing to average"

T, SKEWED, FLOORED = "t", "t, corrected for skewness", "t, variance of prices"

#: Minimum standard error as a share of the largest cluster's mean; a smaller one is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSums:
    """Numerators (weighted sums) and denominators (sums of weights) of P means, by cluster: float64 (C, P) each."""

    total: Floats
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MeanTests:
    """P means with intervals and two-sided tests against 0, float64 (P,) each. NaN if missing; `reason` explains why.

    clusters: intp (P,), contributing clusters. method: of each interval.
    """

    mean: Floats
    clusters: Ints
    standard_error: Floats
    df: Floats
    t: Floats
    p: Floats
    lower: Floats
    upper: Floats
    method: Sequence[str | None]
    reason: Sequence[str | None]


def mean_tests(
    ways: Sequence[ClusterSums],
    both: ClusterSums | None = None,
    *,
    level: float = 0.95,
    min_variance: Callable[[int], float] | None = None,
    floor: Floats | None = None,
) -> MeanTests:
    """Test whether each mean differs from 0, with one-way or two-way clusters. min_variance, floor: lower bounds of the variance.

    ways: sums over the clusters of each way. both: over the intersections of two ways.
    min_variance: minimum variance of one mean by its position; used when fewer than 20 clusters contribute.
    floor: float64 (P,), the minimum variance of every mean under market prices; it replaces the correction for skewness.
    """
    # By columns, so that the sums of one mean do not depend on the number of others.
    ways = [ClusterSums(np.asfortranarray(way.total), np.asfortranarray(way.weight)) for way in ways]
    both = None if both is None else ClusterSums(np.asfortranarray(both.total), np.asfortranarray(both.weight))
    first = ways[0]
    whole = first.weight.sum(axis=0)
    mean = _ratio(first.total.sum(axis=0), whole)
    parts = [ClusterVariation.of(way, mean) for way in ways]
    clusters = np.min([part.clusters for part in parts], axis=0)
    df = np.min([part.df for part in parts], axis=0)
    largest = np.max([part.largest for part in parts], axis=0)
    variance = joint_variance(parts, None if both is None else ClusterVariation.of(both, mean))
    fewest = np.argmin([part.clusters for part in parts], axis=0)
    skewness = np.choose(fewest, [part.skewness for part in parts]) if len(parts) > 1 else parts[0].skewness
    few = clusters < MANY
    if min_variance is not None:
        for index in np.flatnonzero(few & (clusters >= MIN_CLUSTERS)):
            variance[index] = max(variance[index], min_variance(int(index)))
        skewness = np.where(few, 0.0, skewness)
    skewness = np.where(few, skewness, skewness / 2)
    if floor is not None:
        variance, skewness = np.maximum(variance, floor), np.zeros_like(variance)
    reasons = _reasons(whole, clusters, largest, variance, first)
    undefined = np.array([reason is not None for reason in reasons], dtype=bool)
    error = np.where(undefined, np.nan, np.sqrt(variance))
    df = np.where(undefined, np.nan, df)
    t = _ratio(mean, error)
    lower, upper = _interval_ends(mean, error, df, skewness, level)
    plain = T if floor is None else FLOORED
    method = [None if is_undefined else SKEWED if skew else plain for is_undefined, skew in zip(undefined, skewness, strict=True)]
    return MeanTests(mean, clusters, error, df, t, _p_value(t, df, skewness), lower, upper, method, reasons)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterVariation:
    """Variation of P means between the clusters of one grouping, (P,) each.

    clusters: number that contribute. df: degrees of freedom. largest: maximum share of one cluster. variance: CR3. skewness: of the
    clusters' residuals.
    """

    clusters: Ints
    df: Floats
    largest: Floats
    variance: Floats
    skewness: Floats

    @classmethod
    def of(cls, way: ClusterSums, mean: Floats) -> ClusterVariation:
        """Compute the variation of cluster sums about `mean` (P,)."""
        whole = way.weight.sum(axis=0)
        share = _ratio(way.weight, whole)
        residual = _ratio(way.total - np.nan_to_num(mean) * way.weight, whole) / np.where(share < 1, 1 - share, np.inf)
        residual = np.nan_to_num(residual)
        squares = np.square(residual).sum(axis=0)
        return cls(
            clusters=np.count_nonzero(way.weight, axis=0),
            df=satterthwaite(way.weight, way.weight),
            largest=np.nan_to_num(share).max(axis=0, initial=0.0),
            variance=squares,
            skewness=np.nan_to_num(_ratio((residual * np.square(residual)).sum(axis=0), squares * np.sqrt(squares))),
        )


def joint_variance(parts: Sequence[ClusterVariation], both: ClusterVariation | None) -> Floats:
    """Return the variance of P means from the variation between one-way or two-way clusters, float64 (P,). both: intersections of two-way
    clusters.
    """
    if both is None:
        return parts[0].variance.copy()
    return np.max([sum(part.variance for part in parts) - both.variance, *(part.variance for part in parts)], axis=0)


def _reasons(whole: Floats, clusters: Ints, largest: Floats, variance: Floats, sums: ClusterSums) -> list[str | None]:
    """Return for each mean why its test is missing; None if it has one."""
    scale = np.abs(_ratio(sums.total, sums.weight))
    constant = np.sqrt(variance) <= _ROUNDING * np.nan_to_num(scale).max(axis=0, initial=0.0)
    reasons: list[str | None] = []
    for index in range(len(whole)):
        if not whole[index]:
            reasons.append(NOTHING)
        elif clusters[index] < MIN_CLUSTERS:
            reasons.append(few_clusters_reason(int(clusters[index])))
        elif largest[index] > LARGEST_SHARE:
            reasons.append(large_cluster_reason(float(largest[index])))
        else:
            reasons.append(CONSTANT if constant[index] else None)
    return reasons


def _interval_ends(mean: Floats, error: Floats, df: Floats, skewness: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the smallest interval that contains the t interval and Hall's."""
    from scipy.special import stdtrit

    reach = stdtrit(df, (1 + level) / 2)
    lower, upper = _invert_hall(reach, skewness), _invert_hall(-reach, skewness)
    return mean - error * np.maximum(reach, lower), mean - error * np.minimum(-reach, upper)


def _p_value(t: Floats, df: Floats, skewness: Floats) -> Floats:
    """Return the larger of two p-values: of t, and of t after Hall's removal of skewness."""
    from scipy.special import stdtr

    smaller = np.minimum(np.abs(t), np.abs(_hall(t, skewness)))
    return np.asarray(np.maximum(2 * stdtr(df, -smaller), np.finfo(np.float64).tiny))


def _hall(t: Floats, skewness: Floats) -> Floats:
    """Remove the skewness of t: t + s t^2 / 3 + s^2 t^3 / 27 + s / 6, which increases in t."""
    return t + skewness * np.square(t) / 3 + np.square(skewness) * t * np.square(t) / 27 + skewness / 6


def _invert_hall(value: Floats, skewness: Floats) -> Floats:
    """Invert `_hall`: return the t that it transforms to `value`."""
    skewed: Bools = np.abs(skewness) > _ROUNDING
    divisor = np.where(skewed, skewness, 1.0)
    return np.where(skewed, 3 / divisor * (np.cbrt(1 + divisor * (value - divisor / 6)) - 1), value)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan, order="F"), where=denominator > 0)
