"""Pages of the benchmark: the list of releases (fixed sets of questions), and all pages of each release."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from bellwether.pages import columns
from bellwether.pages.charts import Colours
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Page, Section
from bellwether.pages.render import File, render
from bellwether.pages.values import leader, text
from bellwether.site import forecasters, questions, release
from bellwether.site.leaderboard import score_column
from bellwether.site.paths import forecaster_path, release_path
from bellwether.site.source import SiteSource


def pages(source: SiteSource, colours: Colours) -> Iterator[File]:
    """Yield the list of releases, and the pages of each release with its forecasters and questions."""
    releases = source.query("releases")
    yield from _index(releases)
    for name in releases["release"]:
        material = release.read_release(source, name, colours)
        yield from release.pages(material)
        yield from forecasters.pages(material)
        yield from questions.pages(source, material)


def _index(releases: pl.DataFrame) -> Iterator[File]:
    table = build_table(
        "benchmark/questions",
        "Releases of questions",
        releases.iter_rows(named=True),
        *("release", "questions", "forecasters", ("cutoff", "Resolved after"), ("closed", "Last close")),
        build_column("Best", _leader),
        score_column(f"Its Brier score {columns.LEVEL}"),
        links={"release": lambda row: release_path(row["release"])},
        empty="The warehouse has no release of questions yet.",
    )
    lead = "Settled markets as questions: forecasters state probabilities and are scored by the outcomes. A release is a set of questions that never changes."
    yield from render(Page("benchmark/index.html", "Benchmark", lead, [Section("Releases", [table])]))


def _leader(row: Row) -> Cell:
    return leader([text(name, forecaster_path(row["release"], name)) for name in row["leaders"] or ()], "–")
