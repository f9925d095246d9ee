"""Comparison of published numbers with those recomputed from the predictions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePosixPath

import polars as pl

from bellwether.kalshibench.ace import compute_ace_range
from bellwether.kalshibench.labels import label_entries
from bellwether.kalshibench.metrics import DEFINED, Number, recompute
from bellwether.kalshibench.results import ModelResult, Results

_SCHEMA = {
    "model": pl.String(),
    "source": pl.String(),
    "metric": pl.String(),
    "published": pl.Float64(),
    "recomputed": pl.Float64(),
    "status": pl.String(),
    "reason": pl.String(),
}

#: Optional columns of predictions that totals need.
_NEEDS = {
    "avg_latency_ms": "latency_ms of every prediction",
    "total_input_tokens": "input_tokens and output_tokens of every prediction",
    "total_output_tokens": "input_tokens and output_tokens of every prediction",
    "total_tokens": "input_tokens and output_tokens of every prediction",
    "total_cost_usd": "input_tokens and output_tokens of every prediction, and prices in model_config",
}


class Status(StrEnum):
    """Result of comparing a published number with its recomputation.

    EQUAL: the same number, to the last bit. DIFFERS: another number. TIES: an ACE that another order of tied forecasts gives.
    NOT_RECOMPUTED: files and labels do not determine it.
    """

    EQUAL = "equal"
    DIFFERS = "differs"
    TIES = "ties"
    NOT_RECOMPUTED = "not recomputed"


def compare_numbers(results: Results, labels: pl.DataFrame | None = None) -> pl.DataFrame:
    """Recompute every number of the result files and summaries.

    labels: outcomes (`read_labels`); without them, only numbers that need no outcome are recomputed. A summary is compared with the newest result of
    its model in the same folder.

    Returns a row per published number: model, source (the file), metric, published, recomputed, status (a `Status`), and reason, why it is not
    recomputed. Raises `ConfigError` if the labels of several question sets fit a model.
    """
    rows: list[tuple[object, ...]] = []
    recomputed: dict[tuple[PurePosixPath, str], _Recomputation] = {}
    for model in sorted(results.models, key=lambda model: model.timestamp):
        recomputed[PurePosixPath(model.source).parent, model.name] = ours = _Recomputation(model, labels)
        rows += [(model.name, model.source, *ours.compare(metric, value)) for metric, value in model.published.items()]
    for summary in results.summaries:
        found = recomputed.get((PurePosixPath(summary.source).parent, summary.name))
        for metric, value in summary.published.items():
            absent = (metric, value, None, Status.NOT_RECOMPUTED, "needs the model's result file in the folder of the summary")
            rows.append((summary.name, summary.source, *(absent if found is None else found.compare(metric, value))))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


class _Recomputation:
    """Numbers recomputed from one result file. lacking: what is missing for numbers that need outcomes; None if nothing is."""

    def __init__(self, model: ModelResult, labels: pl.DataFrame | None) -> None:
        labelled = None if labels is None else label_entries(model, labels)
        self.entries = model.predictions if labelled is None else labelled
        self.lacking = _describe_lack(self.entries, given=labels is not None)
        self.numbers = recompute(self.entries, prices=model.prices)

    def compare(self, metric: str, published: Number) -> tuple[str, Number, Number, Status, str | None]:
        """Return metric, published and recomputed number, status and reason."""
        ours = self.numbers.get(metric)
        if metric not in self.numbers:
            reason = self._explain(metric)
            return metric, published, None, Status.DIFFERS if reason is None else Status.NOT_RECOMPUTED, reason
        status = Status.EQUAL if ours == published else Status.DIFFERS
        if metric == "ace" and status is Status.DIFFERS and published is not None and self._is_of_other_order(float(published)):
            status = Status.TIES
        return metric, published, ours, status, None

    def _explain(self, metric: str) -> str | None:
        """Return why a number is missing; None if it should not exist, like that of an empty bin."""
        is_bin, is_category = metric.startswith("reliability["), metric.startswith("category[")
        if metric in _NEEDS:
            return f"needs {_NEEDS[metric]}"
        if not (is_bin or is_category or metric in DEFINED):
            return "is not defined by KalshiBench"
        if is_bin and not metric.endswith(".avg_accuracy"):
            return None
        if self.lacking is None and is_category and self.entries["category"].null_count():
            return "needs the category of every entry"
        return self.lacking

    def _is_of_other_order(self, ace: float) -> bool:
        """Return True if some order of tied forecasts gives the ACE, and the labels do not state the published one."""
        rows = self.entries.filter(pl.col("predicted_answer").is_not_null())
        if not rows["ace_bin"].null_count():
            return False
        return compute_ace_range(rows["p_yes"].to_numpy(), (rows["ground_truth"] == "yes").to_numpy()).explains(ace)


def _describe_lack(entries: pl.DataFrame, *, given: bool) -> str | None:
    """Return what is missing for numbers that need outcomes. given: a file of labels was given."""
    answered = entries.filter(pl.col("predicted_answer").is_not_null())
    if not answered.height:
        return "needs an answer of yes or no; no prediction has one"
    if not given:
        return "needs labels: the result files have no outcomes; give --labels"
    if "ground_truth" not in entries.columns:
        return "needs labels with the same ids as its questions"
    unknown = answered.filter(pl.col("ground_truth").is_null())["question_id"]
    return f"needs the outcomes of {len(unknown)} entries, first {unknown[0]!r}" if len(unknown) else None
