"""Comparison of forecasters on the same questions: paired tests of all pairs, and their ranking with its uncertainty.

    from bellwether.calibration import compare

    comparison = compare({"a": p_a, "b": p_b}, y, clusters=series)
    comparison.pairs       # one row per pair: mean difference, interval and p-values
    comparison.ranking     # one row per forecaster: confidence set, significance group

docs/metrics.md explains each number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration.clusters import Clusters, Labels
from bellwether.calibration.comparison_pairs import Loss, PairTests, Panel, run_pair_tests
from bellwether.calibration.forecasts import Bools, Floats, Forecasts
from bellwether.calibration.inference import Inference
from bellwether.calibration.ranking import confidence_set, group_letters
from bellwether.errors import ScoringError

#: Maximum of Holm's p at which two forecasters differ significantly.
SIGNIFICANCE = 0.05

#: The confidence set contains forecasters with a p-value above this level, and every best one with a probability of at least 0.9.
CONFIDENCE_SET_LEVEL = 0.10


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
    loss: Loss
    plan: Inference


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
    tested = run_pair_tests(panel, loss, plan)
    return Comparison(_pairs(panel, tested), _ranking(panel, ranked, tested, loss), loss, plan)


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


def _pairs(panel: Panel, tested: PairTests) -> pl.DataFrame:
    first, second = panel.pairs
    columns: dict[str, Any] = {
        "difference": [bound.value for bound in tested.differences],
        **{name: [getattr(bound, name) for bound in tested.differences] for name in ("lower", "upper", "p")},
        "p_holm": tested.p_holm,
        "p_mcnemar": tested.p_mcnemar,
    }
    return pl.DataFrame(
        {
            "forecaster": pl.Series([panel.names[index] for index in first], dtype=pl.String),
            "other": pl.Series([panel.names[index] for index in second], dtype=pl.String),
            "n": tested.n.astype(np.int64),
            "n_clusters": pl.Series([bound.n_clusters for bound in tested.differences], dtype=pl.Int64),
            **{name: pl.Series(values, dtype=pl.Float64, nan_to_null=True) for name, values in columns.items()},
            "reason": pl.Series([bound.reason for bound in tested.differences], dtype=pl.String),
        }
    )


def _ranking(panel: Panel, ranked: Bools, tested: PairTests, loss: Loss) -> pl.DataFrame:
    size = len(panel.names)
    losses, present = loss.of(panel.p, panel.y[:, None]), panel.present
    weight = present * panel.weight[:, None]
    mean = np.divide(
        (np.where(present, losses, 0.0) * weight).sum(axis=0), weight.sum(axis=0), out=np.full(size, np.nan), where=present.any(axis=0)
    )
    difference = np.array([np.nan if bound.value is None else bound.value for bound in tested.differences])
    mcs_p = confidence_set(difference, tested.p_holm, panel.pairs, ranked)
    in_mcs = [None if np.isnan(p_value) else bool(p_value > CONFIDENCE_SET_LEVEL) for p_value in mcs_p]
    return pl.DataFrame(
        {
            "forecaster": pl.Series(panel.names, dtype=pl.String),
            "n": present.sum(axis=0).astype(np.int64),
            "loss": pl.Series(mean, nan_to_null=True),
            "mcs_p": pl.Series(mcs_p, nan_to_null=True),
            "in_mcs": pl.Series(in_mcs, dtype=pl.Boolean),
            "group": pl.Series(group_letters(np.where(ranked, mean, np.nan), tested.p_holm, panel.pairs, SIGNIFICANCE), dtype=pl.String),
        }
    ).sort("loss", nulls_last=True, maintain_order=True)
