"""Report of a release in Markdown, from the template `release.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
        "dollars": dollars,
        "rounded_down": rounded_down,
        "failures": failures,
        "kinds": sorted({kind for counts in failures.values() for kind in counts}),
        **_usage(predictions, board),
    }
    return render("release.md", context)


def _without_interval(inputs: ReportInputs) -> list[tuple[str, list[str]]]:
    """Return (reason, forecasters) for the Brier scores whose interval is missing."""
    some = inputs.leaderboard.filter(pl.col("brier").is_not_null() & pl.col("brier_reason").is_not_null())
    return some.group_by("brier_reason").agg(pl.col("forecaster").sort()).sort("brier_reason").rows()


def _usage(predictions: Mapping[str, Predictions], board: Sequence[Row]) -> dict[str, Any]:
    """Return the usage of each language model, and the models' total known cost in micro-dollars, as values of the template."""
    callers = [row["forecaster"] for row in board if predictions[row["forecaster"]].rows["attempts"].count()]
    usage = {name: predictions[name].usage() for name in callers}
    return {"usage": usage, "cost": sum(used["cost_microdollars"] or 0 for used in usage.values())}


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
