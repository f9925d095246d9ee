"""The page of a forecaster in a release: its line of the leaderboard, every metric, calibration, every forecast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bellwether.figures.reliability import rows_of as bins
from bellwether.pages import charts, columns
from bellwether.pages.model import Grid, Head, Note, Page, Part, Section
from bellwether.pages.render import File, render
from bellwether.pages.values import grouped, interval, money, number, text, yes_no
from bellwether.site.questions import answer_cell
from bellwether.site.release import Material, forecaster_path, question_path
from bellwether.site.release import path as release_path

path = forecaster_path


def pages(material: Material) -> Iterator[File]:
    """One page per forecaster of the leaderboard."""
    asked = {
        row["id"]: row for row in material.questions.select("id", "question", "category", "ground_truth", "price_24h").iter_rows(named=True)
    }
    scores = grouped(material.scores, "forecaster")
    answers = grouped(material.answers, "forecaster")
    drawn = material.reliability.partition_by("forecaster", as_dict=True)
    for line in material.board.iter_rows(named=True):
        name = line["forecaster"]
        diagram = bins(drawn[name,], "forecaster") if (name,) in drawn else []
        calibration: list[Part] = [Note("The warehouse has no reliability diagram of this forecaster.")]
        if diagram:
            calibration = [
                charts.reliability(
                    f"Reliability of {name}; shaded: where calibrated forecasts would lie", diagram, {name: material.colours[name]}
                )
            ]
        sections = [
            Section("Its forecasts", [_answers(material, answers.get(name, []), asked)]),
            Section("Calibration", calibration),
            Section("Every metric", [_scores(scores.get(name, []))]),
            Section("Its line of the leaderboard", [columns.facts("benchmark/leaderboard", line)]),
        ]
        above = [("Benchmark", "benchmark/index.html"), (material.name, release_path(material.name))]
        lead = f"In release {material.name}: {line['n']:,} forecasts scored of {line['n_questions']:,} questions."
        yield from render(Page(path(material.name, name), name, lead, sections, above))


def _answers(material: Material, answers: list[dict[str, Any]], asked: dict[str, dict[str, object]]) -> Grid:
    heads = [
        Head("Question"),
        Head("Category"),
        Head("Probability of yes", "leads to the prompt and the answer", number=True),
        Head("Price 24 h before", number=True),
        Head("Outcome"),
        Head("Brier", number=True),
        Head("Could know", "the forecaster could have known the outcome: not scored"),
        Head("Cost", number=True),
        Head("Problem", "why there is no forecast"),
    ]
    rows = []
    for row in answers:
        about = asked.get(row["question_id"])
        question = text(about["question"], question_path(material.name, row["question_id"])) if about else text(row["question_id"])
        rows.append(
            [
                question,
                text(about["category"] if about else None),
                answer_cell(material.name, row["question_id"], row),
                number(about["price_24h"] if about else None, 2),
                text(about["ground_truth"] if about else None),
                number(row["brier"], 3),
                yes_no(row["could_know"]),
                money(row["cost"]) if row["cost"] is None or row["cost"] >= 1 else number(row["cost"], 5, unit="$"),
                text(row["error"]),
            ]
        )
    return Grid("forecasts", "One row per question", heads, rows, filters=(1, 4, 6), search=(0, 1, 8))


def _scores(scores: list[dict[str, Any]]) -> Grid:
    heads = [Head("Part"), Head("Metric"), Head("Value [95 %]", number=True), Head("Forecasts", number=True), Head("No interval because")]
    rows = [
        [
            text(row["scope"]),
            text(row["metric"]),
            interval(row["value"], row["lower"], row["upper"], 4, row["reason"]),
            number(row["n"]),
            text(row["reason"]),
        ]
        for row in scores
        if row["value"] is not None
    ]
    return Grid("scores", "Every metric that is defined", heads, rows, filters=(0, 1), search=(0, 1))
