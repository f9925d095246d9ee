"""Intervals of the arena's metrics, which are at least as wide as market prices imply.

Losses of a favourite at .97 are rare: a sample without losses looks certain. The outcome of a bet at price p has variance p (1 - p), so that a
metric that is linear in outcomes, with known slopes (derivatives), has a known variance if prices are the true probabilities. All intervals
and tests use Student's t with the larger of the variance over events and this variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.estimates import Estimate
from bellwether.calibration.forecasts import Floats, Ints
from bellwether.calibration.intervals import CONSTANT, UNDEFINED, quantile
from bellwether.calibration.mean_inference import ClusterSums, ClusterVariation, MeanTests, mean_tests

#: Methods of intervals.
UNCHANGED = "constant"
FIELLER = "t, variance of prices, of a ratio"
#: Assumed correlation of outcomes of different markets of one event.
_CORRELATION = 0.5
EXPECTED = "t, variance of prices, over the expected score of the price"


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """N uncertain outcomes. chance: probability of each outcome, from its price, float64 (N,). market, event: index of the outcome's market and
    event, intp (N,).
    """

    chance: Floats
    market: Ints
    event: Ints

    @classmethod
    def of(cls, chance: Floats, market: Floats | Ints, event: Floats | Ints) -> Exposure:
        """Build an exposure. chance: probabilities, clipped to [0, 1]. market, event: any labels; they are numbered from 0."""
        dense = (np.unique(labels, return_inverse=True)[1].astype(np.intp) for labels in (market, event))
        return cls(np.clip(chance, 0.0, 1.0), *dense)

    def take(self, rows: Ints) -> Exposure:
        """Return the exposure of selected outcomes, with markets and events numbered from 0. rows: indices of the outcomes."""
        return Exposure.of(self.chance[rows], self.market[rows], self.event[rows])

    def variance(self, slope: Floats) -> Floats:
        """Return the variance of P weighted sums of the outcomes if the prices are the true probabilities, increased for rare outcomes, float64
        (P,). slope: weights (N, P).
        """
        return self.joint_variance(self.deviations(slope))

    def deviations(self, slope: Floats) -> Floats:
        """Return the signed standard deviation that each market adds to P weighted sums of the outcomes, float64 (markets, P). slope: weights (N,
        P).
        """
        return _sum_groups(self.market, slope * np.sqrt(self.chance * (1 - self.chance))[:, None])

    def joint_variance(self, deviation: Floats) -> Floats:
        """Return the variance of P sums over all markets, increased for rare outcomes, float64 (P,). deviation: what each market adds (markets,
        P).

        Rare outcomes have fat tails: the excess kurtosis is one over the effective number of expected surprises. The variance is multiplied by
        one plus the kurtosis, as if one more surprise had occurred.
        """
        return np.asarray(self.covariance(deviation, deviation) * (1 + self.tails(deviation)))

    def covariance(self, first: Floats, second: Floats) -> Floats:
        """Return the covariance of P pairs of sums over all markets, float64 (P,). first, second: deviation that each market adds (markets, P).
        Markets of one event are assumed to have correlation 0.5.
        """
        event = np.zeros(len(first), dtype=np.intp)
        event[self.market] = self.event
        together = _sum_groups(event, first) * _sum_groups(event, second)
        return np.asarray((1 - _CORRELATION) * (first * second).sum(axis=0) + _CORRELATION * together.sum(axis=0))

    def tails(self, deviation: Floats) -> Floats:
        """Return the excess kurtosis of P sums over independent markets, float64 (P,). deviation: what each market adds (markets, P)."""
        typical = np.bincount(self.market, self.chance * (1 - self.chance)) / np.bincount(self.market)
        squares = np.square(deviation)
        heavy = np.divide(np.square(squares), typical[:, None], out=np.zeros(squares.shape), where=typical[:, None] > 0).sum(axis=0)
        whole = squares.sum(axis=0)
        return np.divide(heavy, np.square(whole), out=np.zeros(len(whole)), where=whole > 0)


@dataclass(frozen=True, slots=True, eq=False)
class LinearMetric:
    """N values, each a linear function of one outcome. slope: derivative of each value by its outcome. low, high: bounds to which intervals are
    cut.
    """

    values: Floats
    slope: Floats
    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class PricedMeans:
    """Estimates means and sums of N values, with intervals over events that are at least as wide as prices imply. level: of the intervals, such
    as 0.95.
    """

    exposure: Exposure
    level: float

    def estimates(self, metrics: Mapping[str, LinearMetric]) -> dict[str, Estimate]:
        """Return the mean of each metric by name, with an interval that is cut to the metric's bounds."""
        n = len(self.exposure.chance)
        if not n:
            return dict.fromkeys(metrics, Estimate(None, reason=UNDEFINED))
        values, slope = (np.stack([getattr(metric, field) for metric in metrics.values()], axis=1) for field in ("values", "slope"))
        tested = mean_tests([self._clusters(values)], level=self.level, floor=self.exposure.variance(slope / n))
        estimates = {}
        for index, (name, metric) in enumerate(metrics.items()):
            if not metric.slope.any() and np.ptp(metric.values) == 0 and tested.reason[index] in (None, CONSTANT):
                estimates[name] = Estimate(value := float(metric.values[0]), value, value, UNCHANGED)
            else:
                estimates[name] = _cut_interval(float(metric.values.mean()), tested, index, 1.0, (metric.low, metric.high))
        return estimates

    def total(self, metric: LinearMetric) -> Estimate:
        """Return the sum of a metric's values, with an interval that is cut to the metric's bounds."""
        by_event = _sum_groups(self.exposure.event, metric.values[:, None])
        count = len(by_event)
        floor = self.exposure.variance(metric.slope[:, None] / count)
        tested = mean_tests([ClusterSums(by_event, np.ones((count, 1)))], level=self.level, floor=floor)
        return _cut_interval(float(metric.values.sum()), tested, 0, count, (metric.low, metric.high))

    def skill(self, loss: LinearMetric, price: LinearMetric) -> Estimate:
        """Return the skill 1 - sum(loss) / sum(price), with Fieller's interval of the ratio. price: losses of the market price as forecast."""
        total = price.values.sum()
        if not total:
            return Estimate(None, reason=UNDEFINED)
        skill = 1 - float(loss.values.sum() / total)
        sums = self._clusters(np.stack([loss.values, price.values, loss.values - price.values], axis=1))
        tested = mean_tests([sums], level=self.level)
        if (reason := next((reason_text for reason_text in tested.reason if reason_text not in (None, CONSTANT)), None)) is not None:
            return Estimate(skill, reason=reason)
        if np.array_equal(loss.values, price.values) and np.array_equal(loss.slope, price.slope):
            return Estimate(0.0, 0.0, 0.0, UNCHANGED)
        spread = ClusterVariation.of(sums, tested.mean)
        first, second, difference = spread.variance
        reach, df = quantile(self.level, float(spread.df[0])), float(spread.df[0])
        products = (first, second, (first + second - difference) / 2), self._expected_products(loss, price, 1 - skill)
        ends = [_fieller_interval(tested.mean, product, reach) for product in products]
        if ends[0] is None or ends[1] is None:
            return self._skill_over_expected(skill, loss, price)
        lower, upper = 1 - max(ends[0][1], ends[1][1]), 1 - max(min(ends[0][0], ends[1][0]), 0.0)
        return Estimate(skill, lower, upper, FIELLER, df)

    def _expected_products(self, loss: LinearMetric, price: LinearMetric, ratio: float) -> tuple[float, float, float]:
        """Return the variances of the mean losses of forecasts and of prices, and their covariance, if prices are the true probabilities;
        increased for rare outcomes. ratio: mean loss of forecasts divided by that of prices.
        """
        ours, theirs = (self.exposure.deviations(metric.slope[:, None] / len(metric.slope)) for metric in (loss, price))
        tails = 1 + max(self.exposure.tails(ours - ratio * theirs)[0], self.exposure.tails(theirs)[0])
        first, second, both = (
            float(self.exposure.covariance(*pair)[0] * tails) for pair in ((ours, ours), (theirs, theirs), (ours, theirs))
        )
        return first, second, both

    def _skill_over_expected(self, skill: float, loss: LinearMetric, price: LinearMetric) -> Estimate:
        """Return a skill with the interval of the mean difference of scores divided by the expected score of the price. Used where the actual
        score of the price may be 0.
        """
        better = self.estimates({"better": LinearMetric(price.values - loss.values, price.slope - loss.slope)})["better"]
        expected = float((self.exposure.chance * (1 - self.exposure.chance)).mean())
        if better.lower is None or better.upper is None or not expected:
            return Estimate(skill, reason=better.reason or UNDEFINED)
        return Estimate(skill, min(better.lower / expected, skill), max(min(better.upper / expected, 1.0), skill), EXPECTED, better.df)

    def _clusters(self, values: Floats) -> ClusterSums:
        size = np.bincount(self.exposure.event).astype(np.float64)[:, None]
        return ClusterSums(_sum_groups(self.exposure.event, values), np.repeat(size, values.shape[1], axis=1))


def _sum_groups(index: Ints, values: Floats) -> Floats:
    """Sum the rows of `values` (N, P) that have the same group number in `index` (N,), float64 (groups, P)."""
    return np.stack([np.bincount(index, column) for column in values.T], axis=1)


def _cut_interval(value: float, tested: MeanTests, index: int, scale: float, ends: tuple[float, float]) -> Estimate:
    """Return an estimate with the interval of test number `index`, multiplied by `scale`, cut to `ends`, and widened to contain `value`."""
    if tested.reason[index] is not None:
        return Estimate(value, reason=tested.reason[index])
    lower, upper = max(float(tested.lower[index]) * scale, ends[0]), min(float(tested.upper[index]) * scale, ends[1])
    return Estimate(value, min(lower, value), max(upper, value), tested.method[index], float(tested.df[index]))


def _fieller_interval(mean: Floats, product: Sequence[float], reach: float) -> tuple[float, float] | None:
    """Return Fieller's interval of the ratio mean[0] / mean[1]: the lowest and highest r for which |mean[0] - r mean[1]| is at most `reach`
    standard errors; None if unbounded.

    product: variances of both means and their covariance.
    """
    square, middle, constant = (
        first - reach**2 * second
        for first, second in zip((mean[1] ** 2, mean[0] * mean[1], mean[0] ** 2), (product[1], product[2], product[0]), strict=True)
    )
    if square <= 0:
        return None
    half = np.sqrt(max(middle**2 - square * constant, 0.0))
    return float((middle - half) / square), float((middle + half) / square)
