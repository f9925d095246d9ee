"""Comparison of forecasters on the same questions: paired tests of all pairs, and their ranking with its uncertainty.

    from bellwether.calibration import compare

    comparison = compare({"a": p_a, "b": p_b}, y, clusters=series)
    comparison.pairs       # one row per pair: mean difference, interval and p-values
    comparison.ranking     # one row per forecaster: confidence set, significance group

docs/metrics.md explains each number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration.bootstrap import Inference, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters, Labels
from bellwether.calibration.forecasts import Bools, Floats, Forecasts, Ints
from bellwether.calibration.formulas import log_loss
from bellwether.calibration.ranking import confidence_set, group_letters
from bellwether.errors import ScoringError

#: Maximum of Holm's p at which two forecasters differ significantly.
SIGNIFICANCE = 0.05

#: The confidence set contains forecasters with a p-value above this level, and every best one with a probability of at least 0.9.
CONFIDENCE_SET_LEVEL = 0.10

#: Reason for the missing test of a pair.
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
class Comparison:
    """Result of `compare`: tests of all pairs of forecasters, and the forecasters' ranking.

    pairs: one row per pair, columns forecaster, other, n, n_clusters (of the common questions), difference (mean loss of the forecaster
        minus that of the other), lower, upper, p, p_holm, p_mcnemar and reason. With a `reason`, the interval and the tests are null. The
        interval excludes 0 exactly when p is below 1 - level.
    ranking: one row per forecaster, best first, columns forecaster, n, loss (mean over its own forecasts), mcs_p, in_mcs and group; the last
        three are null for unranked forecasters.
    """

    pairs: pl.DataFrame
    ranking: pl.DataFrame


def compare(
    forecasts: Mapping[str, ArrayLike] | Any,
    y: ArrayLike,
    clusters: Labels,
    *,
    answers: Mapping[str, Sequence[Any]] | None = None,
    weights: ArrayLike | None = None,
    loss: Loss | str = Loss.BRIER,
    level: float = Inference().level,
    seed: int = Inference().seed,
) -> Comparison:
    """Compare forecasters pair by pair on the questions that both answered.

    Args:
        forecasts: probabilities of yes by forecaster, (N,) each, NaN for a missing forecast: a mapping, or a frame with one column each.
        y: outcomes, (N,), 1 for yes and 0 for no, or a share in between.
        clusters: label of the cluster (series, event) of each question, (N,), or two columns of labels. Give `range(N)` for independent questions.
        answers: "yes", "no" or None per question by forecaster, for McNemar's test; without an answer the decision is p >= 0.5.
        weights: weight of each question, (N,), positive.
        loss: "brier" or "log_loss".
        level, seed: as in `Inference`.

    Raises `ScoringError` with the column, the index and the value of the first invalid entry.
    """
    plan, chosen_loss = Inference(level, seed=seed), Loss(loss)
    columns = _columns(forecasts)
    unknown = sorted({*(answers or {})} - {*columns})
    if unknown:
        raise ScoringError(f"comparing forecasters: {', '.join(unknown)} have answers but no forecasts; give both, or neither")
    outcome = Forecasts.of(np.zeros(np.size(y)), y, weights=weights)
    size = (len(outcome), len(columns))
    probability, right = np.full(size, np.nan), np.zeros(size, dtype=bool)
    for column, (name, p) in enumerate(columns.items()):
        probability[:, column], right[:, column] = _forecaster(name, p, outcome.y, (answers or {}).get(name))
    panel = Panel(tuple(columns), probability, right, outcome.y, outcome.weight, Clusters.of(clusters, size[0]))
    return compare_panel(panel, np.asarray(panel.present.any(axis=0)), loss=chosen_loss, plan=plan)


def compare_panel(panel: Panel, ranked: Bools, *, loss: Loss, plan: Inference) -> Comparison:
    """Compare the forecasters of a panel (validated forecasts) as `compare` does. ranked: mask of the forecasters to rank, bool (M,); the
    pairs include unranked ones.
    """
    pairs = _test_pairs(panel, loss, plan)
    return Comparison(pairs, _rank(panel, ranked, pairs, loss))


def _columns(forecasts: Any) -> dict[str, Any]:
    """Return the forecasts by name of the forecaster, from a mapping or from a frame with one column per forecaster."""
    if isinstance(forecasts, Mapping):
        return {str(name): values for name, values in forecasts.items()}
    if hasattr(forecasts, "columns"):
        return {str(name): np.asarray(forecasts[name]) for name in forecasts.columns}
    raise ScoringError(
        f"comparing forecasters: forecasts is a {type(forecasts).__name__}; give a mapping of name to probabilities, or a frame with one column each"
    )


def _forecaster(name: str, p: ArrayLike, y: Floats, answer: Sequence[Any] | None) -> tuple[Floats, Bools]:
    """Validate one forecaster; return its probability for each question, and a mask of the questions on which its yes-or-no decision was
    right.
    """
    try:
        probability = np.asarray(p, dtype=np.float64)
        if probability.shape != y.shape:
            raise ScoringError(f"there are {probability.size} forecasts and {len(y)} outcomes; give NaN for missing forecasts")
        present = ~np.isnan(probability)
        decision = Forecasts.of(np.where(present, probability, 0.5), y, answer=answer).decision
    except (ScoringError, TypeError, ValueError) as error:
        raise ScoringError(f"comparing forecaster {name!r}: {error}") from None
    return probability, decision == (y == 1)


def _test_pairs(panel: Panel, loss: Loss, plan: Inference) -> pl.DataFrame:
    """Test for every pair whether the mean losses differ, in the order of `Panel.pairs`. Returns the frame `Comparison.pairs`."""
    outcomes = (panel.y, np.zeros(len(panel.y)), np.ones(len(panel.y)))
    losses = np.stack([loss.of(panel.p, y[:, None]) for y in outcomes])
    first, second = panel.pairs
    statistics = (_difference(losses, one, other) for one, other in zip(first, second, strict=True))
    bounds = bootstrap(statistics, panel.weight, panel.clusters, plan)
    present = panel.present.astype(np.float64)
    n = (present.T @ present)[first, second].astype(np.int64)
    bounds = [bound if count else replace(bound, reason=NO_COMMON) for bound, count in zip(bounds, n, strict=True)]
    p = np.array([np.nan if bound.p is None else bound.p for bound in bounds], dtype=np.float64)
    numbers: dict[str, Any] = {
        "difference": [bound.value for bound in bounds],
        "lower": [bound.lower for bound in bounds],
        "upper": [bound.upper for bound in bounds],
        "p": p,
        "p_holm": holm(p),
        "p_mcnemar": np.where(np.isnan(p), np.nan, mcnemar(panel)),
    }
    return pl.DataFrame(
        {
            "forecaster": pl.Series([panel.names[index] for index in first], dtype=pl.String),
            "other": pl.Series([panel.names[index] for index in second], dtype=pl.String),
            "n": n,
            "n_clusters": pl.Series([bound.n_clusters for bound in bounds], dtype=pl.Int64),
            **{name: pl.Series(values, dtype=pl.Float64, nan_to_null=True) for name, values in numbers.items()},
            "reason": pl.Series([bound.reason for bound in bounds], dtype=pl.String),
        }
    )


def _rank(panel: Panel, ranked: Bools, pairs: pl.DataFrame, loss: Loss) -> pl.DataFrame:
    """Build the frame `Comparison.ranking`. pairs: from `_test_pairs`."""
    losses, present = loss.of(panel.p, panel.y[:, None]), panel.present
    weight = present * panel.weight[:, None]
    whole, blank = weight.sum(axis=0), np.full(len(panel.names), np.nan)
    mean = np.divide((np.where(present, losses, 0.0) * weight).sum(axis=0), whole, out=blank, where=whole > 0)
    difference, p_holm = (pairs[name].fill_null(float("nan")).to_numpy() for name in ("difference", "p_holm"))
    mcs_p = confidence_set(difference, p_holm, panel.pairs, ranked)
    in_mcs = [None if np.isnan(p_value) else bool(p_value > CONFIDENCE_SET_LEVEL) for p_value in mcs_p]
    groups = group_letters(np.where(ranked, mean, np.nan), p_holm, panel.pairs, SIGNIFICANCE)
    return pl.DataFrame(
        {
            "forecaster": pl.Series(panel.names, dtype=pl.String),
            "n": present.sum(axis=0).astype(np.int64),
            "loss": pl.Series(mean, nan_to_null=True),
            "mcs_p": pl.Series(mcs_p, nan_to_null=True),
            "in_mcs": pl.Series(in_mcs, dtype=pl.Boolean),
            "group": pl.Series(groups, dtype=pl.String),
        }
    ).sort("loss", nulls_last=True, maintain_order=True)


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
