"""JSON files of a report: KalshiBench's fields under its names, and additional fields.

docs/scoring.md describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import polars as pl

from bellwether import __version__
from bellwether.questions.release import digest
from bellwether.report.inputs import TABLES, ReportInputs
from bellwether.report.predictions import Predictions, dollars

BENCHMARK = "Bellwether"

#: KalshiBench's name of a metric -> Bellwether's name.
NAMES = {
    **{name: name for name in ("accuracy", "precision_yes", "recall_yes", "f1_yes", "precision_no", "recall_no", "f1_no", "macro_f1")},
    "brier_score": "brier",
    "brier_skill_score": "brier_skill",
    **{name: name for name in ("ece", "log_loss")},
    "avg_confidence": "average_confidence",
    "avg_confidence_when_correct": "confidence_when_correct",
    "avg_confidence_when_wrong": "confidence_when_wrong",
}

#: Fields of each model in KalshiBench's summary.
_SUMMARY = (*("accuracy", "macro_f1", "brier_score", "brier_skill_score", "ece", "log_loss", "avg_confidence"),)

#: Packages whose version may change a result.
PACKAGES = ("numpy", "polars", "scipy", "litellm", "duckdb")

_SCORE = (*("value", "lower", "upper", "reason", "expected", "p_calibrated"), *("n", "n_questions", "n_clusters", "seed"))
_LINE = (
    *("rank", "unranked_because", "kind", "group", "in_mcs", "mcs_p", "coverage", "n", "n_questions", "n_clusters"),
    *("could_know", "could_know_share", "failed", "brier_could_know"),
)

#: Additional fields of a value with an interval.
_ENDS = ("lower", "upper", "reason")

Metrics = Mapping[str, Mapping[str, Any]]


def scores_by_scope(inputs: ReportInputs, forecaster: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return value, interval and counts of each metric by scope and metric; the scope `all` is first."""
    rows = inputs.scores.filter(pl.col("forecaster") == forecaster)
    scopes: dict[str, dict[str, dict[str, Any]]] = {"all": {}}
    for row in rows.iter_rows(named=True):
        scopes.setdefault(row["scope"], {})[row["metric"]] = {name: row[name] for name in _SCORE}
    return scopes


def build_model_file(inputs: ReportInputs, forecaster: str, predictions: Predictions) -> dict[str, Any]:
    """Build `<model>_<stamp>.json`: a forecaster's configuration, every metric, and all its predictions."""
    scopes = scores_by_scope(inputs, forecaster)
    bins = inputs.reliability.filter(pl.col("forecaster") == forecaster)
    return {
        "model_name": forecaster,
        "model_config": model_config(inputs, forecaster),
        "benchmark": BENCHMARK,
        "release": inputs.release,
        "timestamp": inputs.known_at,
        "num_samples": len(predictions.scored),
        **{name: _value(scopes["all"], ours) for name, ours in NAMES.items()},
        "reliability_diagram": [
            {"bin": bin_label(row), "avg_confidence": row["mean_forecast"], "avg_accuracy": row["yes_rate"], "count": row["n"]}
            for row in bins.filter(pl.col("n") > 0).iter_rows(named=True)
        ],
        "per_category": per_category(scopes),
        "confusion_matrix": predictions.confusion(),
        "parse_rate": len(predictions.answered) / len(predictions.scored) if predictions.scored else None,
        **_published_usage(predictions),
        "metrics": scopes["all"],
        "usage": predictions.usage(),
        "predictions": predictions.scored,
        "excluded": predictions.excluded,
    }


def model_config(inputs: ReportInputs, forecaster: str) -> dict[str, Any]:
    """Build a forecaster's configuration from the registry or, if it is unregistered, from its forecasts; KalshiBench's fields come first."""
    entry = inputs.configurations.get(forecaster, {})
    rows = inputs.forecasts.filter(pl.col("forecaster") == forecaster)
    model = entry.get("model") or next(iter(rows["model"].drop_nulls()), None)
    cutoff = entry.get("knowledge_cutoff") or rows["knowledge_cutoff"].max()
    named = {
        "name": entry.get("title") or forecaster,
        "litellm_model": model,
        "provider": model.partition("/")[0] if model and "/" in model else None,
        "knowledge_cutoff": cutoff,
        "description": entry.get("description"),
        "max_tokens": entry.get("max_tokens"),
        "temperature": entry.get("temperature"),
        "price_per_1m_input": _price(entry.get("input_price")),
        "price_per_1m_output": _price(entry.get("output_price")),
        "reasoning_effort": entry.get("reasoning_effort"),
    }
    further = {name: value for name, value in entry.items() if name not in {*named, "title", "model", "input_price", "output_price"}}
    return named | {"rules": sorted(rows["rules"].unique()), "elicitations": sorted(rows["elicitation"].drop_nulls().unique())} | further


def summary(inputs: ReportInputs, predictions: Mapping[str, Predictions]) -> dict[str, Any]:
    """Build `summary_<stamp>.json`: compared forecasters, three leaderboards and paired tests."""
    return {
        "benchmark": BENCHMARK,
        "release": inputs.release,
        "timestamp": inputs.known_at,
        "knowledge_cutoff_used": _cutoff(inputs),
        "num_models": len(inputs.forecasters),
        "num_samples": inputs.questions.height,
        "models": {name: _summary(inputs, name, predictions[name]) for name in inputs.forecasters},
        "leaderboard": leaderboards(inputs),
        "pairs": inputs.comparisons.drop("release", "known_at", "rules").to_dicts(),
    }


def leaderboards(inputs: ReportInputs) -> dict[str, list[dict[str, Any]]]:
    """Build KalshiBench's three leaderboards of the ranked forecasters; equal values share a rank."""
    return {
        "by_accuracy": _board(inputs, "accuracy", "accuracy", _ENDS, best=max),
        "by_brier_score": _board(inputs, "brier", "brier_score", _ENDS, best=min),
        "by_calibration": _board(inputs, "ece", "ece", ("expected", "p_calibrated"), best=min),
    }


def metadata(inputs: ReportInputs, predictions: Mapping[str, Predictions], files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Build `metadata_<stamp>.json`: release, rules, versions of the software, and files of the report. files: size and digest by name."""
    questions = inputs.questions
    outcomes = questions["ground_truth"].value_counts(name="n")
    counted = dict(outcomes.iter_rows())
    return {
        "benchmark": BENCHMARK,
        "version": __version__,
        "timestamp": inputs.stamp,
        "release": inputs.release,
        "release_version": questions["version"][0],
        "questions_digest": digest(questions),
        "known_at": inputs.known_at,
        "config": {**inputs.recipe, "knowledge_cutoff": _cutoff(inputs), "num_samples": questions.height, "confidence_bins": 10},
        "num_questions": questions.height,
        "knowledge_cutoff_used": _cutoff(inputs),
        "model_knowledge_cutoffs": {name: model_config(inputs, name)["knowledge_cutoff"] for name in inputs.forecasters},
        "categories": sorted(questions["category"].unique()),
        "date_range": {"earliest": questions["close_time"].min(), "latest": questions["close_time"].max()},
        "ground_truth_distribution": {answer: counted.get(answer, 0) for answer in ("yes", "no")},
        "rules": {table.name: sorted(getattr(inputs, name)["rules"].unique()) for name, table in TABLES.items()},
        "elicitations": sorted(inputs.forecasts["elicitation"].drop_nulls().unique()),
        "price_maps": sorted(inputs.forecasts["price_map"].drop_nulls().unique()),
        "cost_sources": sorted(inputs.forecasts["cost_source"].drop_nulls().unique()),
        "packages": {name: installed for name in PACKAGES if (installed := package_version(name)) is not None},
        "calls": {name: of_forecaster.usage() for name, of_forecaster in predictions.items() if of_forecaster.rows["call_key"].count()},
        "files": dict(sorted(files.items())),
    }


def per_category(scopes: Mapping[str, Metrics]) -> dict[str, dict[str, Any]]:
    """Return accuracy, Brier score and number of forecasts by category, the largest category first. scopes: metrics by scope."""
    categories = {
        scope.removeprefix("category:"): {
            "accuracy": _value(metrics, "accuracy"),
            "brier_score": _value(metrics, "brier"),
            "count": metrics["brier"]["n"],
        }
        for scope, metrics in scopes.items()
        if scope.startswith("category:") and metrics.get("brier", {}).get("n")
    }
    return dict(sorted(categories.items(), key=lambda item: (-item[1]["count"], item[0])))


def bin_label(row: Mapping[str, Any]) -> str:
    """Format the label of a bin as KalshiBench does, such as 0.3-0.4."""
    return f"{row['lower_edge']:.1f}-{row['upper_edge']:.1f}"


def _published_usage(predictions: Predictions) -> dict[str, Any]:
    used = predictions.usage()
    tokens = [used["input_tokens"], used["output_tokens"]]
    return {
        "avg_latency_ms": used["avg_latency_ms"],
        "total_input_tokens": used["input_tokens"],
        "total_output_tokens": used["output_tokens"],
        "total_tokens": sum(count or 0 for count in tokens) if any(count is not None for count in tokens) else None,
        "total_cost_usd": dollars(used["cost_microdollars"]),
    }


def _summary(inputs: ReportInputs, forecaster: str, predictions: Predictions) -> dict[str, Any]:
    metrics = scores_by_scope(inputs, forecaster)["all"]
    intervals = {name: [metrics.get(NAMES[name], {}).get(end) for end in ("lower", "upper")] for name in _SUMMARY}
    return {
        "knowledge_cutoff": model_config(inputs, forecaster)["knowledge_cutoff"],
        **{name: _value(metrics, NAMES[name]) for name in _SUMMARY},
        "parse_rate": len(predictions.answered) / len(predictions.scored) if predictions.scored else None,
        **_published_usage(predictions),
        "total_cost_microdollars": predictions.usage()["cost_microdollars"],
        "leaderboard": _line(inputs, forecaster),
        "intervals": intervals,
    }


def _board(inputs: ReportInputs, metric: str, name: str, fields: Sequence[str], *, best: Any) -> list[dict[str, Any]]:
    """Build the leaderboard of one metric. name: KalshiBench's name of the metric. fields: further columns. best: `min` or `max`."""
    rows = [row for row in _lines(inputs) if row["rank"] is not None and row[metric] is not None]
    sign = 1 if best is min else -1
    ordered = sorted(rows, key=lambda row: (sign * row[metric], row["forecaster"]))
    return [
        {
            "rank": 1 + sum(sign * other[metric] < sign * row[metric] for other in ordered),
            "model": row["forecaster"],
            name: row[metric],
            **{field: row[f"{metric}_{field}"] for field in fields},
        }
        for row in ordered
    ]


def _lines(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Return the rows of the leaderboard in its order."""
    return inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).to_dicts()


def _line(inputs: ReportInputs, forecaster: str) -> dict[str, Any]:
    row = inputs.leaderboard.filter(pl.col("forecaster") == forecaster).row(0, named=True)
    return {name: row[name] for name in _LINE}


def _cutoff(inputs: ReportInputs) -> Any:
    return inputs.questions["cutoff"].max()


def _value(metrics: Metrics, metric: str) -> Any:
    return metrics.get(metric, {}).get("value")


def _price(value: Any) -> float | None:
    return None if value is None else float(value)


def package_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
