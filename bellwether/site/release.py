"""The page of a release: leaderboard, parts, reliability, cost, pairs, questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import polars as pl

from bellwether.calibration import reliability_bands
from bellwether.figures.reliability import rows_of as bins
from bellwether.formatting import rounded_down
from bellwether.pages import charts
from bellwether.pages.model import Cell, Facts, Grid, Head, Note, Page, Part, Section, Table
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, interval, number, p_value, percent, slug, text, when
from bellwether.site import pairs
from bellwether.site.source import Source

#: Resamples of a band: as few as a report takes for many forecasts; more take a quarter of a build.
_RESAMPLES = 200
#: Metrics of the table of parts.
METRICS = ("brier", "brier_skill", "skill_vs_market", "log_loss", "roc_auc", "accuracy", "ece")


@dataclass(frozen=True, slots=True)
class Material:
    """Rows of one release, and the colours of its forecasters. answers: question_id, forecaster, p_yes, brier, cost, could_know, samples, asked."""

    name: str
    colours: dict[str, str]
    board: pl.DataFrame
    questions: pl.DataFrame
    scores: pl.DataFrame
    reliability: pl.DataFrame
    comparisons: pl.DataFrame
    forecasts: pl.DataFrame
    answers: pl.DataFrame


def folder(name: str) -> str:
    """The folder of a release."""
    return f"benchmark/{slug(name)}"


def path(name: str) -> str:
    """The page of a release."""
    return f"{folder(name)}/index.html"


def question_path(name: str, question: str) -> str:
    """The page of a question."""
    return f"{folder(name)}/question/{slug(question)}.html"


def forecaster_path(name: str, forecaster: str) -> str:
    """The page of a forecaster in a release."""
    return f"{folder(name)}/forecaster/{slug(forecaster)}.html"


def read(source: Source, name: str, colours: dict[str, str]) -> Material:
    """The rows of one release."""
    frames = {one: source.frame(f"benchmark/{one}", release=name) for one in ("leaderboard", "questions", "reliability", "comparisons")}
    scores = source.frame("benchmark/scores", "forecaster", "scope", "metric", "value", "lower", "upper", "n", "reason", release=name)
    forecasts = source.frame("benchmark/forecasts", release=name)
    truth = frames["questions"].select("id", yes=(pl.col("ground_truth") == "yes").cast(pl.Float64))
    combined = pl.when(pl.col("combine").first() == "median").then(pl.col("p_yes").median()).otherwise(pl.col("p_yes").mean())
    answers = (
        forecasts.group_by("question_id", "forecaster", maintain_order=True)
        .agg(
            p_yes=combined,
            cost=pl.when(pl.col("cost").is_null().any()).then(None).otherwise(pl.col("cost").sum()),
            could_know=pl.col("could_know").any(),
            samples=pl.len(),
            error=pl.col("error").drop_nulls().first(),
            asked=(pl.col("raw_response").is_not_null() | pl.col("call_key").is_not_null()).any(),
        )
        .join(truth, left_on="question_id", right_on="id", how="left", maintain_order="left")
        .with_columns(brier=(pl.col("p_yes") - pl.col("yes")) ** 2)
    )
    banded = frames["reliability"].join(bands(answers, frames["questions"]), on=["forecaster", "bin"], how="left", maintain_order="left")
    board = frames["leaderboard"].sort("rank", "brier", "forecaster", nulls_last=True)
    return Material(name, colours, board, frames["questions"], scores, banded, frames["comparisons"], forecasts, answers)


def bands(answers: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Consistency bands of the bins of forecasters: forecaster, bin, low and high, where 95 % of its frequencies of yes would lie if it were calibrated.

    answers: question_id, forecaster, p_yes, could_know, a row per question. questions: id, cluster. A bin without forecasts has no row.
    """
    scored = answers.filter(pl.col("p_yes").is_not_null() & ~pl.col("could_know"))
    scored = scored.join(questions.select("id", "cluster"), left_on="question_id", right_on="id").sort("forecaster", "question_id")
    found = [pl.DataFrame(schema={"forecaster": pl.String, "bin": pl.Int32, "low": pl.Float64, "high": pl.Float64})]
    for (name,), part in scored.group_by("forecaster", maintain_order=True):
        drawn = reliability_bands(part["p_yes"], part["cluster"], resamples=_RESAMPLES)
        found.append(drawn.drop_nulls("lower").select(pl.lit(name).alias("forecaster"), "bin", low="lower", high="upper"))
    return pl.concat(found)


def pages(material: Material) -> Iterator[File]:
    """The page of the release."""
    asked, board = material.questions, material.board
    facts = [
        ("Questions", number(asked.height)),
        ("Answered yes", percent((asked["ground_truth"] == "yes").mean(), 1)),
        ("Cutoff", when(asked["cutoff"][0])),
        ("Closes", Cell(f"{when(asked['close_time'].min()).text} to {when(asked['close_time'].max()).text}")),  # type: ignore[arg-type]
        ("Version", text(f"{asked['version'][0]}, rules {asked['rules'][0]}")),
    ]
    if board.height:
        facts.append(("Digest", text(board["questions_digest"][0])))
    sections = [Section("Leaderboard", _board(material))]
    if board.height:
        sections += [Section("By category, horizon and contamination", _parts(material)), Section("Calibration", _calibration(material))]
        sections += [Section("Score against cost", _cost(material)), Section("Pairs", _pairs(material))]
    sections += [Section("Questions", [_questions(material)]), Section("The release", [Facts(facts)])]
    lead = f"{asked.height:,} questions, {board.height} forecasters. Lower Brier scores are better; names lead to every single forecast."
    yield from render(Page(path(material.name), material.name, lead, sections, [("Benchmark", "benchmark/index.html")]))


def board_heads() -> list[Head]:
    """Heads of a leaderboard."""
    return [
        Head("Rank", number=True),
        Head("Forecaster"),
        Head("Kind"),
        Head("Brier [95 %]", "mean Brier score with its interval; lower is better", number=True),
        Head("Group", "forecasters that share a letter do not differ significantly"),
        Head("Skill [95 %]", "over the base rate", number=True),
        Head("vs market [95 %]", "skill over the market's price at the same time", number=True),
        Head("Log loss", number=True),
        Head("ROC AUC", number=True),
        Head("Accuracy", number=True),
        Head("ECE", "expected calibration error; biased upwards", number=True),
        Head("p", "of a test of calibration by ECE", number=True),
        Head("Coverage", "share of questions with a forecast that counts", number=True),
        Head("Could know", "questions left out because the forecaster could have known the outcome", number=True),
    ]


def board_rows(release: str, board: pl.DataFrame) -> list[list[Cell]]:
    """Rows of a leaderboard under `board_heads`."""
    return [
        [
            number(row["rank"]) if row["rank"] is not None else Cell("–", title=row["unranked_because"] or ""),
            text(row["forecaster"], forecaster_path(release, row["forecaster"])),
            text(row["kind"].replace("_", " ")),
            interval(row["brier"], row["brier_lower"], row["brier_upper"], 3, row["brier_reason"]),
            text(row["group"]),
            interval(row["brier_skill"], row["brier_skill_lower"], row["brier_skill_upper"], 2, row["brier_skill_reason"]),
            interval(row["skill_vs_market"], row["skill_vs_market_lower"], row["skill_vs_market_upper"], 2, row["skill_vs_market_reason"]),
            number(row["log_loss"], 3),
            number(row["roc_auc"], 3),
            percent(row["accuracy"], 1),
            number(row["ece"], 3),
            p_value(row["ece_p_calibrated"], 3),
            percent(rounded_down(row["coverage"]), 1),
            number(row["could_know"]),
        ]
        for row in board.iter_rows(named=True)
    ]


def drawn(board: pl.DataFrame) -> list[dict[str, object]]:
    """Brier scores with their intervals, to be drawn; undefined ones are left out."""
    rows = board.filter(pl.col("brier").is_finite()).iter_rows(named=True)
    return [
        {"name": row["forecaster"], "value": row["brier"], "lower": finite(row["brier_lower"]), "upper": finite(row["brier_upper"])}
        for row in rows
    ]


def _board(material: Material) -> list[Part]:
    if not material.board.height:
        return [Note("Nobody has been scored on this release yet: the warehouse has no rows of benchmark.leaderboard for it.")]
    shown = drawn(material.board)
    title = "Brier scores with 95 % intervals"
    parts: list[Part] = [charts.intervals(title, "Brier score", shown, material.colours)] if shown else []
    return [*parts, Table(f"Leaderboard of {material.name}", board_heads(), board_rows(material.name, material.board))]


def _parts(material: Material) -> list[Part]:
    rows = material.scores.filter(pl.col("metric").is_in(METRICS))
    by_category = rows.filter((pl.col("metric") == "brier") & pl.col("scope").str.starts_with("category:") & pl.col("value").is_finite())
    ranked = material.board["forecaster"].to_list()
    parts: list[Part] = []
    if by_category.height:
        cells = [
            {"name": name, "other": scope.partition(":")[2], "value": value, "note": f"{n} forecasts"}
            for name, scope, value, n in by_category.select("forecaster", "scope", "value", "n").iter_rows()
        ]
        others = sorted({str(cell["other"]) for cell in cells})
        parts.append(charts.matrix("Brier score by category", "Brier score", cells, ranked, others))
    grid = [
        [
            text(row["forecaster"], forecaster_path(material.name, row["forecaster"])),
            text(row["scope"]),
            text(row["metric"]),
            interval(row["value"], row["lower"], row["upper"], 3, row["reason"]),
            number(row["n"]),
        ]
        for row in rows.sort("scope", "metric", "forecaster").iter_rows(named=True)
    ]
    heads = [
        Head("Forecaster"),
        Head("Part", "category, days before the close (horizon), days from the knowledge cutoff (distance), or could_know: contaminated"),
        Head("Metric"),
        Head("Value [95 %]", number=True),
        Head("Forecasts", number=True),
    ]
    return [*parts, Grid("parts", "Scores by part of the release", heads, grid, filters=(1, 2, 0), search=(0, 1))]


def _calibration(material: Material) -> list[Part]:
    rows = bins(material.reliability, "forecaster")
    if not rows:
        return [Note("The warehouse has no reliability diagrams of this release.")]
    ranked = material.board["forecaster"].to_list()
    asked = material.board.filter(pl.col("kind") == "language_model")["forecaster"].to_list()
    rows.sort(key=lambda row: ranked.index(row["name"]) if row["name"] in ranked else len(ranked))
    return [
        charts.reliability(
            "Reliability diagrams; shaded: where calibrated forecasts would lie", rows, material.colours, (asked or ranked)[:3]
        )
    ]


def _cost(material: Material) -> list[Part]:
    costs = material.answers.group_by("forecaster").agg(
        cost=pl.when(pl.col("cost").is_null().any()).then(None).otherwise(pl.col("cost").sum())
    )
    found = (
        material.board.select("forecaster", "brier")
        .join(costs, on="forecaster", maintain_order="left")
        .filter(pl.col("cost").is_not_null())
    )
    priced = [
        {"name": name, "x": float(cost), "y": brier} for name, brier, cost in found.iter_rows() if cost > 0 and finite(brier) is not None
    ]
    if not priced:
        return [Note("No forecaster of this release has a known cost above 0.")]
    return [
        charts.scatter("Brier score against cost", "cost of all its forecasts, dollars", "Brier score", priced, material.colours, log=True)
    ]


def _pairs(material: Material) -> list[Part]:
    if not material.comparisons.height:
        return [Note("The warehouse compares no pairs of this release.")]
    title = "Differences of Brier scores (row less column; a dot: significant after Holm's correction)"
    drawn = pairs.matrix(title, material.comparisons, "forecaster", material.board["forecaster"].to_list())
    path_of = partial(forecaster_path, material.name)
    rows = [pairs.line(row, "forecaster", path_of) for row in material.comparisons.iter_rows(named=True)]
    return [*drawn, Grid("pairs", "All pairs", pairs.heads("Forecaster", "Other", "Questions"), rows, filters=(0, 1), search=(0, 1))]


def _questions(material: Material) -> Grid:
    scored = material.answers.filter(~pl.col("could_know")).group_by("question_id")
    mean = dict(scored.agg(pl.col("brier").mean()).iter_rows())
    heads = [
        Head("#", number=True),
        Head("Question"),
        Head("Category"),
        Head("Close"),
        Head("Outcome"),
        Head("Price 24 h before", number=True),
        Head("Mean Brier", "over forecasters that could not have known", number=True),
    ]
    rows = [
        [
            number(row["ordinal"]),
            text(row["question"], question_path(material.name, row["id"])),
            text(row["category"]),
            when(row["close_time"]),
            text(row["ground_truth"]),
            number(row["price_24h"], 2),
            number(mean.get(row["id"]), 3),
        ]
        for row in material.questions.iter_rows(named=True)
    ]
    return Grid("questions", f"Questions of {material.name}", heads, rows, filters=(2, 4), search=(1, 2))
