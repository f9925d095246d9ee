"""Pages of the benchmark: the list of releases (fixed sets of questions), and all pages of each release."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import polars as pl

from bellwether.pages.charts import Colours
from bellwether.pages.model import Cell, Head, Note, Page, PageTable, Section
from bellwether.pages.render import File, render
from bellwether.pages.values import interval, number, text, timestamp
from bellwether.site import forecasters, questions, release
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key

_TABLES = tuple(f"benchmark/{name}" for name in ("questions", "forecasts", "scores", "reliability", "leaderboard", "comparisons"))


def names(source: SiteSource) -> list[str]:
    """Return the names of all forecasters, by the earliest `known_at` on a leaderboard."""
    board = source.frame("benchmark/leaderboard", "forecaster", "known_at")
    return board.group_by("forecaster").agg(pl.col("known_at").min()).sort("known_at", "forecaster")["forecaster"].to_list()


def units(source: SiteSource, colours: Colours) -> Iterator[Unit]:
    """Yield the benchmark's units (groups of files built together): one for the list of releases, and one per release with all of the release's
    pages.
    """
    boards = source.frame("benchmark/leaderboard")
    yield Unit("benchmark", key(boards), partial(_index, boards, source), source.date("benchmark/leaderboard"))
    for name in source.names("benchmark/questions", "release"):
        of_names = colours.of(boards.filter(pl.col("release") == name)["forecaster"].to_list())
        digest = source.digest(*_TABLES, starts=name)
        prices, evidence = questions.prices(source, name), questions.evidence(source, name)
        make = partial(_release, source, name, of_names, prices, evidence)
        yield Unit(f"benchmark {name}", key(name, digest, prices, evidence, of_names), make, source.date("benchmark/leaderboard", name))


def _index(boards: pl.DataFrame, source: SiteSource) -> Iterator[File]:
    question_rows = source.frame("benchmark/questions", "release", "cutoff", "close_time", "version")
    rows = []
    for (name,), part in question_rows.group_by("release", maintain_order=True):
        board = boards.filter((pl.col("release") == name) & pl.col("rank").is_not_null()).sort("rank")
        best = board.row(0, named=True) if board.height else None
        rows.append(
            [
                text(name, release.path(str(name))),
                number(part.height),
                number(boards.filter(pl.col("release") == name).height),
                timestamp(part["cutoff"][0]),
                timestamp(part["close_time"].max()),  # type: ignore[arg-type]
                release.leader_cell(str(name), board),
                interval(best["brier"], best["brier_lower"], best["brier_upper"]) if best else Cell("–"),
            ]
        )
    heads = [
        Head("Release"),
        Head("Questions", number=True),
        Head("Forecasters", number=True),
        Head("Cutoff", "everything in the release resolved after this instant"),
        Head("Last close"),
        Head("Best"),
        Head("Its Brier score", "with its 95 % interval", number=True),
    ]
    parts = [PageTable("Releases of questions", heads, rows)] if rows else [Note("The warehouse has no release of questions yet.")]
    lead = "Settled markets as questions: forecasters state probabilities and are scored by the outcomes. Lower Brier scores are better."
    yield from render(Page("benchmark/index.html", "Benchmark", lead, [Section("Releases", parts)]))


def _release(source: SiteSource, name: str, colours: dict[str, str], prices: pl.DataFrame, evidence: pl.DataFrame) -> Iterator[File]:
    material = release.read_release(source, name, colours)
    yield from release.pages(material)
    yield from forecasters.pages(material)
    yield from questions.pages(material, prices, evidence)
