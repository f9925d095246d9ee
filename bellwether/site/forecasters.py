"""Page of a forecaster (a model or baseline) in a release: headline numbers, calibration, categories, all forecasts, all metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from bellwether.figures.reliability import diagram_rows
from bellwether.formatting import rounded_down
from bellwether.pages import charts, columns
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, group_rows, interval, interval_note, number, p_value, percent, price, text, yes_no
from bellwether.site.paths import forecaster_path, question_path, release_path
from bellwether.site.questions import answer_cell
from bellwether.site.release import ReleaseData, scope_title


def pages(material: ReleaseData) -> Iterator[File]:
    """Yield a page for each forecaster of a release's leaderboard. material: rows of the release."""
    asked = material.questions.select("question", "category", "ground_truth", "price_24h", question_id="id")
    answers = group_rows(material.answers.join(asked, on="question_id", how="left", maintain_order="left"), "forecaster")
    scores = group_rows(material.scores, "forecaster")
    drawn = material.reliability.partition_by("forecaster", as_dict=True)
    ranked = material.board["rank"].count() if material.board.height else 0
    for line in material.board.iter_rows(named=True):
        name = line["forecaster"]
        own_answers, own_scores = answers.get(name, []), scores.get(name, [])
        sections = [
            Section("", [_headline(line, ranked)]),
            Section.even("Calibration", _calibration(name, drawn.get((name,)), material.colours[name])),
            Section("Categories", [_categories(line, own_scores, material.colours[name])]),
            Section("Its forecasts", [_answers(material.name, own_answers)]),
            Section("Every metric", [_scores(own_scores)]),
        ]
        above = [("Benchmark", "benchmark/index.html"), (material.name, release_path(material.name))]
        lead = f"{line['kind'].replace('_', ' ').capitalize()}{' of ' + line['provider'] if line['provider'] else ''}, in the release {material.name}."
        yield from render(Page(forecaster_path(material.name, name), name, lead, sections, above))


def _headline(line: Row, ranked: int) -> Stats:
    """Build the headline numbers of a forecaster. line: row of the leaderboard. ranked: number of ranked forecasters."""
    rank = number(line["rank"]) if line["rank"] is not None else Cell("not ranked", title=line["unranked_because"] or "")
    group = f", group {line['group']}" if line["group"] else ""

    def tile(title: str, metric: str, digits: int) -> tuple[str, Cell, str]:
        return title, number(line[metric], digits), interval_note(line[f"{metric}_lower"], line[f"{metric}_upper"], digits)

    return Stats(
        [
            ("Rank", rank, f"of {ranked} ranked{group}" if line["rank"] is not None else (line["unranked_because"] or "")),
            tile("Brier score", "brier", 3),
            tile("Gain over the price", "skill_vs_market", 2),
            tile("Skill over the base rate", "brier_skill", 2),
            ("Calibration error", number(line["ece"], 3), f"p {p_value(line['ece_p_calibrated'], 3).text} of a test of calibration"),
            ("Cost per question", columns.cost(line["cost"]), "of all samples"),
            ("Coverage", percent(rounded_down(line["coverage"]), 1), f"{line['n']:,} of {line['n_questions']:,} questions"),
            ("Known outcomes", number(line["could_know"]), "questions settled before its training data ended; not scored"),
        ]
    )


def _calibration(name: str, bins: pl.DataFrame | None, colour: str) -> list[Part]:
    rows = diagram_rows(bins, "forecaster") if bins is not None else []
    if bins is None or not rows:
        return [Note("The warehouse has no reliability diagram of this forecaster.")]
    bars = bins.filter(pl.col("n") > 0).select("n", low="lower_edge", high="upper_edge").rows(named=True)
    title = "Observed frequency against forecast; shaded: where calibrated forecasts would lie"
    return [charts.reliability(title, rows, {name: colour}), charts.distribution("Distribution of its forecasts", bars, colour)]


def _categories(line: Row, scores: list[dict[str, Any]], colour: str) -> Part:
    """Build the chart of a forecaster's scores by category. line: row of the leaderboard."""
    rows = [
        {"name": row["scope"].partition(":")[2], "value": row["value"], "lower": finite(row["lower"]), "upper": finite(row["upper"])}
        for row in scores
        if row["metric"] == "brier" and row["scope"].startswith("category:") and finite(row["value"]) is not None
    ]
    if not rows:
        return Note("The warehouse has no scores of this forecaster by category.")
    rows.sort(key=lambda row: (row["value"], row["name"]))
    rows.insert(0, {"name": "all questions", "value": line["brier"], "lower": line["brier_lower"], "upper": line["brier_upper"]})
    # Sorted, so that all pages share one cached chart specification per colour.
    every = dict.fromkeys(sorted(str(row["name"]) for row in rows), colour)
    return charts.intervals("Brier score by category, best first", "Brier score", rows, every)


def _answers(release: str, answers: list[dict[str, Any]]) -> Part:
    def question(row: Row) -> Cell:
        return text(row["question"] or row["question_id"], question_path(release, row["question_id"]) if row["question"] else "")

    return build_table(
        "benchmark/forecasts",
        "One row per question",
        answers,
        build_column("Question", question),
        build_column("Category", lambda row: text(row["category"])),
        build_column(
            "Yes", lambda row: answer_cell(release, row["question_id"], row), "probability of yes; leads to prompt and answer", numeric=True
        ),
        build_column("Price 24 h before", lambda row: price(row["price_24h"]), numeric=True),
        build_column("Outcome", lambda row: text(row["ground_truth"])),
        build_column("Brier", lambda row: number(row["brier"], 3), numeric=True),
        build_column(
            "Known outcome", lambda row: yes_no(row["could_know"]), "the outcome was settled before its training data ended: not scored"
        ),
        build_column("Cost", lambda row: columns.cost(row["cost"]), numeric=True),
        build_column("Problem", lambda row: text(row["error"]), "why there is no forecast"),
        filters=("Category", "Outcome", "Known outcome"),
        search=("Question", "Category", "Problem"),
        name="forecasts",
    )


def _scores(scores: list[dict[str, Any]]) -> Part:
    def meaning(row: Row) -> Cell:
        return text(columns.title(row["metric"]))._replace(title=columns.metric_meaning(row["metric"]))

    return build_table(
        "benchmark/scores",
        "Every metric that is defined",
        [row for row in scores if row["value"] is not None],
        build_column("Questions", lambda row: text(scope_title(row["scope"]))),
        "metric",
        build_column(
            f"Value {columns.LEVEL}",
            lambda row: interval(row["value"], row["lower"], row["upper"], 3, row["reason"]),
            "in brackets the 95 % interval",
            numeric=True,
        ),
        ("n", "Forecasts"),
        ("reason", "No interval because"),
        cells={"metric": meaning},
        filters=("Questions", "Metric"),
        search=("Questions", "Metric"),
        name="scores",
    )
