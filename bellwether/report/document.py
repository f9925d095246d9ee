"""The report that people read: one release in Markdown, from the same numbers as the JSON files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.calibration.comparison import CONFIDENCE_SET_LEVEL, SIGNIFICANCE
from bellwether.formatting import NOTHING, interval, number, percent, rounded_down
from bellwether.questions.digest import digest
from bellwether.report.comparison import comparison, contamination, cost, coverage, served, served_warnings
from bellwether.report.dataset import dataset_section
from bellwether.report.inputs import Inputs
from bellwether.report.markdown import p_value, table, text, when
from bellwether.report.material import Material
from bellwether.report.model_section import definitions, model_section
from bellwether.report.pairs import pairs
from bellwether.report.results import leaderboards, scores_of

#: KalshiBench, as its authors ask to be cited.
BIBTEX = """@misc{kalshibench2024,
  title={KalshiBench: Evaluating LLM Forecasting Calibration via Prediction Markets},
  author={2084 Collective},
  year={2024},
  publisher={HuggingFace},
  howpublished={\\url{https://huggingface.co/datasets/2084Collective/kalshibench-v2}}
}"""


def report(material: Material) -> str:
    """The whole report."""
    inputs = material.inputs
    parts = [
        _head(inputs),
        served_warnings(inputs),
        _executive(material),
        _leaderboards(material),
        pairs(inputs),
        ["## Model comparison", ""],
        comparison(inputs),
        coverage(material),
        served(inputs),
        contamination(material),
        cost(material),
        dataset_section(material.analysis, inputs),
        ["## Results by model", ""],
        *(model_section(inputs, name, material.made[name], material.forecaster_pictures.get(name, ())) for name in inputs.forecasters),
        definitions(inputs),
        _files(material),
        _citation(),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _head(inputs: Inputs) -> list[str]:
    description = inputs.recipe.get("description")
    return [
        f"# Benchmark report: {text(inputs.release)}",
        "",
        *([text(description, 400), ""] if description else []),
        f"Data known until {inputs.known_at:%Y-%m-%d %H:%M:%S} UTC. Every number is in the JSON files beside this page.",
        "",
        f"Version {inputs.questions['version'][0]} of the release; SHA-256 of its questions: `{digest(inputs.questions)}`.",
        "",
    ]


def _executive(material: Material) -> list[str]:
    inputs, outcomes = material.inputs, material.analysis
    span, truth = outcomes["date_range"], outcomes["ground_truth_distribution"]
    ranked = inputs.leaderboard.filter(pl.col("rank").is_not_null()).height
    tested = inputs.comparisons["p_holm"].drop_nulls()
    rows = [
        ("Questions", number(inputs.questions.height)),
        ("Questions resolved after", when(outcomes["knowledge_cutoff"])),
        ("Closing times", f"{when(span['earliest'])} to {when(span['latest'])}"),
        ("Yes rate", percent(truth["yes_rate"])),
        ("Forecasters", f"{len(inputs.forecasters)}, {ranked} of them ranked"),
        ("Best Brier score", _best(inputs)),
        (f"May be the best (confidence set, {percent(1 - CONFIDENCE_SET_LEVEL, 0)})", _confidence_set(inputs)),
        (f"Pairs that differ (Holm, {percent(SIGNIFICANCE, 0)})", f"{int((tested <= SIGNIFICANCE).sum())} of {len(tested)} tested"),
        ("Seed of the sample", text(inputs.recipe.get("seed"))),
    ]
    return ["## Executive summary", "", *table(("", "Value"), rows, texts=2)]


def _best(inputs: Inputs) -> str:
    best = inputs.leaderboard.filter(pl.col("rank") == 1).sort("forecaster").to_dicts()
    return (
        ", ".join(f"{text(row['forecaster'])} {number(row['brier'])} {interval(row['brier_lower'], row['brier_upper'])}" for row in best)
        or NOTHING
    )


def _confidence_set(inputs: Inputs) -> str:
    members = inputs.leaderboard.filter(pl.col("in_mcs")).sort("rank", "forecaster")["forecaster"]
    return ", ".join(text(name) for name in members) or NOTHING


def _leaderboards(material: Material) -> list[str]:
    inputs = material.inputs
    rows = [
        (
            str(row["rank"] or NOTHING),
            text(row["forecaster"]),
            text(row["group"]),
            number(row["brier"]),
            interval(row["brier_lower"], row["brier_upper"]),
            number(row["brier_df"], 0),
            percent(row["share_first"]),
            p_value(row["mcs_p"]),
            number(row["brier_skill"], 3),
            _over_market(inputs, row),
            number(row["n"]),
            percent(rounded_down(row["coverage"])),
        )
        for row in inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).iter_rows(named=True)
    ]
    header = ("Rank", "Forecaster", "Group", "Brier", "95 %", "df", "First", "Set p", "Skill", "Skill vs market", "n", "Coverage")
    unranked = [
        f"- {text(row['forecaster'])} is not ranked: {text(row['unranked_because'], 300)}"
        for row in inputs.leaderboard.filter(pl.col("rank").is_null()).sort("forecaster").iter_rows(named=True)
    ]
    boards = leaderboards(inputs)
    return [
        "## Leaderboards",
        "",
        "### By Brier score (lower is better)",
        "",
        "Forecasters that share a letter do not differ significantly. First: share of bootstrap replicates in which it has the best score."
        " df: degrees of freedom of the interval. Set p: p-value in the confidence set of the best. Skill: over always saying the base rate of the questions scored; skill vs market: over the"
        " latest market price known at the moment of the forecast, in parentheses on how many questions where not on all. Coverage: share of"
        " questions whose forecast counts.",
        "",
        *table(header, rows, texts=3),
        *([*unranked, ""] if unranked else []),
        *_without_interval(inputs),
        *material.pictures["scores"].lines(),
        *_board("By accuracy (higher is better)", "Accuracy", "accuracy", boards["by_accuracy"]),
        *_calibration_board(boards["by_calibration"]),
    ]


def _without_interval(inputs: Inputs) -> list[str]:
    """Why Brier scores have no interval, one line per reason."""
    some = inputs.leaderboard.filter(pl.col("brier").is_not_null() & pl.col("brier_reason").is_not_null())
    reasons = some.group_by("brier_reason").agg(pl.col("forecaster").sort()).sort("brier_reason")
    lines = [f"- No interval for {', '.join(text(name) for name in names)}: {text(reason, 300)}" for reason, names in reasons.iter_rows()]
    return [*lines, ""] if lines else []


def _over_market(inputs: Inputs, row: Mapping[str, Any]) -> str:
    """Skill against the market, with the questions that had a price where these are fewer than those scored."""
    priced = scores_of(inputs, row["forecaster"])["all"].get("skill_vs_market", {}).get("n")
    value = number(row["skill_vs_market"], 3)
    return value if row["skill_vs_market"] is None or priced == row["n"] else f"{value} ({number(priced)})"


_OF_ECE = (
    "ECE is no proper score: saying the base rate each time comes near to 0. Chance alone makes it positive: expected is what a calibrated"
    " forecaster would have, and p the probability that it would have as much."
)


def _board(title: str, heading: str, metric: str, board: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [(str(row["rank"]), text(row["model"]), number(row[metric]), interval(row["lower"], row["upper"])) for row in board]
    return [f"### {title}", "", *table(("Rank", "Forecaster", heading, "95 %"), rows, texts=2)]


def _calibration_board(board: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (str(row["rank"]), text(row["model"]), number(row["ece"]), number(row["expected"]), p_value(row["p_calibrated"])) for row in board
    ]
    header = ("Rank", "Forecaster", "ECE", "Expected", "p (calibrated)")
    return ["### By ECE (lower is better)", "", _OF_ECE, "", *table(header, rows, texts=2)]


def _files(material: Material) -> list[str]:
    ordered = sorted(material.files.items(), key=lambda file: (file[0].endswith(".png"), file[0]))
    rows = [(f"[`{name}`]({name})", text(what, 200)) for name, what in ordered]
    return ["## Files", "", *table(("File", "What it holds"), rows, texts=2)]


def _citation() -> list[str]:
    return [
        "## How to cite",
        "",
        "The questions, the protocol and the metrics follow KalshiBench; please cite it beside this report's release and date.",
        "",
        "```bibtex",
        *BIBTEX.splitlines(),
        "```",
        "",
    ]
