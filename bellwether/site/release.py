"""Page of a benchmark release (a fixed set of questions): leaderboard, calibration, costs, comparisons and questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from bellwether.figures.intervals import difference_cells
from bellwether.figures.reliability import consistency_bands, diagram_rows
from bellwether.pages import charts
from bellwether.pages.charts import Colours
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Cell, Links, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, number, percent, text, timestamp
from bellwether.site.leaderboard import RESOLVED, describe_submitted, leaderboard
from bellwether.site.leaks import leak_parts
from bellwether.site.paths import question_path, release_path, table_path
from bellwether.site.source import SiteSource
from bellwether.tables.benchmark import MODEL_KINDS


@dataclass(frozen=True, slots=True)
class ReleaseData:
    """Rows of one release, and the colours of its forecasters.

    lines: rows of `sql/site/leaderboard.sql`. answers: rows of `sql/site/answers.sql`. reliability: with the bands of calibrated forecasts. The
    others are the rows of the benchmark's tables of the same names.
    """

    name: str
    colours: dict[str, str]
    lines: pl.DataFrame
    answers: pl.DataFrame
    questions: pl.DataFrame
    forecasts: pl.DataFrame
    scores: pl.DataFrame
    reliability: pl.DataFrame
    comparisons: pl.DataFrame
    ensembles: pl.DataFrame
    resolutions: pl.DataFrame
    leaks: pl.DataFrame
    leak_scores: pl.DataFrame

    @property
    def board(self) -> pl.DataFrame:
        """Rows of the leaderboard over all questions."""
        return self.lines.filter(pl.col("scope") == "all")


def read_release(source: SiteSource, name: str, colours: Colours) -> ReleaseData:
    """Read the rows of one release. colours: of all names."""
    tables = ("questions", "forecasts", "scores", "reliability", "comparisons", "ensembles", "resolutions", "leaks", "leak_scores")
    frames = {one: source.frame(f"benchmark/{one}", release=name) for one in tables}
    bands = consistency_bands(frames["forecasts"], frames["questions"])
    frames["reliability"] = frames["reliability"].join(bands, on=["forecaster", "bin"], how="left", maintain_order="left")
    lines, answers = source.query("leaderboard", release=name), source.query("answers", "benchmark/forecasts", release=name)
    return ReleaseData(name, colours.of(lines["forecaster"].unique(maintain_order=True).to_list()), lines, answers, **frames)


def pages(material: ReleaseData) -> Iterator[File]:
    """Yield the page of a release."""
    questions, board = material.questions, material.board
    closes = [timestamp(end).text[:10] for end in (questions["close_time"].min(), questions["close_time"].max())]  # type: ignore[arg-type]
    stats = [
        ("Questions", number(questions.height), f"{questions['category'].n_unique()} categories"),
        ("Answered yes", percent((questions["ground_truth"] == "yes").mean(), 1), "of all questions"),
        ("Closed", Cell(closes[1]), f"the first on {closes[0]}"),
        ("Resolved after", timestamp(questions["cutoff"][0].date()), f"{questions['cutoff'][0]:%H:%M} UTC"),
        ("Version", text(questions["version"][0]), f"rules {questions['rules'][0]}"),
    ]
    submitted = describe_submitted(material.lines)
    notes = [] if submitted is None else [Note(submitted)]
    sections = [Section("", [Stats(stats)]), Section("Leaderboard", [leaderboard(material.name, material.lines), *notes])]
    if board.height:
        sections += [
            Section.even("Calibration and categories", [*_calibration(material), *_categories(material)]),
            Section("What forecasts add to the market's price", _added_values(material)),
            Section.even("Cost and knowledge", _costs(material)),
            Section("Who is significantly better than whom", _pairs(material)),
        ]
    sections += [
        Section("Outcomes in doubt", _resolutions(material)),
        Section("Leaks", leak_parts(material.name, questions, material.leaks, material.leak_scores, material.colours)),
        Section("Questions", [_questions(material)]),
    ]
    lead = f"A release is a set of questions that never changes. {board.height} forecasters stated a probability of yes for each question."
    yield from render(Page(release_path(material.name), material.name, lead, sections, [("Benchmark", "benchmark/index.html")]))


def _categories(material: ReleaseData) -> list[Part]:
    rows = material.scores.filter(
        (pl.col("metric") == "brier") & pl.col("scope").str.starts_with("category:") & pl.col("value").is_finite()
    )
    cells = rows.select(
        "value", name="forecaster", other=pl.col("scope").str.strip_prefix("category:"), note=pl.format("{} forecasts", "n")
    ).to_dicts()
    others = sorted({str(cell["other"]) for cell in cells})
    names = material.board["forecaster"].to_list()
    return [charts.matrix("Brier score by category", "Brier score", cells, names, others)] if cells else []


def _calibration(material: ReleaseData) -> list[Part]:
    rows = diagram_rows(material.reliability, "forecaster")
    if not rows:
        return [Note("The warehouse has no reliability diagrams of this release.")]
    ranked = material.board["forecaster"].to_list()
    language_models = material.board.filter(pl.col("kind").is_in(MODEL_KINDS))["forecaster"].to_list()
    rows.sort(key=lambda row: ranked.index(row["name"]) if row["name"] in ranked else len(ranked))
    title = "Reliability diagrams; shaded: where calibrated forecasts would lie"
    return [charts.reliability(title, rows, material.colours, (language_models or ranked)[:3])]


def _added_values(material: ReleaseData) -> list[Part]:
    """Build the chart of the weights of forecasters, and of their means, in the best mixture with the market's price."""
    weights = pl.col("metric") == "pool_weight"
    means = material.ensembles.filter(weights).with_columns(name=pl.format("{} of {} models", "ensemble", "members"))
    own = material.scores.filter(weights, pl.col("scope") == "all").with_columns(name=pl.col("forecaster"))
    columns = ("name", "value", "lower", "upper")
    known = pl.concat([means.select(columns), own.select(columns)]).filter(pl.col("value").is_finite())
    if known.is_empty():
        return [Note("No forecast of this release has a market price of its time that differs from it.")]
    title = "Weight in the best mixture with the market's price; 0 adds nothing to it"
    colours = {**dict.fromkeys(known["name"], charts.GREY), **material.colours}
    return [charts.intervals(title, "weight", known.to_dicts(), colours, reference=0.0), table_links("benchmark.ensembles")]


def _costs(material: ReleaseData) -> list[Part]:
    """Build the charts of the Brier score by cost, and by knowledge cutoff."""
    points = [row for row in material.board.iter_rows(named=True) if finite(row["brier"]) is not None]
    priced = [{"name": row["forecaster"], "x": float(row["cost"]), "y": row["brier"]} for row in points if row["cost"]]
    dated = [
        {"name": row["forecaster"], "x": f"{row['knowledge_cutoff']:%Y-%m-%d}", "y": row["brier"]}
        for row in points
        if row["knowledge_cutoff"]
    ]
    parts: list[Part] = []
    if priced:
        title = "Brier score against cost"
        parts.append(charts.scatter(title, "dollars per question", "Brier score", priced, material.colours, log=True))
    if dated:
        title = "Brier score against the knowledge cutoff"
        parts.append(charts.scatter(title, "knowledge cutoff", "Brier score", dated, material.colours, timed=True))
    return parts or [Note("No forecaster of this release has a known cost above 0.")]


def _pairs(material: ReleaseData) -> list[Part]:
    cells = difference_cells(material.comparisons, "forecaster")
    if not cells:
        return [Note("The warehouse has no comparisons of this release.")]
    title = "Brier score of the row less that of the column; a dot: significant after Holm's correction"
    ranked = material.board["forecaster"].to_list()
    return [charts.matrix(title, "difference", cells, ranked, ranked, middle=0), table_links("benchmark.comparisons")]


def table_links(*tables: str) -> Links:
    """Build the links to the pages of tables, which have their columns and downloads."""
    return Links([Cell(f"Table {name}", href=table_path(name)) for name in tables])


def _resolutions(material: ReleaseData) -> list[Part]:
    """Build the table of the questions whose outcome is or was in doubt, and the ranks that change with other outcomes or without them."""
    doubtful = material.resolutions.filter(~pl.col("resolution_status").is_in(["final", "unknown"]))
    if doubtful.is_empty():
        return [Note("No outcome of this release was disputed, corrected, voided or late.")]
    texts = dict(material.questions.select("id", "question").iter_rows())
    table = build_table(
        "benchmark/resolutions",
        "Questions with outcomes in doubt",
        doubtful.iter_rows(named=True),
        build_column("Question", lambda row: text(texts[row["question_id"]], question_path(material.name, row["question_id"]))),
        *(("resolution_status", "Status"), "published", ("outcome", "Known now"), "history", "settled_at"),
        filters=("Status",),
        search=("Question",),
        name="resolutions",
    )
    changes = [Note(f"Ranks with {title}: {_rank_changes(material.lines, scope)}.") for scope, title in RESOLVED.items()]
    return [*changes, table]


def _rank_changes(lines: pl.DataFrame, scope: str) -> str:
    """Return the ranked forecasters whose rank by Brier score differs over the questions of a scope, with both ranks."""
    if lines.is_empty():
        return "none, since no forecaster has been scored"
    ranked = lines.filter((pl.col("scope") == "all") & pl.col("rank").is_not_null()).select("forecaster", "rank")
    other = lines.filter(pl.col("scope") == scope).join(ranked.select("forecaster"), on="forecaster", how="semi")
    both = ranked.join(other.select("forecaster", new=pl.col("brier").rank("min").cast(pl.Int32)), on="forecaster", how="left")
    changed = both.filter(pl.col("rank") != pl.col("new")).sort("rank", "forecaster")
    return ", ".join(f"{name} {rank} to {new}" for name, rank, new in changed.iter_rows()) or "all unchanged"


def _questions(material: ReleaseData) -> Part:
    scored = material.answers.filter(~pl.col("could_know")).group_by("question_id")
    mean = dict(scored.agg(pl.col("brier").mean()).iter_rows())
    return build_table(
        "benchmark/questions",
        f"Questions of {material.name}",
        material.questions.iter_rows(named=True),
        *(
            ("ordinal", "#"),
            "question",
            "category",
            ("close_time", "Close"),
            ("ground_truth", "Outcome"),
            ("price_24h", "Price 24 h before"),
        ),
        build_column("Mean Brier", lambda row: number(mean.get(row["id"]), 3), "over the forecasters that it counts for", numeric=True),
        links={"question": lambda row: question_path(material.name, row["id"])},
        filters=("Category", "Outcome"),
        search=("Question", "Category"),
        name="questions",
    )
