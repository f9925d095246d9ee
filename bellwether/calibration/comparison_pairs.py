"""Paired tests of all pairs of forecasters, each on the questions that both answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from bellwether.calibration.bootstrap import Bounds, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.inference import Inference
from bellwether.calibration.sufficient_statistics import log_loss
from bellwether.errors import ScoringError

NO_COMMON = "no question has a forecast of both"


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
    """Tests of P pairs of forecasters, each on the pair's common questions. Differences are loss of the first minus loss of the second.

    n: number of common questions, intp (P,). differences: with interval and p-value, P of them. p_holm: p-values after Holm's correction over
    all pairs, float64 (P,). p_mcnemar: of the decisions, float64 (P,).
    """

    n: Ints
    differences: Sequence[Bounds]
    p_holm: Floats
    p_mcnemar: Floats


def run_pair_tests(panel: Panel, loss: Loss, plan: Inference) -> PairTests:
    """Test for every pair whether the mean losses differ, in the order of `Panel.pairs`."""
    outcomes = (panel.y, np.zeros(len(panel.y)), np.ones(len(panel.y)))
    losses = np.stack([loss.of(panel.p, y[:, None]) for y in outcomes])
    pairs = list(zip(*panel.pairs, strict=True))
    n = np.array([np.count_nonzero(panel.present[:, one] & panel.present[:, other]) for one, other in pairs], dtype=np.intp)
    bounds = bootstrap((_difference(losses, one, other) for one, other in pairs), panel.weight, panel.clusters, plan)
    found = [replace(bound, reason=NO_COMMON) if not count else bound for bound, count in zip(bounds, n, strict=True)]
    p = np.array([np.nan if bound.p is None else bound.p for bound in found], dtype=np.float64)
    return PairTests(n, found, holm(p), np.where(np.isnan(p), np.nan, mcnemar(panel)))


def _difference(losses: Floats, first: int, second: int) -> Statistic:
    """Build the mean difference of the losses of two forecasters on their common questions. losses: as observed and for each outcome (1 + K, N, M)."""
    difference = losses[:, :, first] - losses[:, :, second]
    common = ~np.isnan(difference[0])
    return Statistic(np.where(common, difference, 0.0)[:, None], np.broadcast_to(common.astype(float), difference.shape)[:, None])


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
