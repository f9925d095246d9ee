"""Report of a release in Markdown, from the template `release.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import polars as pl

from bellwether.calibration.comparison import CONFIDENCE_SET_LEVEL, SIGNIFICANCE
from bellwether.formatting import rank, rounded_down
from bellwether.pages.markdown import Markdown, render
from bellwether.questions.release import digest
from bellwether.registry.model_names import is_requested
from bellwether.report.inputs import ReportInputs
from bellwether.report.predictions import Predictions, dollars
from bellwether.report.results import scores_by_scope

Row = dict[str, Any]


def release_page(inputs: ReportInputs, predictions: Mapping[str, Predictions], diagrams: Mapping[str, str]) -> str:
    """Render the report of a release. diagrams: file of the reliability diagram by forecaster."""
    board = inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).to_dicts()
    scores = {row["forecaster"]: scores_by_scope(inputs, row["forecaster"]) for row in board}
    tested = inputs.comparisons["p_holm"].drop_nulls()
    context = {
        "inputs": inputs,
        "yes_rate": (inputs.questions["ground_truth"] == "yes").mean(),
        "board": board,
        "scores": scores,
        "usage": {name: of_forecaster.usage() for name, of_forecaster in predictions.items()},
        "diagrams": diagrams,
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
        "dollars": dollars,
        "rounded_down": rounded_down,
    }
    return render("release.md", context)


def _without_interval(inputs: ReportInputs) -> list[tuple[str, list[str]]]:
    """Return (reason, forecasters) for the Brier scores whose interval is missing."""
    some = inputs.leaderboard.filter(pl.col("brier").is_not_null() & pl.col("brier_reason").is_not_null())
    return some.group_by("brier_reason").agg(pl.col("forecaster").sort()).sort("brier_reason").rows()


def _served_warnings(inputs: ReportInputs) -> Iterator[Row]:
    """Yield a row for each forecaster whose answers came from another model than the one requested, or from several models."""
    names = ("forecaster", "model", "served_model")
    stated = inputs.forecasts.filter(pl.col("served_model").is_not_null() & pl.col("model").is_not_null())
    counts = stated.group_by(names).len().sort(names).to_dicts()
    for forecaster, rows in groupby(counts, key=lambda row: row["forecaster"]):
        models = list(rows)
        others = [row for row in models if not is_requested(row["model"], row["served_model"])]
        if others or len(models) > 1:
            yield {"forecaster": forecaster, "model": models[0]["model"], "other": bool(others), "served": others or models}
