"""Report of a release in Markdown, from the template `release.md`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import polars as pl

from bellwether.calibration.comparison import CONFIDENCE_SET_LEVEL, SIGNIFICANCE
from bellwether.formatting import rank, rounded_down, rounded_up
from bellwether.pages.markdown import Markdown, render, timestamp
from bellwether.questions.release import digest
from bellwether.registry.model_names import is_requested
from bellwether.report.inputs import ReportInputs
from bellwether.report.predictions import Predictions, dollars
from bellwether.report.results import model_config, per_category, scores_by_scope

#: Maximum number of listed pairs; with more, only pairs with the best and pairs of neighbours in rank are listed.
MOST_PAIRS = 15

#: Settings that appear elsewhere in the report, or that only programs need.
_NOT_SHOWN = {"name", "description", "kind", "worlds", "automatic", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout"}
_TURNED = {"difference": "difference", "lower": "upper", "upper": "lower"}

Row = dict[str, Any]


def release_page(
    inputs: ReportInputs,
    predictions: Mapping[str, Predictions],
    score_figure: Markdown,
    diagrams: Mapping[str, Markdown],
    files: Mapping[str, str],
) -> str:
    """Render the report of a release. score_figure: comparison of all forecasters. diagrams: reliability diagram by forecaster. files:
    description by name.
    """
    board = inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).to_dicts()
    scores = {row["forecaster"]: scores_by_scope(inputs, row["forecaster"]) for row in board}
    failures = {name: of_forecaster.counts("failure") for name, of_forecaster in predictions.items()}
    tested = inputs.comparisons["p_holm"].drop_nulls()
    context = {
        "inputs": inputs,
        "yes_rate": (inputs.questions["ground_truth"] == "yes").mean(),
        "board": board,
        "scores": scores,
        "predictions": predictions,
        "score_figure": score_figure,
        "diagrams": diagrams,
        "files": sorted(files.items(), key=lambda file: (file[0].endswith(".png"), file[0])),
        "known_at": f"{inputs.known_at:%Y-%m-%d %H:%M:%S}",
        "version": inputs.questions["version"][0],
        "digest": digest(inputs.questions),
        "warnings": list(_served_warnings(inputs)),
        "ranked": [row for row in board if row["rank"] is not None],
        "best": [row for row in board if row["rank"] == 1],
        "set_level": CONFIDENCE_SET_LEVEL,
        "significance": SIGNIFICANCE,
        "differing": int((tested <= SIGNIFICANCE).sum()),
        "tested": len(tested),
        "without_interval": _without_interval(inputs),
        "place": lambda place, rows: Markdown(rank(place, [row["rank"] for row in rows])),
        "served": _served(inputs),
        "contaminated": [row for line in board if (row := _exposure(line, predictions[line["forecaster"]].rows)) is not None],
        "configs": {row["forecaster"]: model_config(inputs, row["forecaster"]) for row in board},
        "settings": _settings,
        "per_category": per_category,
        "dollars": dollars,
        "rounded_down": rounded_down,
        "rounded_up": rounded_up,
        **_pairs(inputs),
        "failures": failures,
        "kinds": sorted({kind for counts in failures.values() for kind in counts}),
        **_usage(predictions, board),
    }
    return render("release.md", context)


def list_ranked_pairs(inputs: ReportInputs) -> list[Row]:
    """Return the comparisons of all pairs in the order of the leaderboard. In each row `forecaster` is the one ranked better, and `other`
    the one ranked lower.
    """
    place = {name: index for index, name in enumerate(inputs.forecasters)}
    rows = [_reverse_pair(row, place) for row in inputs.comparisons.iter_rows(named=True)]
    return sorted(rows, key=lambda row: (place[row["forecaster"]], place[row["other"]]))


def select_leading_pairs(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Select the comparisons of the first of `names` with all others, and of neighbours in `names`."""
    place = {name: index for index, name in enumerate(names)}
    return [row for row in rows if place[row["forecaster"]] == 0 or place[row["other"]] == place[row["forecaster"]] + 1]


def _reverse_pair(row: Row, place: Mapping[str, int]) -> Row:
    """Return a comparison with the better ranked forecaster first. place: rank by name."""
    if place[row["forecaster"]] < place[row["other"]]:
        return row
    values = {name: None if row[source] is None else -row[source] for name, source in _TURNED.items()}
    return row | {"forecaster": row["other"], "other": row["forecaster"]} | values


def _pairs(inputs: ReportInputs) -> dict[str, Any]:
    every = list_ranked_pairs(inputs)
    tested = [row for row in every if row["reason"] is None]
    listed = tested if len(tested) <= MOST_PAIRS else select_leading_pairs(tested, inputs.forecasters)
    untested = sorted(Counter(row["reason"] for row in every if row["reason"] is not None).items())
    return {"pairs": every, "shown": listed, "some": len(listed) < len(tested), "untested": untested}


def _without_interval(inputs: ReportInputs) -> list[tuple[str, list[str]]]:
    """Return (reason, forecasters) for the Brier scores whose interval is missing."""
    some = inputs.leaderboard.filter(pl.col("brier").is_not_null() & pl.col("brier_reason").is_not_null())
    return some.group_by("brier_reason").agg(pl.col("forecaster").sort()).sort("brier_reason").rows()


def _usage(predictions: Mapping[str, Predictions], board: Sequence[Row]) -> dict[str, Any]:
    """Return the usage of each language model, and the models' total known cost in micro-dollars, as values of the template."""
    callers = [row["forecaster"] for row in board if predictions[row["forecaster"]].rows["attempts"].count()]
    usage = {name: predictions[name].usage() for name in callers}
    return {"usage": usage, "cost": sum(used["cost_microdollars"] or 0 for used in usage.values())}


def _exposure(line: Row, forecasts: pl.DataFrame) -> Row | None:
    """Add the knowledge cutoff and the days from it to a leaderboard row. None if the forecaster has no cutoff and could have known no
    question.
    """
    cutoff, days = forecasts["knowledge_cutoff"].max(), forecasts["days_from_cutoff"]
    return line | {"cutoff": cutoff, "least": days.min(), "median": days.median()} if cutoff is not None or line["could_know"] else None


def _served_warnings(inputs: ReportInputs) -> Iterator[Row]:
    """Yield a row for each forecaster whose answers came from another model than the one requested, or from several models."""
    for forecaster, names in groupby(_served(inputs), key=lambda row: row["forecaster"]):
        models = list(names)
        others = [row for row in models if not is_requested(row["model"], row["served_model"])]
        if others or len(models) > 1:
            yield {"forecaster": forecaster, "model": models[0]["model"], "other": bool(others), "served": others or models}


def _served(inputs: ReportInputs) -> list[Row]:
    """Count forecasts by forecaster, requested model, and the model that the server stated."""
    names = ("forecaster", "model", "served_model")
    stated = inputs.forecasts.filter(pl.col("served_model").is_not_null() & pl.col("model").is_not_null())
    return stated.group_by(names).len().sort(names).to_dicts()


def _settings(forecaster: str, kind: str, config: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings = {"forecaster": forecaster, "kind": kind} | {name: value for name, value in config.items() if name not in _NOT_SHOWN}
    return [(name, _plain(value)) for name, value in settings.items() if value not in (None, [], {}, "")]


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict) else str(value)
