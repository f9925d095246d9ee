"""The report's section on one forecaster: how it is registered, every metric, and where its forecasts were right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from bellwether.calibration import METRICS
from bellwether.formatting import interval, number, percent
from bellwether.report.inputs import Inputs
from bellwether.report.markdown import p_value, table, text, when
from bellwether.report.material import Picture
from bellwether.report.predictions import Predictions
from bellwether.report.results import bin_label, model_config, per_category, scores_of

#: What a configuration says in other places of the report, or to machines alone.
_NOT_SHOWN = {"name", "description", "kind", "worlds", "automatic", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout"}


def model_section(inputs: Inputs, forecaster: str, made: Predictions, pictures: Sequence[Picture]) -> list[str]:
    """The section; `made` are its predictions, `pictures` its figures."""
    line = inputs.leaderboard.filter(pl.col("forecaster") == forecaster).row(0, named=True)
    config = model_config(inputs, forecaster)
    rank = f"Rank {line['rank']}" if line["rank"] is not None else f"Not ranked: {text(line['unranked_because'], 300)}"
    return [
        f"### {text(config['name'])}",
        "",
        *([text(config["description"], 400), ""] if config["description"] else []),
        f"{rank}. {number(line['n'])} of {number(line['n_questions'])} questions scored, {number(line['could_know'])} excluded because it could"
        f" have known them, {number(line['failed'])} without a forecast.",
        "",
        "**Configuration**",
        "",
        *table(("Setting", "Value"), _settings(forecaster, line, config), texts=2),
        *(_numbers(inputs, forecaster, made, pictures) if line["n"] else ["Nothing is scored.", ""]),
        *_parsing(made),
    ]


def _numbers(inputs: Inputs, forecaster: str, made: Predictions, pictures: Sequence[Picture]) -> list[str]:
    scopes = scores_of(inputs, forecaster)
    return [
        *(part for picture in pictures for part in picture.lines()),
        "**All metrics**",
        "",
        *_all_metrics(scopes["all"]),
        "**Confusion matrix**",
        "",
        *_confusion(made.confusion()),
        "**Reliability**",
        "",
        *_reliability(inputs, forecaster),
        "**Categories**",
        "",
        *_categories(scopes),
    ]


def definitions(inputs: Inputs) -> list[str]:
    """What each metric in the scores is, one line each."""
    known = [metric for name, metric in METRICS.items() if name in set(inputs.scores["metric"])]
    better = {"lower": "lower is better", "higher": "higher is better", "neither": "neither is better"}
    lines = [f"- **{text(one.name)}** = {text(one.formula)} ({better[one.better.value]}): {text(one.meaning, 300)}" for one in known]
    return [
        "## Definitions",
        "",
        "p is the forecast probability of yes, y is 1 for yes, d the decision, c = max(p, 1 - p), b the mean of y.",
        "",
        *lines,
        "",
    ]


def _settings(forecaster: str, line: Mapping[str, Any], config: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = {"forecaster": forecaster, "kind": line["kind"]} | {name: value for name, value in config.items() if name not in _NOT_SHOWN}
    return [(text(name), text(_plain(value))) for name, value in shown.items() if value not in (None, [], {}, "")]


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict) else str(value)


def _all_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    order = {name: place for place, name in enumerate(METRICS)}
    rows = [
        (
            text(name),
            number(one["value"]),
            interval(one["lower"], one["upper"], 4),
            number(one["df"], 0),
            number(one["expected"]),
            p_value(one["p_calibrated"]),
            number(one["n"]),
            text(one["reason"] or "", 200),
        )
        for name, one in sorted(metrics.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
    ]
    header = ("Metric", "Value", "95 %", "df", "Expected if calibrated", "p (calibrated)", "n", "Why no interval")
    return table(header, rows)


def _confusion(cells: Mapping[str, int]) -> list[str]:
    rows = [("Yes", number(cells["tp"]), number(cells["fn"])), ("No", number(cells["fp"]), number(cells["tn"]))]
    return table(("Outcome", "Said yes", "Said no"), rows)


def _reliability(inputs: Inputs, forecaster: str) -> list[str]:
    bins = inputs.reliability.filter((pl.col("forecaster") == forecaster) & (pl.col("n") > 0))
    rows = [
        (
            bin_label(row),
            number(row["n"]),
            number(row["mean_forecast"], 3),
            number(row["yes_rate"], 3),
            interval(row["yes_rate_lower"], row["yes_rate_upper"]),
            f"{row['gap']:+.3f}",
        )
        for row in bins.iter_rows(named=True)
    ]
    return table(("Forecast of yes", "n", "Mean forecast", "Yes rate", "95 %", "Gap"), rows)


def _categories(scopes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    rows = []
    for name, row in per_category(scopes).items():
        brier = scopes[f"category:{name}"]["brier"]
        ends = interval(brier["lower"], brier["upper"])
        rows.append((text(name), number(row["count"]), percent(row["accuracy"]), number(row["brier_score"]), ends))
    return table(("Category", "n", "Accuracy", "Brier", "95 %"), rows)


def _parsing(made: Predictions) -> list[str]:
    paths = made.counts("parsed_by")
    if not paths:
        return []
    read = ", ".join(f"{text(path)} {number(n)}" for path, n in paths.items())
    said = ", ".join(f"{text(kind)} {number(n)}" for kind, n in made.counts("contradiction").items()) or "none"
    return [f"Read by: {read}. Contradictions: {said}.", ""]
