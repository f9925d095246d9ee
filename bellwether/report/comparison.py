"""The report's sections that set forecasters beside one another: metrics, coverage, contamination and cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import polars as pl

from bellwether.figures.statistics import from_near
from bellwether.formatting import interval, number, percent, rounded_down, rounded_up
from bellwether.registry.model_names import is_requested
from bellwether.report.inputs import Inputs
from bellwether.report.markdown import table, text, when
from bellwether.report.material import Material
from bellwether.report.predictions import dollars
from bellwether.report.results import scores_of

#: The metrics of each table: our name and the heading of its column.
CLASSIFICATION = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro F1",
    "precision_yes": "Precision (yes)",
    "recall_yes": "Recall (yes)",
    "f1_yes": "F1 (yes)",
    "precision_no": "Precision (no)",
    "recall_no": "Recall (no)",
    "f1_no": "F1 (no)",
}
CALIBRATION = {
    "brier": "Brier",
    "brier_skill": "Skill",
    "skill_vs_market": "Skill vs market",
    "log_loss": "Log loss",
    "ece": "ECE",
    "mce": "MCE",
    "ace": "ACE",
    "smece": "smECE",
    "brier_index": "Brier Index",
}
CONFIDENCE = {
    "average_confidence": "Mean",
    "confidence_when_correct": "When right",
    "confidence_when_wrong": "When wrong",
    "overconfidence_70": "Wrong above 70 %",
    "overconfidence_80": "Wrong above 80 %",
    "overconfidence_90": "Wrong above 90 %",
}
#: Decompositions: what is said above the table, and its columns.
_DECOMPOSITIONS = (
    (
        "Murphy, over ten bins: Brier = reliability - resolution + uncertainty + variance within bins - covariance within bins.",
        {
            "murphy_reliability": "Reliability",
            "murphy_resolution": "Resolution",
            "uncertainty": "Uncertainty",
            "within_bin_variance": "Variance within bins",
            "within_bin_covariance": "Covariance within bins",
        },
    ),
    (
        "CORP, without bins: Brier = miscalibration - discrimination + uncertainty.",
        {"corp_miscalibration": "Miscalibration", "corp_discrimination": "Discrimination", "uncertainty": "Uncertainty"},
    ),
    (
        "Yates: Brier = uncertainty + least variance + excess variance + bias² - 2 covariance.",
        {
            "uncertainty": "Uncertainty",
            "yates_min_variance": "Least variance",
            "yates_excess_variance": "Excess variance",
            "yates_bias_squared": "Bias²",
            "yates_covariance": "Covariance",
        },
    ),
)


def comparison(inputs: Inputs) -> list[str]:
    """Tables of metrics with one row per forecaster."""
    return [
        "### Classification performance",
        "",
        *_metrics(inputs, CLASSIFICATION),
        "### Calibration metrics",
        "",
        *_metrics(inputs, CALIBRATION),
        "### Confidence analysis",
        "",
        *_metrics(inputs, CONFIDENCE),
        "### Decompositions of the Brier score",
        "",
        *(line for title, metrics in _DECOMPOSITIONS for line in (title, "", *_metrics(inputs, metrics))),
        "Murphy's reliability less what chance alone makes of it: 0 is expected of a calibrated forecaster, whose interval contains it.",
        "",
        *_debiased(inputs),
    ]


def _debiased(inputs: Inputs) -> list[str]:
    rows = []
    for forecaster in inputs.forecasters:
        one = scores_of(inputs, forecaster)["all"].get("murphy_reliability_debiased", {})
        rows.append((text(forecaster), number(one.get("value")), interval(one.get("lower"), one.get("upper"), 4)))
    return table(("Forecaster", "Debiased reliability", "95 %"), rows)


def _metrics(inputs: Inputs, metrics: Mapping[str, str]) -> list[str]:
    known = {name: heading for name, heading in metrics.items() if name in set(inputs.scores["metric"])}
    rows = []
    for forecaster in inputs.forecasters:
        scores = scores_of(inputs, forecaster)["all"]
        rows.append((text(forecaster), *(number(scores.get(name, {}).get("value"), 2 if name == "brier_index" else 4) for name in known)))
    return table(("Forecaster", *known.values()), rows)


def cost(material: Material) -> list[str]:
    """What was sent for each language model, and what it cost."""
    rows, total = [], 0
    for forecaster in material.inputs.forecasters:
        made = material.made[forecaster]
        if not made.rows["attempts"].count():
            continue
        used = made.usage()
        total += used["cost_microdollars"] or 0
        rows.append(
            (
                text(forecaster),
                number(used["input_tokens"]),
                number(used["output_tokens"]),
                number(used["reasoning_tokens"]),
                number(used["attempts"]),
                number(dollars(used["cost_microdollars"])),
                number(used["without_cost"]),
                number(used["avg_latency_ms"], 0),
            )
        )
    if not rows:
        return ["### Token usage and cost", "", "No language model was asked.", ""]
    return [
        "### Token usage and cost",
        "",
        "Everything that was sent, failed attempts and repairs included.",
        "",
        *table(("Forecaster", "Input", "Output", "Reasoning", "Requests", "Dollars", "Rows of unknown cost", "Mean latency (ms)"), rows),
        f"Known cost of all: {number(dollars(total))} dollars.",
        "",
    ]


def contamination(material: Material) -> list[str]:
    """What each forecaster could have known, and how it scored by the time from its cutoff."""
    inputs = material.inputs
    rows = []
    for row in inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).iter_rows(named=True):
        forecasts = material.made[row["forecaster"]].rows
        cutoff = forecasts["knowledge_cutoff"].max()
        if cutoff is None and not row["could_know"]:
            continue
        rows.append(
            (
                text(row["forecaster"]),
                when(cutoff),  # type: ignore[arg-type]
                number(forecasts["days_from_cutoff"].min(), 1),  # type: ignore[arg-type]
                number(forecasts["days_from_cutoff"].median(), 1),  # type: ignore[arg-type]
                number(row["could_know"]),
                percent(rounded_up(row["could_know_share"])),
                number(row["brier_could_know"]),
                number(row["brier"]),
            )
        )
    header = (
        "Forecaster",
        "Knowledge cutoff",
        "Least days after",
        "Median days after",
        "Could know",
        "Share",
        "Brier, known",
        "Brier, scored",
    )
    body = table(header, rows) if rows else ["No forecaster states a knowledge cutoff.", ""]
    return [
        "### Contamination",
        "",
        "Questions that closed or were settled at or before a forecaster's knowledge cutoff count for no score and no rank.",
        "",
        *body,
        *_scopes(inputs, "distance:", "By days from the knowledge cutoff to the resolution"),
        *(line for name, picture in material.pictures.items() if name == "score_by_distance" for line in picture.lines()),
        *_scopes(inputs, "horizon:", "By days from the forecast to the close"),
        *material.pictures["brier_over_time"].lines(),
    ]


def _scopes(inputs: Inputs, prefix: str, title: str) -> list[str]:
    shown = inputs.scores.filter(pl.col("scope").str.starts_with(prefix) & pl.col("metric").is_in(["brier", "accuracy"]))
    if shown.is_empty():
        return []
    rows = []
    for forecaster in inputs.forecasters:
        scopes = scores_of(inputs, forecaster)
        for scope in sorted((name for name in scopes if name.startswith(prefix)), key=from_near):
            brier, accuracy = scopes[scope].get("brier", {}), scopes[scope].get("accuracy", {})
            ends = interval(brier.get("lower"), brier.get("upper"))
            label = text(scope.removeprefix(prefix))
            rows.append((text(forecaster), label, number(brier.get("n")), number(brier.get("value")), ends, number(accuracy.get("value"))))
    return [f"{title}:", "", *table(("Forecaster", "Days", "n", "Brier", "95 %", "Accuracy"), rows, texts=2)]


def coverage(material: Material) -> list[str]:
    """How many questions each forecaster answered, and why not the others."""
    kinds = sorted({kind for made in material.made.values() for kind in made.counts("failure")})
    rows = []
    for row in material.inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).iter_rows(named=True):
        made = material.made[row["forecaster"]]
        counts = made.counts("failure")
        repaired = int(made.rows["repaired"].fill_null(False).sum())
        contradictions = made.rows["contradiction"].count()
        cells = (percent(rounded_down(row["coverage"])), number(row["brier_imputed"]), number(repaired), number(contradictions))
        rows.append((text(row["forecaster"]), *cells, *(number(counts.get(kind, 0)) for kind in kinds)))
    header = ("Forecaster", "Coverage", "Brier, 0.5 if missing", "Repaired", "Contradictions", *(text(kind) for kind in kinds))
    return ["### Coverage and failures", "", *table(header, rows), *material.pictures["coverage"].lines()]


def served(inputs: Inputs) -> list[str]:
    """Models that answered, as the responses name them; empty if none does."""
    rows = [(text(one["forecaster"]), text(one["model"]), text(one["served_model"]), number(one["len"])) for one in _served(inputs)]
    return ["### Served models", "", *table(("Forecaster", "Requested", "Served", "Answers"), rows, texts=3)] if rows else []


def served_warnings(inputs: Inputs) -> list[str]:
    """A warning for each forecaster whose answers are of another model than requested, or of several."""
    lines = []
    for forecaster, names in groupby(_served(inputs), key=lambda one: one["forecaster"]):
        found = list(names)
        others = [one for one in found if not is_requested(one["model"], one["served_model"])]
        if not others and len(found) == 1:
            continue
        said = ", ".join(f"{text(one['served_model'])} ({number(one['len'])} answers)" for one in others or found)
        what = f"answers of another model than {text(found[0]['model'])}" if others else "answers of several models"
        lines += [f"**Warning: {text(forecaster)} has {what}: {said}.**", ""]
    return lines


def _served(inputs: Inputs) -> list[dict[str, Any]]:
    """Counts by forecaster, requested and served model, where the response states it."""
    names = ("forecaster", "model", "served_model")
    stated = inputs.forecasts.filter(pl.col("served_model").is_not_null() & pl.col("model").is_not_null())
    return stated.group_by(names).len().sort(names).to_dicts()
