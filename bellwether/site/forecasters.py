"""Page of a forecaster (a model or baseline) in a release: headline numbers, calibration, categories and all forecasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from bellwether.figures.reliability import diagram_rows
from bellwether.formatting import rounded_down
from bellwether.pages import charts, columns
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import group_rows, interval_note, number, p_value, percent, price
from bellwether.site.paths import forecaster_path, question_path, release_path
from bellwether.site.questions import answer_column
from bellwether.site.release import ReleaseData, table_links


def pages(material: ReleaseData) -> Iterator[File]:
    """Yield a page for each forecaster of a release's leaderboard."""
    answers = group_rows(material.answers, "forecaster")
    drawn = material.reliability.partition_by("forecaster", as_dict=True)
    ranked = material.board["rank"].count()
    for line in material.board.iter_rows(named=True):
        name = line["forecaster"]
        scores = material.scores.filter(pl.col("forecaster") == name, pl.col("metric") == "brier")
        sections = [
            Section("", [_headline(line, ranked)]),
            Section.even("Calibration", _calibration(name, drawn.get((name,)), material.colours[name])),
            Section("Categories", [_categories(line, scores, material.colours[name])]),
            Section("Its forecasts", [_answers(material.name, answers.get(name, []))]),
            Section("Every metric", [table_links("benchmark.scores")]),
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


def _categories(line: Row, scores: pl.DataFrame, colour: str) -> Part:
    """Build the chart of a forecaster's scores by category. line: row of the leaderboard. scores: its Brier scores by scope."""
    categories = scores.filter(pl.col("scope").str.starts_with("category:"), pl.col("value").is_finite())
    if categories.is_empty():
        return Note("The warehouse has no scores of this forecaster by category.")
    own = categories.select("value", "lower", "upper", name=pl.col("scope").str.strip_prefix("category:")).sort("value", "name")
    rows = [{"name": "all questions", "value": line["brier"], "lower": line["brier_lower"], "upper": line["brier_upper"]}, *own.to_dicts()]
    # Sorted, so that all pages share one cached chart specification per colour.
    every = dict.fromkeys(sorted(str(row["name"]) for row in rows), colour)
    return charts.intervals("Brier score by category, best first", "Brier score", rows, every)


def _answers(release: str, answers: Sequence[Row]) -> Part:
    return build_table(
        "benchmark/forecasts",
        "One row per question",
        answers,
        *("question", "category"),
        answer_column("Yes", release),
        build_column("Price 24 h before", lambda row: price(row["price_24h"]), numeric=True),
        ("ground_truth", "Outcome"),
        build_column("Brier", lambda row: number(row["brier"], 3), numeric=True),
        *(("could_know", "Known outcome"), "cost", ("error", "Problem")),
        links={"question": lambda row: question_path(release, row["question_id"])},
        filters=("Category", "Outcome", "Known outcome"),
        search=("Question",),
        name="forecasts",
    )
