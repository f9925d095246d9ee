"""The first page: what is measured, the leaderboards at a glance, how fresh it is, what was written last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import polars as pl

from bellwether.pages import charts
from bellwether.pages.charts import Colours
from bellwether.pages.model import Cell, Facts, Head, Links, Note, Page, Part, Section, Table
from bellwether.pages.render import File, render
from bellwether.pages.values import NONE, interval, number, text, when
from bellwether.site import arena_rankings, release, trading
from bellwether.site.arena_rankings import Rankings
from bellwether.site.source import Source

#: Lines of a leaderboard at a glance.
_LINES = 8
#: Columns of a ranking of the arena at a glance: rank, family, group, two metrics.
_COLUMNS = 5
#: Writes so long before the newest are shown as changes.
_RECENT = timedelta(days=1)
_DOMAINS = ("clean", "benchmark", "replay", "arena")


def pages(source: Source, colours: Colours) -> Iterator[File]:
    """The page."""
    sections = [
        Section("Benchmark", _benchmark(source, colours)),
        Section("Trading", _trading(source)),
        Section("Arena", _arena(source, colours)),
        Section("Freshness", [_freshness(source)]),
        Section("Written last", [_changes(source)]),
    ]
    lead = "How well models forecast and trade on prediction markets: probabilities scored by what happened, agents replayed on recorded order books, "
    lead += "and weekly cohorts that bet paper money on open markets."
    yield from render(Page("index.html", "What was measured", lead, sections))


def _benchmark(source: Source, colours: Colours) -> list[Part]:
    board = source.frame("benchmark/leaderboard")
    if not board.height:
        return [Note("No release has been ranked: the warehouse has no rows of benchmark.leaderboard.")]
    newest = board.group_by("release").agg(pl.col("known_at").max()).sort("known_at", "release")["release"][-1]
    ranked = board.filter((pl.col("release") == newest) & pl.col("rank").is_not_null()).sort("rank")
    rows = [
        [
            number(row["rank"]),
            text(row["forecaster"], release.forecaster_path(newest, row["forecaster"])),
            interval(row["brier"], row["brier_lower"], row["brier_upper"]),
            text(row["group"]),
            number(row["skill_vs_market"] if row["skill_vs_market_lower"] is not None else None, 2),
        ]
        for row in ranked.head(_LINES).iter_rows(named=True)
    ]
    heads = [
        Head("Rank", number=True),
        Head("Forecaster"),
        Head("Brier [95 %]", number=True),
        Head("Group"),
        Head("vs market", number=True),
    ]
    links = Links(
        [Cell(f"The whole leaderboard of {newest}", href=release.path(newest)), Cell("All releases", href="benchmark/index.html")]
    )
    drawn = release.drawn(ranked.head(_LINES))
    chart = charts.intervals("Brier scores with 95 % intervals", "Brier score", drawn, colours.of([str(one["name"]) for one in drawn]))
    return [chart, Table(f"Best of {ranked.height} ranked forecasters of {newest}", heads, rows), links]


def _trading(source: Source) -> list[Part]:
    summary = source.frame("replay/summary")
    if not summary.height:
        return [Note("No backtest has been summed up: the warehouse has no rows of replay.summary.")]
    chosen = (0, 1, 2, 3, 4, 7)
    heads, rows = trading.summary_heads(), trading.summary_rows(summary)[:_LINES]
    table = Table(
        f"Best of {summary['agent'].n_unique()} agents by P&L",
        [heads[place] for place in chosen],
        [[row[place] for place in chosen] for row in rows],
    )
    return [table, Links([Cell("All agents and episodes", href="trading/index.html")])]


def _arena(source: Source, colours: Colours) -> list[Part]:
    if not source.rows("arena/leaderboard"):
        return [Note("No week of the arena has been run: the warehouse has no rows of arena.leaderboard.")]
    parts: list[Part] = []
    for ranking in Rankings.read(source).groups:
        parts += arena_rankings.drawn(ranking, colours.of(ranking.families))[:1]
        heads = arena_rankings.heads(ranking.metrics)[:_COLUMNS]
        rows = [row[:_COLUMNS] for row in arena_rankings.rows(ranking)[:_LINES]]
        parts.append(Table(f"Best of {len(ranking.families)} families: {ranking.title}", heads, rows))
    return [*parts, Links([Cell("Cohorts, families and markets", href="arena/index.html")])]


def _freshness(source: Source) -> Facts:
    rows = [("Warehouse published", when(source.published_at, seconds=True))]
    for domain in _DOMAINS:
        known = [stored.known_at for name, stored in source.tables.items() if name.startswith(f"{domain}/") and stored.known_at]
        count = sum(stored.rows for name, stored in source.tables.items() if name.startswith(f"{domain}/"))
        newest = when(max(known)).text if known else NONE
        rows.append((f"{domain[0].upper()}{domain[1:]}", Cell(f"{count:,} rows, newest fact of {newest}" if count else "nothing yet")))
    return Facts(rows)


def _changes(source: Source) -> Table | Note:
    """Partitions that were written within a day of the newest write, by table."""
    partitions = source.partitions
    if not partitions.height:
        return Note("The warehouse shows no partition: nothing has been made yet.")
    newest = partitions["written_at"].max()
    recent = partitions.filter(pl.col("written_at") >= newest - _RECENT)  # type: ignore[operator]
    found = (
        recent.group_by("table_name")
        .agg(pl.len(), pl.col("rows").sum(), pl.col("written_at").max())
        .sort("written_at", "table_name", descending=[True, False])
    )
    rows = [[text(name, f"data/table/{name}.html"), number(count), number(total), when(at)] for name, count, total, at in found.iter_rows()]
    heads = [Head("Table"), Head("Partitions written", number=True), Head("Rows in them", number=True), Head("Last write")]
    return Table("What was written within a day of the newest write", heads, rows)
