"""Corrected scores of models, and their paired comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from bellwether.calibration import Comparison, Inference, Scores, compare, evaluate, reliability_bins
from bellwether.calibration.comparison import SIGNIFICANCE
from bellwether.calibration.compat import Number
from bellwether.kalshibench.labels import ClusterUnit

#: Published name -> name of the strict metric that corrects it.
CORRECTED_BY: dict[str, str] = {
    **{name: name for name in ("accuracy", "precision_yes", "recall_yes", "f1_yes", "precision_no", "recall_no", "f1_no", "macro_f1")},
    "brier_score": "brier",
    "brier_skill_score": "brier_skill",
    **{name: name for name in ("log_loss", "ece", "mce", "ace")},
    "avg_confidence": "average_confidence",
    "avg_confidence_when_correct": "confidence_when_correct",
    "avg_confidence_when_wrong": "confidence_when_wrong",
    **{f"overconfidence_rate_{percent}": f"overconfidence_{percent}" for percent in ("70", "80", "90")},
}

#: Head of a column -> p-value of a row of `Comparison.pairs`.
PAIR_TESTS = {"p": "p", "p\nHolm": "p_holm"}

_ENTRY = ("question_id", "occurrence")


@dataclass(frozen=True, slots=True)
class IntervalPlan:
    """Options of intervals and of tests of pairs, for corrected scores.

    replicates, seed: of simulated distributions, as in `Inference`. clusters: independent units of scores and pairs.
    """

    replicates: int = Inference().replicates
    seed: int = Inference().seed
    clusters: ClusterUnit = ClusterUnit.FAMILY


@dataclass(frozen=True, slots=True)
class ScoreInterval:
    """Value of a metric with its 95 % interval. Undefined or withheld values are None; `reason` states why."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    reason: str | None = None


def score_entries(entries: pl.DataFrame, label: str, plan: IntervalPlan) -> Scores:
    """Score the answer-consistent probabilities by Bellwether's rules, on the entries with a known outcome. label: column of the outcome,
    true or scored.
    """
    labelled = entries.filter(pl.col(label).is_not_null())
    rows = labelled.filter(pl.col("predicted_answer").is_not_null())
    return evaluate(
        rows["p_consistent"].to_numpy(),
        (rows[label] == "yes").to_numpy(),
        rows[plan.clusters].to_list(),
        answer=rows["predicted_answer"].to_list(),
        asked=labelled.height,
        replicates=plan.replicates,
        seed=plan.seed,
    )


def read_interval(scores: Scores | None, metric: str) -> ScoreInterval:
    """Return a metric of `scores` with its interval; all fields are None if `scores` is None."""
    if scores is None:
        return ScoreInterval()
    estimate = scores[metric]
    return ScoreInterval(estimate.value, estimate.lower, estimate.upper, estimate.reason)


def to_metric_values(scores: Scores | None) -> dict[str, Any] | None:
    """Convert all metrics to values for JSON; None if `scores` is None."""
    if scores is None:
        return None
    return {"n": scores.n, "n_clusters": scores.n_clusters, "metrics": {name: asdict(estimate) for name, estimate in scores.items()}}


def compute_strict(entries: pl.DataFrame, scores: Scores) -> dict[str, Number]:
    """Compute Bellwether's metrics and reliability bins under KalshiBench's names. Unlike KalshiBench's, the last bin includes 1."""
    rows = entries.filter(pl.col("predicted_answer").is_not_null())
    numbers: dict[str, Number] = {published: read_interval(scores, name).value for published, name in CORRECTED_BY.items()}
    for row in reliability_bins(rows["p_yes"], rows["scored"] == "yes").filter(pl.col("n") > 0).iter_rows(named=True):
        fields = {"avg_confidence": row["mean_forecast"], "avg_accuracy": row["yes_rate"], "count": row["n"]}
        numbers |= {f"reliability[{row['lower_edge']:.1f}-{row['upper_edge']:.1f}].{field}": value for field, value in fields.items()}
    return numbers


def compare_models(entries: Mapping[str, pl.DataFrame], plan: IntervalPlan) -> Comparison:
    """Compare models of one question set on corrected Brier scores. Entries are matched by id and occurrence of the id; a model may lack
    some.
    """
    occurrence = pl.int_range(pl.len()).over("question_id").alias("occurrence")
    p = pl.when(pl.col("predicted_answer").is_not_null()).then("p_consistent")
    columns = ("question_id", "occurrence", "true", plan.clusters, "predicted_answer")
    parts = {
        name: frame.with_columns(occurrence).filter(pl.col("true").is_not_null()).select(*columns, p=p) for name, frame in entries.items()
    }
    questions = pl.concat(parts.values()).unique(_ENTRY, keep="first", maintain_order=True).select(*_ENTRY, "true", plan.clusters)
    rows = {
        name: questions.join(part.drop("true", plan.clusters), on=_ENTRY, how="left", maintain_order="left") for name, part in parts.items()
    }
    return compare(
        {name: part["p"].fill_null(float("nan")).to_numpy() for name, part in rows.items()},
        (questions["true"] == "yes").to_numpy(),
        questions[plan.clusters].to_list(),
        answers={name: part["predicted_answer"].to_list() for name, part in rows.items()},
        seed=plan.seed,
    )


def read_pair_interval(row: Mapping[str, Any]) -> ScoreInterval:
    """Return the mean difference in a row of `Comparison.pairs`, with its interval."""
    return ScoreInterval(row["difference"], row["lower"], row["upper"], row["reason"])


def find_best(comparison: Comparison) -> str:
    """Return the forecaster with the lowest Brier score."""
    return str(comparison.ranking["forecaster"][0])


def count_significant(comparison: Comparison) -> int:
    """Count the pairs that differ significantly after Holm's correction."""
    return comparison.pairs.filter(pl.col("p_holm") <= SIGNIFICANCE).height


def find_confidence_set(comparison: Comparison) -> Sequence[str]:
    """Return the forecasters in the confidence set of the best one, best first."""
    return comparison.ranking.filter("in_mcs")["forecaster"].to_list()
