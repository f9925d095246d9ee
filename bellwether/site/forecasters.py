"""Page of a forecaster (a model or baseline) in a release: headline numbers, calibration, strengths and weaknesses, all forecasts, all metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from bellwether.figures.reliability import diagram_rows as bins
from bellwether.formatting import rounded_down
from bellwether.pages import charts, columns
from bellwether.pages.model import Cell, Grid, Head, Note, Page, PageTable, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, group_rows, interval, interval_note, number, p_value, percent, price, text, yes_no
from bellwether.site.questions import answer_cell
from bellwether.site.release import ReleaseData, forecaster_path, part_title, question_path
from bellwether.site.release import path as release_path

path = forecaster_path


def pages(material: ReleaseData) -> Iterator[File]:
    """Yield a page for each forecaster of a release's leaderboard. material: rows of the release."""
    questions = {
        row["id"]: row for row in material.questions.select("id", "question", "category", "ground_truth", "price_24h").iter_rows(named=True)
    }
    scores = group_rows(material.scores, "forecaster")
    answers = group_rows(material.answers, "forecaster")
    drawn = material.reliability.partition_by("forecaster", as_dict=True)
    for line in material.board.iter_rows(named=True):
        name = line["forecaster"]
        diagram = bins(drawn[name,], "forecaster") if (name,) in drawn else []
        own = answers.get(name, [])
        calibration: list[Part] = [Note("The warehouse has no reliability diagram of this forecaster.")]
        if diagram:
            title = f"Reliability of {name}; shaded: where calibrated forecasts would lie"
            bars = drawn[name,].filter(pl.col("n") > 0).select("n", low="lower_edge", high="upper_edge").rows(named=True)
            calibration = [
                charts.reliability(title, diagram, {name: material.colours[name]}),
                charts.distribution("Distribution of its forecasts", bars, material.colours[name]),
            ]
        sections = [
            Section("", [_headline(line, own, material.board["rank"].count())]),
            Section.even("Calibration", calibration),
            Section.even("Strengths and weaknesses", _strengths(material, line, own, scores.get(name, []), questions)),
            Section("Its forecasts", [_answers(material, own, questions)]),
            Section("Every metric", [_scores(scores.get(name, []))]),
            Section("Its line of the leaderboard", [columns.facts("benchmark/leaderboard", line)]),
        ]
        above = [("Benchmark", "benchmark/index.html"), (material.name, release_path(material.name))]
        lead = f"In release {material.name}: {line['n']:,} forecasts scored of {line['n_questions']:,} questions."
        yield from render(Page(path(material.name, name), name, lead, sections, above))


def _headline(line: Mapping[str, Any], answers: list[dict[str, Any]], ranked: int) -> Stats:
    """Build the headline numbers of a forecaster. line: row of the leaderboard. ranked: number of ranked forecasters."""
    costs = [row["cost"] for row in answers]
    known_costs = [float(cost) for cost in costs if cost is not None]
    rank = number(line["rank"]) if line["rank"] is not None else Cell("not ranked", title=line["unranked_because"] or "")
    return Stats(
        [
            ("Rank", rank, f"of {ranked} ranked" if line["rank"] is not None else (line["unranked_because"] or "")),
            (
                "Brier score",
                number(line["brier"], 3),
                interval_note(line["brier_lower"], line["brier_upper"]),
            ),
            (
                "Skill over the base rate",
                number(line["brier_skill"], 2),
                interval_note(line["brier_skill_lower"], line["brier_skill_upper"], 2),
            ),
            ("Calibration error", number(line["ece"], 3), f"p {p_value(line['ece_p_calibrated'], 3).text} of a test of calibration"),
            (
                "Cost per question",
                columns.cost(sum(known_costs) / len(known_costs) if known_costs else None),
                "of questions with a known cost",
            ),
            ("Coverage", percent(rounded_down(line["coverage"]), 1), f"{line['n']:,} of {line['n_questions']:,} questions"),
        ]
    )


def _strengths(
    material: ReleaseData, line: Mapping[str, Any], answers: list[dict[str, Any]], scores: list[dict[str, Any]], asked: Mapping[str, Any]
) -> list[Part]:
    """Build the chart of a forecaster's scores by category, and the tables of the ten best and ten worst questions. asked: questions by id."""
    name = line["forecaster"]
    rows = [
        {"name": row["scope"].partition(":")[2], "value": row["value"], "lower": finite(row["lower"]), "upper": finite(row["upper"])}
        for row in scores
        if row["metric"] == "brier" and row["scope"].startswith("category:") and finite(row["value"]) is not None
    ]
    rows.sort(key=lambda row: (row["value"], row["name"]))
    parts: list[Part] = []
    if rows:
        rows.insert(0, {"name": "all questions", "value": line["brier"], "lower": line["brier_lower"], "upper": line["brier_upper"]})
        # Sorted, so that all pages share one cached chart specification per colour.
        every = dict.fromkeys(sorted(str(row["name"]) for row in rows), material.colours[name])
        parts.append(charts.intervals("Brier score by category, best first", "Brier score", rows, every))
    scored = sorted((row for row in answers if row["brier"] is not None and not row["could_know"]), key=lambda row: row["brier"])
    heads = [Head("Question"), Head("Forecast", "probability of yes", number=True), Head("Outcome"), Head("Brier", number=True)]
    for caption, chosen in (("Best ten questions", scored[:10]), ("Worst ten questions", scored[::-1][:10])):
        lines = [[row[place] for place in (0, 2, 4, 5)] for row in _rows(material, chosen, asked)]
        parts.append(PageTable(caption, heads, lines))
    return parts


def _rows(material: ReleaseData, answers: list[dict[str, Any]], asked: Mapping[str, Any]) -> list[list[Cell]]:
    rows = []
    for row in answers:
        question_row = asked.get(row["question_id"])
        question = (
            text(question_row["question"], question_path(material.name, row["question_id"])) if question_row else text(row["question_id"])
        )
        rows.append(
            [
                question,
                text(question_row["category"] if question_row else None),
                answer_cell(material.name, row["question_id"], row),
                price(question_row["price_24h"] if question_row else None),
                text(question_row["ground_truth"] if question_row else None),
                number(row["brier"], 3),
                yes_no(row["could_know"]),
                columns.cost(row["cost"]),
                text(row["error"]),
            ]
        )
    return rows


def _answers(material: ReleaseData, answers: list[dict[str, Any]], asked: Mapping[str, Any]) -> Grid:
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
    return Grid("forecasts", "One row per question", heads, _rows(material, answers, asked), filters=(1, 4, 6), search=(0, 1, 8))


def _scores(scores: list[dict[str, Any]]) -> Grid:
    heads = [
        *columns.heads("benchmark/scores", ("scope", "Part"), "metric"),
        columns.estimate_head("benchmark/scores", "value"),
        *columns.heads("benchmark/scores", ("n", "Forecasts"), ("reason", "No interval because")),
    ]
    rows = [
        [
            text(part_title(row["scope"])),
            text(columns.title(row["metric"])),
            interval(row["value"], row["lower"], row["upper"], 3, row["reason"]),
            number(row["n"]),
            text(row["reason"]),
        ]
        for row in scores
        if row["value"] is not None
    ]
    return Grid("scores", "Every metric that is defined", heads, rows, filters=(0, 1), search=(0, 1))
