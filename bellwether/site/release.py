"""Page of a release (a fixed set of questions): leaderboard, reliability, costs, pairwise comparisons and questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from bellwether.calibration import reliability_bands
from bellwether.figures.reliability import diagram_rows as bins
from bellwether.formatting import rounded_down
from bellwether.pages import charts, columns
from bellwether.pages.model import Cell, Facts, Grid, Head, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, interval, interval_note, leader, number, p_value, percent, price, rank, slug, text, timestamp
from bellwether.site import pairs
from bellwether.site.source import SiteSource

#: Resamples of a band; more would take a quarter of a build.
_RESAMPLES = 200
#: Metrics of the parts of a release.
METRICS = ("brier", "brier_skill", "skill_vs_market", "log_loss", "roc_auc", "accuracy", "ece")
#: Title of the whole release, and upper bounds of cost bands in dollars per question.
WHOLE, _BANDS = "all questions", (0.001, 0.01, 0.1, 1.0)
#: Titles of the kinds of parts.
_PARTS = {"category": "category: ", "horizon": "horizon: ", "distance": "after the knowledge cutoff: "}


@dataclass(frozen=True, slots=True)
class ReleaseData:
    """Rows of one release, and the colours of its forecasters.

    answers: one row per question and forecaster with the samples combined: question_id, forecaster, p_yes, brier, cost (null if that of any sample
    is unknown), could_know, samples, as_of, error, and asked (a model was called).
    """

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
    """Return the folder of a release's pages."""
    return f"benchmark/{slug(name)}"


def path(name: str) -> str:
    """Return the path of the page of a release."""
    return f"{folder(name)}/index.html"


def question_path(name: str, question: str) -> str:
    """Return the path of the page of a question."""
    return f"{folder(name)}/question/{slug(question)}.html"


def forecaster_path(name: str, forecaster: str) -> str:
    """Return the path of the page of a forecaster in a release."""
    return f"{folder(name)}/forecaster/{slug(forecaster)}.html"


def read_release(source: SiteSource, name: str, colours: dict[str, str]) -> ReleaseData:
    """Read the rows of one release."""
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
            as_of=pl.col("as_of").max(),
            error=pl.col("error").drop_nulls().first(),
            asked=(pl.col("raw_response").is_not_null() | pl.col("call_key").is_not_null()).any(),
        )
        .join(truth, left_on="question_id", right_on="id", how="left", maintain_order="left")
        .with_columns(brier=(pl.col("p_yes") - pl.col("yes")) ** 2)
    )
    banded = frames["reliability"].join(
        consistency_bands(answers, frames["questions"]), on=["forecaster", "bin"], how="left", maintain_order="left"
    )
    board = frames["leaderboard"].sort("rank", "brier", "forecaster", nulls_last=True)
    return ReleaseData(name, colours, board, frames["questions"], scores, banded, frames["comparisons"], forecasts, answers)


def consistency_bands(answers: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Compute where the observed frequency of each reliability bin would lie if the forecasts were calibrated: forecaster, bin, low and high.

    For a calibrated forecaster, 95 % of the frequencies of yes lie between low and high. answers: question_id, forecaster, p_yes and could_know, one
    row per question and forecaster. questions: id, cluster. A bin without forecasts has no row.
    """
    scored = answers.filter(pl.col("p_yes").is_not_null() & ~pl.col("could_know"))
    scored = scored.join(questions.select("id", "cluster"), left_on="question_id", right_on="id").sort("forecaster", "question_id")
    parts = [pl.DataFrame(schema={"forecaster": pl.String, "bin": pl.Int32, "low": pl.Float64, "high": pl.Float64})]
    for (name,), part in scored.group_by("forecaster", maintain_order=True):
        bands = reliability_bands(part["p_yes"], part["cluster"], resamples=_RESAMPLES)
        parts.append(bands.drop_nulls("lower").select(pl.lit(name).alias("forecaster"), "bin", low="lower", high="upper"))
    return pl.concat(parts)


def pages(material: ReleaseData) -> Iterator[File]:
    """Yield the page of a release."""
    questions, board = material.questions, material.board
    facts = [
        ("Questions", number(questions.height)),
        ("Answered yes", percent((questions["ground_truth"] == "yes").mean(), 1)),
        ("Cutoff", timestamp(questions["cutoff"][0])),
        ("Closes", Cell(f"{timestamp(questions['close_time'].min()).text} to {timestamp(questions['close_time'].max()).text}")),  # type: ignore[arg-type]
        ("Version", text(f"{questions['version'][0]}, rules {questions['rules'][0]}")),
    ]
    if board.height:
        facts.append(("Digest", text(board["questions_digest"][0])))
    sections = [Section("", [_headline(material)]), Section("Leaderboard", _leaderboard(material), (4, 8) if board.height else ())]
    if board.height:
        sections.append(Section.even("Calibration and categories", [*_calibration(material), *_categories(material)]))
        sections.append(Section.even("Cost and knowledge", _costs(material)))
        sections.append(Section.even("Who is significantly better than whom", _pairs(material)))
    sections += [Section("Questions", [_questions(material)]), Section("The release", [Facts(facts)])]
    lead = (
        f"{questions.height:,} questions, {board.height} forecasters. Lower Brier scores are better; names lead to every single forecast."
    )
    yield from render(Page(path(material.name), material.name, lead, sections, [("Benchmark", "benchmark/index.html")]))


def _headline(material: ReleaseData) -> Stats:
    questions, board = material.questions, material.board.filter(pl.col("rank").is_not_null())
    first = board.head(1).rows(named=True)
    rows = [("Questions", number(questions.height), f"{questions['category'].n_unique()} categories")]
    for row in first:
        rows.append(("Best forecaster", leader_cell(material.name, board), f"of {board.height} ranked"))
        rows.append(("Its Brier score", number(row["brier"], 3), interval_note(row["brier_lower"], row["brier_upper"])))
        equal = board.filter(pl.col("group").str.contains_any(list(row["group"] or "?"))).height
        rows.append(("Not significantly worse", number(equal - 1), "share a letter with the best"))
    rows.append(("Answered yes", percent((questions["ground_truth"] == "yes").mean(), 1), "of all questions"))
    rows.append(("Last close", timestamp(questions["close_time"].max().date()), ""))  # type: ignore[union-attr]
    return Stats(rows)


def leader_cell(release: str, board: pl.DataFrame) -> Cell:
    """Return the cell that names the forecaster with rank 1, or those that tie. board: rows of benchmark/leaderboard of one release."""
    names = board.filter(pl.col("rank") == 1)["forecaster"].sort()
    return leader([text(name, forecaster_path(release, name)) for name in names], "–")


def board_heads() -> list[Head]:
    """Build the column heads of the leaderboard."""
    name = "benchmark/leaderboard"
    of = partial(columns.head, name)
    return [
        of("rank", numeric=True),
        of("forecaster"),
        columns.estimate_head(name, "brier"),
        of("group"),
        columns.estimate_head(name, "brier_skill"),
        columns.estimate_head(name, "skill_vs_market"),
        *(of(column, numeric=True) for column in ("log_loss", "roc_auc", "accuracy", "ece", "ece_p_calibrated", "coverage", "n")),
        Head("Cost", "dollars per question, of all samples", number=True),
        Head("Part", "all questions, a category, days before the close (horizon), or days from the knowledge cutoff"),
        Head("Provider"),
        of("kind"),
        of("could_know", numeric=False),
        Head("Cost band", "dollars per question"),
    ]


def board_rows(material: ReleaseData) -> list[list[Cell]]:
    """Build the rows of the leaderboard: first forecasters by rank on all questions, then each forecaster on each part of the release, such as a
    category.
    """
    costs = dict(material.answers.group_by("forecaster").agg(pl.col("cost").mean()).iter_rows())
    models = dict(material.forecasts.group_by("forecaster").agg(pl.col("model").drop_nulls().first()).iter_rows())
    rows, about = [], {}
    for row in material.board.iter_rows(named=True):
        name, could = row["forecaster"], row["could_know"] or 0
        about[name] = [
            text((models.get(name) or "").partition("/")[0] or "none"),
            text(row["kind"].replace("_", " ")),
            Cell(f"{could:,} left out" if could else "none", "some" if could else "none"),
            _band(costs.get(name)),
        ]
        place = rank(row["rank"], material.board["rank"], row["unranked_because"])
        rows.append([place, *_metric_cells(material, row, row, costs.get(name)), text(WHOLE), *about[name]])
    for (name, scope), part in material.scores.filter(pl.col("metric").is_in([*METRICS, "coverage"]) & (pl.col("scope") != "all")).group_by(
        "forecaster", "scope", maintain_order=True
    ):
        metrics: dict[str, Any] = {"forecaster": name}
        for metric, *values in part.select("metric", "value", "lower", "upper", "reason", "n").iter_rows():
            metrics |= dict(zip((metric, f"{metric}_lower", f"{metric}_upper", f"{metric}_reason", "n"), values, strict=True))
        if name in about:
            rows.append([Cell("–"), *_metric_cells(material, metrics, {}, None), text(part_title(str(scope))), *about[str(name)]])
    return rows


def part_title(scope: str) -> str:
    """Return the title of a part of a release. scope: as in benchmark/scores; `category:Sports` becomes `category: Sports`."""
    kind, colon, rest = scope.partition(":")
    return f"{_PARTS.get(kind, kind)}{rest}" if colon else WHOLE if scope == "all" else scope.replace("_", " ")


def _metric_cells(material: ReleaseData, row: Mapping[str, Any], whole: Mapping[str, Any], cost: float | None) -> list[Cell]:
    """Build the cells of a leaderboard row from the forecaster to the cost.

    row: metrics with intervals. whole: values that are defined only for all questions together.
    """
    estimates = [
        interval(row.get(one), row.get(f"{one}_lower"), row.get(f"{one}_upper"), digits, row.get(f"{one}_reason"))
        for one, digits in (("brier", 3), ("brier_skill", 2), ("skill_vs_market", 2))
    ]
    return [
        text(row["forecaster"], forecaster_path(material.name, row["forecaster"])),
        estimates[0],
        text(whole.get("group")),
        *estimates[1:],
        number(row.get("log_loss"), 3),
        number(row.get("roc_auc"), 3),
        percent(row.get("accuracy"), 1),
        number(row.get("ece"), 3),
        p_value(whole.get("ece_p_calibrated"), 3),
        percent(rounded_down(row.get("coverage")), 1),
        number(row.get("n")),
        columns.cost(cost),
    ]


def _band(cost: Any) -> Cell:
    """Format the range that contains a cost per question, such as up to $0.01."""
    if cost is None or not cost:
        return text("no cost known" if cost is None else "free")
    band = next((f"up to ${end:g}" for end in _BANDS if cost <= end), f"above ${_BANDS[-1]:g}")
    return text(band)


def interval_rows(board: pl.DataFrame) -> list[dict[str, object]]:
    """Build chart rows of Brier scores with intervals from rows of the leaderboard. Rows without a score are left out."""
    rows = board.filter(pl.col("brier").is_finite()).iter_rows(named=True)
    return [
        {"name": row["forecaster"], "value": row["brier"], "lower": finite(row["brier_lower"]), "upper": finite(row["brier_upper"])}
        for row in rows
    ]


def _leaderboard(material: ReleaseData) -> list[Part]:
    if not material.board.height:
        return [Note("No forecaster has been scored on this release yet: the warehouse has no rows of benchmark.leaderboard for it.")]
    drawn = interval_rows(material.board)
    title = "Brier scores with 95 % intervals"
    parts: list[Part] = [charts.intervals(title, "Brier score", drawn, material.colours, step=30)] if drawn else []
    filters = (14, 15, 16, 17, 18)
    grid = Grid("board", f"Leaderboard of {material.name}", board_heads(), board_rows(material), filters, (1,), {14: WHOLE}, 50)
    return [*parts, grid]


def _categories(material: ReleaseData) -> list[Part]:
    rows = material.scores.filter(
        (pl.col("metric") == "brier") & pl.col("scope").str.starts_with("category:") & pl.col("value").is_finite()
    )
    cells = [
        {"name": name, "other": scope.partition(":")[2], "value": value, "note": f"{n} forecasts"}
        for name, scope, value, n in rows.select("forecaster", "scope", "value", "n").iter_rows()
    ]
    if not cells:
        return []
    others = sorted({str(cell["other"]) for cell in cells})
    return [charts.matrix("Brier score by category", "Brier score", cells, material.board["forecaster"].to_list(), others)]


def _calibration(material: ReleaseData) -> list[Part]:
    rows = bins(material.reliability, "forecaster")
    if not rows:
        return [Note("The warehouse has no reliability diagrams of this release.")]
    ranked = material.board["forecaster"].to_list()
    language_models = material.board.filter(pl.col("kind") == "language_model")["forecaster"].to_list()
    rows.sort(key=lambda row: ranked.index(row["name"]) if row["name"] in ranked else len(ranked))
    return [
        charts.reliability(
            "Reliability diagrams; shaded: where calibrated forecasts would lie", rows, material.colours, (language_models or ranked)[:3]
        )
    ]


def _costs(material: ReleaseData) -> list[Part]:
    """Build the charts of the Brier score by cost, and by knowledge cutoff."""
    costs = material.answers.group_by("forecaster").agg(
        cost=pl.when(pl.col("cost").is_null().any()).then(None).otherwise(pl.col("cost").mean())
    )
    cutoffs = material.forecasts.group_by("forecaster").agg(pl.col("knowledge_cutoff").max())
    points = material.board.select("forecaster", "brier").filter(pl.col("brier").is_finite())
    points = points.join(costs, on="forecaster", how="left", maintain_order="left").join(
        cutoffs, on="forecaster", how="left", maintain_order="left"
    )
    priced = [{"name": row["forecaster"], "x": float(row["cost"]), "y": row["brier"]} for row in points.rows(named=True) if row["cost"]]
    dated = [
        {"name": row["forecaster"], "x": f"{row['knowledge_cutoff']:%Y-%m-%d}", "y": row["brier"]}
        for row in points.rows(named=True)
        if row["knowledge_cutoff"]
    ]
    parts: list[Part] = []
    if priced:
        parts.append(charts.scatter("Brier score against cost", "dollars per question", "Brier score", priced, material.colours, log=True))
    if dated:
        title = "Brier score against the knowledge cutoff"
        parts.append(charts.scatter(title, "knowledge cutoff", "Brier score", dated, material.colours, timed=True))
    return parts or [Note("No forecaster of this release has a known cost above 0.")]


def _pairs(material: ReleaseData) -> list[Part]:
    if not material.comparisons.height:
        return [Note("The warehouse has no comparisons of this release.")]
    title = "Brier score of the row less that of the column; a dot: significant after Holm's correction"
    matrices = pairs.matrix(title, material.comparisons, "forecaster", material.board["forecaster"].to_list())
    path_of = partial(forecaster_path, material.name)
    rows = [pairs.line(row, "forecaster", path_of) for row in material.comparisons.iter_rows(named=True)]
    return [
        *matrices,
        Grid(
            "pairs",
            "All pairs",
            pairs.heads("benchmark/comparisons", "forecaster", "Questions"),
            rows,
            filters=(0, 1),
            search=(0, 1),
            size=14,
        ),
    ]


def _questions(material: ReleaseData) -> Grid:
    scored = material.answers.filter(~pl.col("could_know")).group_by("question_id")
    mean = dict(scored.agg(pl.col("brier").mean()).iter_rows())
    heads = [
        *columns.heads(
            "benchmark/questions",
            ("ordinal", "#"),
            "question",
            "category",
            ("close_time", "Close"),
            ("ground_truth", "Outcome"),
            ("price_24h", "Price 24 h before"),
        ),
        Head("Mean Brier", "over forecasters that could not have known", number=True),
    ]
    rows = [
        [
            number(row["ordinal"]),
            text(row["question"], question_path(material.name, row["id"])),
            text(row["category"]),
            timestamp(row["close_time"]),
            text(row["ground_truth"]),
            price(row["price_24h"]),
            number(mean.get(row["id"]), 3),
        ]
        for row in material.questions.iter_rows(named=True)
    ]
    return Grid("questions", f"Questions of {material.name}", heads, rows, filters=(2, 4), search=(1, 2))
