"""Paired tests of all pairs of forecasters, each on the questions that both answered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.mean_inference import NOTHING, ClusterSums, MeanTests, mean_tests
from bellwether.calibration.outcome_noise import minimum_variance, pool_forecasts
from bellwether.calibration.sufficient_statistics import CLIP, log_loss
from bellwether.errors import ScoringError

NO_COMMON = "no question has a forecast of both"
IDENTICAL = "the forecasts are identical on every common question"


class Loss(StrEnum):
    """Loss for comparisons: a proper score, lower is better."""

    BRIER = "brier"
    LOG_LOSS = "log_loss"

    @classmethod
    def _missing_(cls, value: object) -> Loss:
        raise ScoringError(f"comparing forecasters: loss is {value!r}; give one of {', '.join(cls)}")

    def of(self, p: Floats, y: Floats) -> Floats:
        """Return the loss of each forecast `p` of yes with outcome `y`, float64 of the shape of `p`; NaN where `p` is NaN."""
        return (
            np.square(p - y)
            if self is Loss.BRIER
            else np.where(np.isnan(p), np.nan, log_loss(np.nan_to_num(p), np.broadcast_to(y, p.shape)))
        )

    def slope(self, p: Floats) -> Floats:
        """Return the derivative of the loss of forecasts `p` with respect to the outcome."""
        clipped = np.clip(p, CLIP, 1 - CLIP)
        return 1 - 2 * p if self is Loss.BRIER else np.log((1 - clipped) / clipped)


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Forecasts of M forecasters on N questions.

    names: M names, in the order of the columns.
    p: float64 (N, M), NaN for a missing forecast.
    right: bool (N, M), whether the decision was right; undefined where `p` is NaN.
    y, weight: float64 (N,), outcome and weight of each question.
    """

    names: tuple[str, ...]
    p: Floats
    right: Bools
    y: Floats
    weight: Floats
    clusters: Clusters

    @property
    def present(self) -> Bools:
        """Mask of existing forecasts, bool (N, M)."""
        return ~np.isnan(self.p)

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """Columns of the two forecasters of every pair: the first ones (P,) and the second ones (P,)."""
        first, second = np.triu_indices(len(self.names), 1)
        return first, second


@dataclass(frozen=True, slots=True, eq=False)
class PairTests:
    """Tests of P pairs of forecasters, each on the pair's common questions; arrays are (P,). Differences are loss of the first minus loss
    of the second.

    n: number of questions. tests: of the mean difference. p_holm: p-values after Holm's correction over all pairs. p_mcnemar: of the decisions.
    identical: whether the two have equal forecasts on all common questions.
    """

    n: Ints
    tests: MeanTests
    p_holm: Floats
    p_mcnemar: Floats
    identical: Bools


def run_pair_tests(panel: Panel, loss: Loss, level: float) -> PairTests:
    """Test for every pair whether the mean losses differ, in the order of `Panel.pairs`. level: mass of the intervals."""
    losses = loss.of(panel.p, panel.y[:, None])
    ways = [_sums(panel, losses, way) for way in panel.clusters.ways]
    both = None if panel.clusters.both is None else _sums(panel, losses, panel.clusters.both)
    first, second = panel.pairs

    def minimum(pair: int) -> float:
        return _minimum_variance(panel, loss, int(first[pair]), int(second[pair]))

    n, identical = _common_questions(panel, losses)
    tests = mean_tests(ways, both, level=level, min_variance=minimum)
    reasons = [
        NO_COMMON if reason == NOTHING else IDENTICAL if same else reason for reason, same in zip(tests.reason, identical, strict=True)
    ]
    tests = _withhold_tests(replace(tests, reason=reasons), identical)
    p = np.where([reason is None for reason in reasons], mcnemar(panel), np.nan) if len(n) else np.zeros(0)
    return PairTests(n, tests, holm(tests.p), p, identical)


def holm(p: Floats) -> Floats:
    """Adjust p-values by Holm's step-down method (Scandinavian Journal of Statistics 6, 1979). NaN stays NaN and does not count."""
    adjusted = np.full(len(p), np.nan)
    defined = np.flatnonzero(~np.isnan(p))
    order = defined[np.argsort(p[defined], kind="stable")]
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1)
    return adjusted


def mcnemar(panel: Panel) -> Floats:
    """Return McNemar's exact two-sided p-value of every pair (are both forecasters' decisions right equally often?), float64 (P,). NaN
    without a common question or with fractional outcomes.

    Questions are treated as independent.
    """
    from scipy.special import bdtr

    present = panel.present
    right = (panel.right & present).astype(np.float64)
    wrong = (~panel.right & present).astype(np.float64)
    both = present.astype(np.float64)
    at = panel.pairs
    only_first, only_second = (right.T @ wrong)[at], (wrong.T @ right)[at]
    p = np.minimum(2 * bdtr(np.minimum(only_first, only_second), (only_first + only_second).astype(np.intp), 0.5), 1)
    binary = bool(((panel.y == 0) | (panel.y == 1)).all())
    return np.where(((both.T @ both)[at] > 0) & binary, p, np.nan)


def _sums(panel: Panel, losses: Floats, grouping: Grouping) -> ClusterSums:
    """Sum by cluster each pair's weighted differences of loss on the common questions, and the weights of these questions."""
    present, size = panel.present, len(panel.names)
    loss = np.where(present, losses, 0.0) * panel.weight[:, None]
    totals, weights = [], []
    for first in range(size - 1):
        common = present[:, first, None] & present[:, first + 1 :]
        totals.append(_per_group(np.where(common, loss[:, first, None] - loss[:, first + 1 :], 0.0), grouping))
        weights.append(_per_group(common * panel.weight[:, None], grouping))
    if not totals:
        return ClusterSums(np.zeros((grouping.count, 0)), np.zeros((grouping.count, 0)))
    return ClusterSums(np.concatenate(totals, axis=1), np.concatenate(weights, axis=1))


def _per_group(rows: Floats, grouping: Grouping) -> Floats:
    """Sum rows (N, K) by group, float64 (groups, K)."""
    if not len(rows):
        return np.zeros((grouping.count, rows.shape[1]))
    order = np.argsort(grouping.index, kind="stable")
    starts = np.searchsorted(grouping.index[order], np.arange(grouping.count))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0))


def _common_questions(panel: Panel, losses: Floats) -> tuple[Ints, Bools]:
    """Return the number of common questions of each pair, and a mask of pairs with equal losses on all of them."""
    present, counts, equal = panel.present, [], []
    for first in range(len(panel.names) - 1):
        common = present[:, first, None] & present[:, first + 1 :]
        counts.append(common.sum(axis=0))
        equal.append(~(common & (losses[:, first, None] != losses[:, first + 1 :])).any(axis=0))
    if not counts:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=bool)
    n = np.concatenate(counts).astype(np.intp)
    return n, np.concatenate(equal) & (n > 0)


def _minimum_variance(panel: Panel, loss: Loss, first: int, second: int) -> float:
    """Return the variance of the difference of two mean losses that random outcomes alone cause. first, second: columns of the two
    forecasters.
    """
    common = panel.present[:, first] & panel.present[:, second]
    p, other, y, weight = panel.p[common, first], panel.p[common, second], panel.y[common], panel.weight[common]
    slope = weight * (loss.slope(p) - loss.slope(other)) / weight.sum()
    return minimum_variance(slope, pool_forecasts(p, other, y, weight), panel.clusters.take(common))


def _withhold_tests(tests: MeanTests, where: Bools) -> MeanTests:
    """Remove intervals and tests where the mask `where` is True; the means remain."""
    masked: dict[str, Any] = {
        name: np.where(where, np.nan, getattr(tests, name)) for name in ("standard_error", "df", "t", "p", "lower", "upper")
    }
    method = [None if withheld else name for withheld, name in zip(where, tests.method, strict=True)]
    return replace(tests, **masked, method=method)
