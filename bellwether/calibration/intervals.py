"""Intervals of the metrics from the variation between clusters, with method and degrees of freedom, or the reason for a missing interval.

Intervals are Student's t around the metric on a scale on which it is nearly symmetric, with the jackknife's variance (`jackknife`): the logit for
scores in [0, 1], the logarithm for positive scores and for 1 - skill. Rates have Wilson intervals with the effective number of forecasts implied
by that variance. A metric that is a function of another one has its transformed interval. benchmarks/README.md has the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.estimates import Estimate
from bellwether.calibration.forecasts import DECILES, Bins, Floats, Forecasts
from bellwether.calibration.jackknife import Jackknife, LeaveOneOut, jackknife, satterthwaite
from bellwether.calibration.metrics import ESTIMATED, INTERVALS, Interval, Scale
from bellwether.calibration.outcome_noise import MANY, minimum_variance, pool_with_base_rate, slopes

#: Minimum number of clusters, and maximum share of one cluster, for an interval.
MIN_CLUSTERS = 3
LARGEST_SHARE = 0.5

NO_CLUSTERS = "no clusters were given"
#: Reason for a missing skill, ratio or rank.
FEW_CLUSTERS = "fewer than three clusters"
UNDEFINED = "undefined on these forecasts"
RATE = f"jackknife t, {Scale.WILSON.value}"
CONSTANT = "it does not vary between clusters"
DEPENDS_ON_ONE = "without some cluster it is undefined, or at the end of its range"

#: Logarithm of the largest ratio between an end and the value; a wider interval is uninformative.
_LONGEST = np.log(1_000)
UNBOUNDED = "it would reach to more than a thousand times the value"

#: Share and count of the rarer outcome; below both, the interval of the skill over the base rate undercovers.
_RARE_SHARE, _RARE_COUNT = 0.15, 25
RARE = f"fewer than {_RARE_COUNT} outcomes of the rarer kind, below {_RARE_SHARE:.0%} of all"
UNVARIED_SCORE = "the Brier score does not vary between clusters"

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Inputs of the intervals: metrics on all forecasts (`values`), and without each cluster (`ways`; `both` for the intersections of
    two-way clusters). `intervals` caches the results.
    """

    forecasts: Forecasts
    clusters: Clusters
    values: Mapping[str, float]
    ways: tuple[LeaveOneOut, ...]
    both: LeaveOneOut | None
    level: float
    intervals: dict[str, Estimate] = field(default_factory=dict)


def intervals(
    forecasts: Forecasts, clusters: Clusters | None, values: Mapping[str, float], level: float, bins: Bins = DECILES
) -> dict[str, Estimate]:
    """Compute the interval of every metric of `ESTIMATED`; the estimates' field `value` stays None. values: metrics on all forecasts, NaN
    if undefined.
    """
    if clusters is None:
        return {name: Estimate(None, reason=NO_CLUSTERS) for name in ESTIMATED}
    if clusters.count < MIN_CLUSTERS:
        return {name: Estimate(None, reason=few_clusters_reason(clusters.count)) for name in ESTIMATED}
    ways = tuple(LeaveOneOut.of(forecasts, way, bins) for way in clusters.ways)
    both = None if clusters.both is None else LeaveOneOut.of(forecasts, clusters.both, bins)
    sample = _Sample(forecasts, clusters, values, ways, both, level)
    return {name: _interval(sample, name) for name in ESTIMATED}


def mean_interval(values: Floats, weight: Floats, clusters: Clusters, scale: Scale, level: float) -> Estimate:
    """Compute the jackknife t interval of the weighted mean of non-negative values (N,), symmetric on `scale`; the estimate's field `value`
    stays None.
    """
    if clusters.count < MIN_CLUSTERS:
        return Estimate(None, reason=few_clusters_reason(clusters.count))
    value = float((weight * values).sum() / weight.sum())
    ways, both = (tuple(_leave_out(values, weight, way) for way in clusters.ways), clusters.both)
    estimated = jackknife(
        ways, None if both is None else _leave_out(values, weight, both), "mean", size="n", value=value, scale=_SCALES[scale][0]
    )
    if (reason := _jackknife_reason(estimated)) is not None:
        return Estimate(None, reason=reason)
    return _t_interval(value, estimated.variance, estimated.df, scale, level)


def _leave_out(values: Floats, weight: Floats, grouping: Grouping) -> LeaveOneOut:
    """Compute for each group the weighted mean of the values outside it."""
    total, size = grouping.sums(weight * values), grouping.sums(weight)
    rest = size.sum() - size
    without = np.divide(total.sum() - total, rest, out=np.full(grouping.count, np.nan), where=rest > 0)
    return LeaveOneOut({"n": size}, {"mean": without}, {"n": float(satterthwaite(size, size))}, 1.0)


def few_clusters_reason(clusters: int) -> str:
    """Return the text that explains a missing interval by too few clusters."""
    return f"{clusters} cluster{'' if clusters == 1 else 's'}; an interval needs {MIN_CLUSTERS}"


def large_cluster_reason(share: float) -> str:
    """Return the text that explains a missing interval by one cluster's large share of the weight."""
    return f"one cluster holds {math.ceil(round(100 * share, 6))}% of it; an interval needs at most {LARGEST_SHARE:.0%}"


def quantile(level: float, df: float) -> float:
    """Return the q for which Student's t lies between -q and q with probability `level`."""
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))


def wilson(rate: Floats, n: Floats, z: Floats | float) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's score interval of a rate (E. B. Wilson, JASA 22, 1927). n: effective number of trials. z: quantile of the
    interval.
    """
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.clip(centre - half, 0, rate), np.clip(centre + half, rate, 1)


def rate_ends(rate: float, *, variance: float, clusters: int, df: float, n: float, level: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a rate. The number of trials is the one that the rate's jackknife variance implies, at most
    `n`.

    A rate of 0 or 1 has no variance; its number of trials is the number of clusters.
    """
    if rate in (0, 1):
        effective = float(clusters)
    else:
        variance *= (clusters - 1) / clusters
        effective = min(n, rate * (1 - rate) / variance) if variance > 0 else n
    lower, upper = wilson(np.asarray(rate), np.asarray(effective), quantile(level, df))
    return float(lower), float(upper)


def _interval(sample: _Sample, name: str) -> Estimate:
    if name not in sample.intervals:
        estimate, most = _compute_interval(sample, name), INTERVALS[name].most
        if most is not None and estimate.upper is not None:
            estimate = replace(estimate, upper=min(estimate.upper, most))
        sample.intervals[name] = estimate
    return sample.intervals[name]


def _compute_interval(sample: _Sample, name: str) -> Estimate:
    plan, value = INTERVALS[name], sample.values[name]
    if plan.reason is not None or np.isnan(value):
        return Estimate(None, reason=plan.reason or UNDEFINED)
    if plan.source is not None:
        return _transform_interval(name, _bias_interval(sample) if plan.source == "bias" else _interval(sample, plan.source))
    if name == "macro_f1" and (
        missing := next((metric for metric in ("f1_yes", "f1_no") if _interval(sample, metric).lower is None), None)
    ):
        return Estimate(None, reason=f"{missing} has none: {_interval(sample, missing).reason}")
    if plan.scale is Scale.WILSON:
        return _rate_interval(sample, name, plan.size, value)
    if name == "brier_skill" and (reason := _skill_reason(sample)) is not None:
        return Estimate(None, reason=reason)
    return _score_interval(sample, name, plan, value)


def _skill_reason(sample: _Sample) -> str | None:
    """Return why the interval of the skill against the base rate is withheld, as it would not have the nominal coverage; None if it is not
    withheld.
    """
    brier = _interval(sample, "brier")
    if brier.reason == CONSTANT or brier.method == "constant":
        return UNVARIED_SCORE
    forecasts = sample.forecasts
    rate = sample.values["base_rate"]
    rarer = min(rate, 1 - rate)
    is_rare = forecasts.is_binary and rarer < _RARE_SHARE and rarer * len(forecasts.y) < _RARE_COUNT
    return RARE if is_rare and min(way.count for way in sample.clusters.ways) >= MANY else None


def _score_interval(sample: _Sample, name: str, plan: Interval, value: float) -> Estimate:
    assert plan.scale is not None
    estimated = jackknife(sample.ways, sample.both, name, size=plan.size, value=value, scale=_SCALES[plan.scale][0])
    if (reason := _jackknife_reason(estimated)) is not None:
        return Estimate(None, reason=reason)
    variance, few = estimated.variance, estimated.clusters < MANY
    slope = slopes(sample.forecasts, name) if few or variance <= _ROUNDING**2 else None
    if slope is not None and not slope.any():  # no outcome changes the score of such forecasts
        return Estimate(None, value, value, "constant")
    if slope is not None and few:
        variance = max(variance, minimum_variance(slope, pool_with_base_rate(sample.forecasts), sample.clusters))
    return _t_interval(value, variance, estimated.df, plan.scale, sample.level)


def _t_interval(value: float, variance: float, df: float, scale: Scale, level: float) -> Estimate:
    if variance <= _ROUNDING**2:
        return Estimate(None, reason=CONSTANT)
    forward, back = _SCALES[scale]
    reach = quantile(level, df) * np.sqrt(variance)
    if scale in (Scale.LOG, Scale.LOG_OF_RATIO) and not reach <= _LONGEST:
        return Estimate(None, reason=UNBOUNDED)
    lower, upper = sorted(float(back(forward(np.asarray(value)) + sign * reach)) for sign in (-1, 1))
    return Estimate(None, lower, upper, f"jackknife t, {scale.value}", df)


def _rate_interval(sample: _Sample, name: str, size: str, value: float) -> Estimate:
    """Return Wilson's interval of a rate; see `rate_ends`."""
    estimated = jackknife(sample.ways, sample.both, name, size=size, value=value, scale=lambda rate: rate)
    if (reason := _jackknife_reason(estimated)) is not None:
        return Estimate(None, reason=reason)
    way = sample.ways[0]
    lower, upper = rate_ends(
        value,
        variance=estimated.variance,
        clusters=estimated.clusters,
        df=estimated.df,
        n=float(way.sizes[size].sum()) / way.weight,
        level=sample.level,
    )
    return Estimate(None, lower, upper, RATE, estimated.df)


def _bias_interval(sample: _Sample) -> Estimate:
    """Return the jackknife t interval of mean p - mean y, without a transformation."""
    forecasts = sample.forecasts
    value = float((forecasts.weight * (forecasts.p - forecasts.y)).sum() / forecasts.weight.sum())
    estimated = jackknife(sample.ways, sample.both, "bias", size="n", value=value, scale=lambda value_: value_)
    if (reason := _jackknife_reason(estimated)) is not None or estimated.variance == 0:
        return Estimate(None, reason=reason or CONSTANT)
    reach = quantile(sample.level, estimated.df) * np.sqrt(estimated.variance)
    return Estimate(None, value - reach, value + reach, "jackknife t", estimated.df)


def _jackknife_reason(estimated: Jackknife) -> str | None:
    """Return why a jackknife interval is missing; None if it exists."""
    if estimated.clusters < MIN_CLUSTERS:
        return few_clusters_reason(estimated.clusters)
    if estimated.largest > LARGEST_SHARE:
        return large_cluster_reason(estimated.largest)
    return DEPENDS_ON_ONE if np.isnan(estimated.variance) else None


def _transform_interval(name: str, source: Estimate) -> Estimate:
    """Return the interval of the metric `name`, which is a function of another metric. source: interval of that other metric."""
    if source.lower is None or source.upper is None:
        return source
    lower, upper = _DERIVED[name](source.lower, source.upper)
    return Estimate(None, lower, upper, source.method, source.df)


def _square_interval(lower: float, upper: float) -> tuple[float, float]:
    """Return the range of x^2 for x from `lower` to `upper`."""
    minimum = 0.0 if lower <= 0 <= upper else min(lower**2, upper**2)
    return minimum, max(lower**2, upper**2)


def _variance_of_rate(lower: float, upper: float) -> tuple[float, float]:
    """Return the range of r (1 - r) for rates r from `lower` to `upper`."""
    ends = lower * (1 - lower), upper * (1 - upper)
    return min(ends), 0.25 if lower <= 0.5 <= upper else max(ends)


_DERIVED: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "skill_vs_half": lambda lower, upper: (1 - upper / 0.25, 1 - lower / 0.25),
    "uncertainty": _variance_of_rate,
    "yates_bias_squared": _square_interval,
}


def _logit(value: Floats) -> Floats:
    from scipy.special import logit

    inside = np.where(value > 1 - _ROUNDING, 1.0, value)
    return np.asarray(logit(np.where(inside < _ROUNDING, 0.0, inside)))


def _expit(value: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(value))


def _log(value: Floats) -> Floats:
    return np.asarray(np.log(np.where(value < _ROUNDING, 0.0, value)))


_SCALES: dict[Scale, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    Scale.LOGIT: (_logit, _expit),
    Scale.LOGIT_ABOVE_HALF: (lambda value: _logit(2 * value - 1), lambda value: (1 + _expit(value)) / 2),
    Scale.LOG: (_log, np.exp),
    Scale.LOG_OF_RATIO: (lambda value: _log(1 - value), lambda value: 1 - np.exp(value)),
}
