"""Page of a benchmark release (a fixed set of questions): leaderboard, calibration, costs, comparisons and questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.calibration.answers import COMBINED
from bellwether.figures.intervals import difference_cells
from bellwether.figures.reliability import consistency_bands, diagram_rows
from bellwether.formatting import rounded_down
from bellwether.pages import charts, columns
from bellwether.pages.columns import Shown, build_column, build_table, estimate_column, hidden_columns
from bellwether.pages.model import Cell, Links, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, leader, number, percent, rank, text, timestamp
from bellwether.site.leaks import leak_parts
from bellwether.site.paths import download_path, forecaster_path, question_path, release_path
from bellwether.site.source import SiteSource
from bellwether.tables.benchmark import MODEL_KINDS

#: Title of all questions of a release, and beginnings of the titles of some of them.
_WHOLE = "all questions"
_SCOPES = {"category": "category: ", "horizon": "days before the close: ", "distance": "days after the knowledge cutoff: "}
_BOARD = "benchmark/leaderboard"
#: Scopes of the scores under other resolutions, with their titles.
_RESOLVED = {"known_now": "outcomes as known now", "undisputed": "without outcomes in doubt"}


@dataclass(frozen=True, slots=True)
class ReleaseData:
    """Rows of one release, and the colours of its forecasters.

    lines: rows of `sql/site/leaderboard.sql`. board: those over all questions. answers: one row per question and forecaster with the samples
    combined: question_id, forecaster, p_yes, brier, cost (null if that of any sample is unknown), could_know, samples, as_of, error, and asked (a
    model was called).
    """

    name: str
    colours: dict[str, str]
    lines: pl.DataFrame
    questions: pl.DataFrame
    scores: pl.DataFrame
    reliability: pl.DataFrame
    comparisons: pl.DataFrame
    ensembles: pl.DataFrame
    resolutions: pl.DataFrame
    leaks: pl.DataFrame
    leak_scores: pl.DataFrame
    forecasts: pl.DataFrame
    answers: pl.DataFrame

    @property
    def board(self) -> pl.DataFrame:
        """Rows of the leaderboard over all questions."""
        return self.lines.filter(pl.col("scope") == "all") if self.lines.height else self.lines


def read_release(source: SiteSource, name: str, colours: dict[str, str]) -> ReleaseData:
    """Read the rows of one release."""
    frames = {
        one: source.frame(f"benchmark/{one}", release=name)
        for one in ("questions", "reliability", "comparisons", "ensembles", "resolutions", "leaks", "leak_scores")
    }
    scores = source.frame("benchmark/scores", "forecaster", "scope", "metric", "value", "lower", "upper", "n", "reason", release=name)
    forecasts = source.frame("benchmark/forecasts", release=name)
    truth = frames["questions"].select("id", yes=(pl.col("ground_truth") == "yes").cast(pl.Float64))
    answers = (
        forecasts.group_by("question_id", "forecaster", maintain_order=True)
        .agg(
            p_yes=COMBINED,
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
        consistency_bands(forecasts, frames["questions"]), on=["forecaster", "bin"], how="left", maintain_order="left"
    )
    scored = source.rows(_BOARD) and source.rows("benchmark/scores") and forecasts.height
    lines = source.query("leaderboard", release=name) if scored else pl.DataFrame()
    compared = frames["comparisons"], frames["ensembles"], frames["resolutions"], frames["leaks"], frames["leak_scores"]
    return ReleaseData(name, colours, lines, frames["questions"], scores, banded, *compared, forecasts, answers)


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
    sections = [Section("", [Stats(stats)]), Section("Leaderboard", _leaderboard(material))]
    if board.height:
        sections.append(Section.even("Calibration and categories", [*_calibration(material), *_categories(material)]))
        sections.append(Section("What forecasts add to the market's price", _added_values(material)))
        sections.append(Section.even("Cost and knowledge", _costs(board, material.colours)))
        sections.append(Section("Who is significantly better than whom", _pairs(material)))
    sections.append(Section("Outcomes in doubt", _resolutions(material)))
    sections.append(Section("Leaks", leak_parts(material.name, questions, material.leaks, material.leak_scores, material.colours)))
    sections.append(Section("Questions", [_questions(material)]))
    lead = f"A release is a set of questions that never changes. {board.height} forecasters stated a probability of yes for each question."
    yield from render(Page(release_path(material.name), material.name, lead, sections, [("Benchmark", "benchmark/index.html")]))


def leader_cell(release: str, board: pl.DataFrame) -> Cell:
    """Return the cell that names the forecaster with rank 1, or those that tie. board: rows of benchmark/leaderboard of one release."""
    names: list[str] = board.filter(pl.col("rank") == 1)["forecaster"].sort().to_list() if board.height else []
    return leader([text(name, forecaster_path(release, name)) for name in names], "–")


def forecaster_column(release: str) -> Shown:
    """Build the column of forecasters with their providers. release: whose pages are linked."""

    def cell(row: Mapping[str, Any]) -> Cell:
        provider = row["provider"] or (row["kind"] or "").replace("_", " ")
        return text(row["forecaster"], forecaster_path(release, row["forecaster"]))._replace(note=provider)

    return build_column("Forecaster", cell, "name, and provider of the model or kind of baseline; leads to every forecast")


def rank_column(ranks: list[int | None], group: str, meaning: str) -> Shown:
    """Build the column of ranks with the letters of significance groups. group: column of the letters."""

    def cell(row: Mapping[str, Any]) -> Cell:
        return rank(row["rank"], ranks, row["unranked_because"])._replace(note=row[group] or "")

    return build_column("Rank", cell, f"{meaning}; those that share a letter do not differ significantly", numeric=True)


def score_column(title: str = f"Brier score {columns.LEVEL}") -> Shown:
    """Build the column of Brier scores with drawn intervals."""
    meaning = "mean squared distance between probability and outcome: 0 is perfect, 0.25 is always forecasting 0.5"
    return estimate_column(title, "brier", meaning, drawn=True, scale=lambda row: row.get("scope", "all") == "all")


def _leaderboard(material: ReleaseData) -> list[Part]:
    if not material.board.height:
        return [Note("No forecaster has been scored on this release yet: the warehouse has no rows of benchmark.leaderboard for it.")]
    ranks = material.board["rank"].to_list()
    scopes = build_column("Questions", lambda row: text(scope_title(row["scope"])), "all of the release, or some of them", hidden=True)
    kinds = build_column(
        "Kind", lambda row: text((row["kind"] or "").replace("_", " ") or None), columns.definition(_BOARD, "kind"), hidden=True
    )
    known = build_column(
        "Known outcomes",
        lambda row: number(row["could_know"]),
        "questions settled before the end of the model's training data; they are not scored",
        numeric=True,
        hidden=True,
    )
    return [
        build_table(
            _BOARD,
            f"Leaderboard of {material.name}",
            material.lines.iter_rows(named=True),
            rank_column(ranks, "group", "by Brier score"),
            forecaster_column(material.name),
            score_column(),
            estimate_column(
                f"Gain over the price {columns.LEVEL}",
                "skill_vs_market",
                "1 - Brier score / Brier score of the market price at the time of the forecast; above 0 is better than the market",
                2,
                reference=0.0,
            ),
            estimate_column(
                f"Adds to the market {columns.LEVEL}",
                "pool_weight",
                "weight of the forecast in the best mixture with the market price; 0 adds nothing to the price",
                2,
                reference=0.0,
            ),
            build_column("Cost", lambda row: columns.cost(row["cost"]), "dollars per question, of all samples", numeric=True),
            build_column(
                "Coverage", lambda row: percent(rounded_down(row["coverage"]), 1), columns.definition(_BOARD, "coverage"), numeric=True
            ),
            *hidden_columns(_BOARD, "brier_skill", "log_loss", "roc_auc", "accuracy", "ece", "n"),
            known,
            kinds,
            scopes,
            filters=("Kind", "Questions"),
            search=("Forecaster",),
            name="board",
            size=50,
            leading=3,
            initial={"Questions": _WHOLE},
        )
    ]


def scope_title(scope: str) -> str:
    """Return the title of some questions of a release. scope: as in benchmark/scores; `category:Sports` becomes `category: Sports`."""
    kind, colon, rest = scope.partition(":")
    titles = {"all": _WHOLE, "could_know": "known outcomes, not scored", **_RESOLVED}
    return f"{_SCOPES.get(kind, kind)}{rest}" if colon else titles.get(scope, scope.replace("_", " "))


def _categories(material: ReleaseData) -> list[Part]:
    rows = material.scores.filter(
        (pl.col("metric") == "brier") & pl.col("scope").str.starts_with("category:") & pl.col("value").is_finite()
    )
    cells = [
        {"name": name, "other": scope.partition(":")[2], "value": value, "note": f"{n} forecasts"}
        for name, scope, value, n in rows.select("forecaster", "scope", "value", "n").iter_rows()
    ]
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
    of_forecasters = material.board.select("forecaster", "pool_weight", "pool_weight_lower", "pool_weight_upper")
    of_means = material.ensembles.filter(pl.col("metric") == "pool_weight").select(
        pl.format("{} of {} models", "ensemble", "members"), "value", "lower", "upper"
    )
    names = ("name", "value", "lower", "upper")
    rows = [
        dict(zip(names, row, strict=True)) for row in (*of_means.iter_rows(), *of_forecasters.iter_rows()) if finite(row[1]) is not None
    ]
    if not rows:
        return [Note("No forecast of this release has a market price of its time that differs from it.")]
    title = "Weight in the best mixture with the market's price; 0 adds nothing to it"
    colours = {**dict.fromkeys((row["name"] for row in rows), charts.GREY), **material.colours}
    return [charts.intervals(title, "weight", rows, colours, reference=0.0), downloads("benchmark/ensembles")]


def _costs(board: pl.DataFrame, colours: dict[str, str]) -> list[Part]:
    """Build the charts of the Brier score by cost, and by knowledge cutoff."""
    points = [row for row in board.iter_rows(named=True) if finite(row["brier"]) is not None]
    priced = [{"name": row["forecaster"], "x": float(row["cost"]), "y": row["brier"]} for row in points if row["cost"]]
    dated = [
        {"name": row["forecaster"], "x": f"{row['knowledge_cutoff']:%Y-%m-%d}", "y": row["brier"]}
        for row in points
        if row["knowledge_cutoff"]
    ]
    parts: list[Part] = []
    if priced:
        parts.append(charts.scatter("Brier score against cost", "dollars per question", "Brier score", priced, colours, log=True))
    if dated:
        title = "Brier score against the knowledge cutoff"
        parts.append(charts.scatter(title, "knowledge cutoff", "Brier score", dated, colours, timed=True))
    return parts or [Note("No forecaster of this release has a known cost above 0.")]


def _pairs(material: ReleaseData) -> list[Part]:
    cells = difference_cells(material.comparisons, "forecaster")
    if not cells:
        return [Note("The warehouse has no comparisons of this release.")]
    title = "Brier score of the row less that of the column; a dot: significant after Holm's correction"
    ranked = material.board["forecaster"].to_list()
    return [charts.matrix(title, "difference", cells, ranked, ranked, middle=0), downloads("benchmark/comparisons")]


def downloads(*tables: str) -> Links:
    """Build the links to the CSV files of tables."""
    return Links([Cell(f"{name.replace('/', '.', 1)} as CSV", href=download_path(name, "csv")) for name in tables])


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
        build_column(
            "Question",
            lambda row: text(texts[row["question_id"]], question_path(material.name, row["question_id"])),
            "leads to every forecast",
        ),
        ("resolution_status", "Status"),
        ("published", "Published"),
        ("outcome", "Known now"),
        ("history", "History"),
        ("settled_at", "Settled"),
        filters=("Status",),
        search=("Question",),
        name="resolutions",
    )
    changes = [Note(f"Ranks with {title}: {_rank_changes(material.lines, scope)}.") for scope, title in _RESOLVED.items()]
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
        ("ordinal", "#"),
        "question",
        "category",
        ("close_time", "Close"),
        ("ground_truth", "Outcome"),
        ("price_24h", "Price 24 h before"),
        build_column("Mean Brier", lambda row: number(mean.get(row["id"]), 3), "over the forecasters that it counts for", numeric=True),
        cells={"question": lambda row: text(row["question"], question_path(material.name, row["id"]))},
        filters=("Category", "Outcome"),
        search=("Question", "Category"),
        name="questions",
    )
