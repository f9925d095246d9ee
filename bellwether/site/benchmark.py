"""Pages of the benchmark: the list of releases (fixed sets of questions), and all pages of each release."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import polars as pl

from bellwether.pages import columns
from bellwether.pages.charts import Colours
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Page, Section
from bellwether.pages.render import File, render
from bellwether.pages.values import number, text, timestamp
from bellwether.site import forecasters, questions, release
from bellwether.site.paths import release_path
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key

_TABLES = tuple(
    f"benchmark/{name}"
    for name in (
        *("questions", "forecasts", "scores", "reliability", "leaderboard", "comparisons", "ensembles", "resolutions"),
        *("leaks", "leak_scores"),
    )
)


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
    asked = source.frame("benchmark/questions", "release", "cutoff", "close_time")
    rows = []
    for (name,), part in asked.group_by("release", maintain_order=True):
        board = boards.filter(pl.col("release") == name)
        best = board.filter(pl.col("rank") == 1).head(1).to_dicts()
        about = {"release": name, "asked": part.height, "forecasters": board.height, "cutoff": part["cutoff"][0]}
        about |= {"closed": part["close_time"].max(), "best": release.leader_cell(str(name), board)}
        rows.append({**dict.fromkeys(("brier", "brier_lower", "brier_upper")), **(best[0] if best else {}), **about})
    table = build_table(
        "benchmark/questions",
        "Releases of questions",
        rows,
        build_column("Release", lambda row: text(row["release"], release_path(row["release"]))),
        build_column("Questions", lambda row: number(row["asked"]), numeric=True),
        build_column("Forecasters", lambda row: number(row["forecasters"]), numeric=True),
        build_column("Resolved after", lambda row: timestamp(row["cutoff"])),
        build_column("Last close", lambda row: timestamp(row["closed"])),
        build_column("Best", lambda row: row["best"]),
        release.score_column(f"Its Brier score {columns.LEVEL}"),
        empty="The warehouse has no release of questions yet.",
    )
    lead = "Settled markets as questions: forecasters state probabilities and are scored by the outcomes. A release is a set of questions that never changes."
    yield from render(Page("benchmark/index.html", "Benchmark", lead, [Section("Releases", [table])]))


def _release(source: SiteSource, name: str, colours: dict[str, str], prices: pl.DataFrame, evidence: pl.DataFrame) -> Iterator[File]:
    material = release.read_release(source, name, colours)
    yield from release.pages(material)
    yield from forecasters.pages(material)
    yield from questions.pages(material, prices, evidence)
