"""Home page of the site: the leaders of each area."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from bellwether.pages.columns import build_table
from bellwether.pages.model import Cell, Links, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import number, timestamp
from bellwether.replay.results.summary import sort_by_pnl
from bellwether.site import arena_rankings, leaderboard, trading
from bellwether.site.paths import release_path
from bellwether.site.source import SiteSource

#: Lines of a table in a card.
_LINES = 8


def pages(source: SiteSource) -> Iterator[File]:
    """Yield the home page."""
    cards = (("Benchmark", _benchmark(source)), ("Arena", _arena(source)), ("Trading", _trading(source)))
    sections = [Section(name, parts, width=4) for name, parts in cards]
    lead = "How well models forecast and trade on prediction markets: probabilities scored by outcomes, agents replayed on recorded order books, "
    lead += "and weekly cohorts that bet paper money on open markets."
    yield from render(Page("index.html", "Bellwether", lead, sections))


def _newest(source: SiteSource, group: str) -> tuple[str, Cell, str]:
    """Return the tile with the date of the newest fact of a group of tables."""
    instants = [one.known_at for name, one in source.tables.items() if name.startswith(f"{group}/") and one.known_at]
    return "Newest fact", timestamp(max(instants).date() if instants else None), ""


def _benchmark(source: SiteSource) -> list[Part]:
    main = next(source.query("releases").drop_nulls("forecasters").iter_rows(named=True), None)
    if main is None:
        return [Note("No release has been ranked: the warehouse has no rows of benchmark.leaderboard.")]
    name = main["release"]
    table = leaderboard.leaders(name, source.query("leaderboard", release=name), _LINES)
    stats = Stats([("Questions", number(main["questions"]), f"{main['forecasters']} forecasters"), _newest(source, "benchmark")])
    links = Links([Cell(f"The whole leaderboard of {name}", href=release_path(name)), Cell("All releases", href="benchmark/index.html")])
    return [stats, table, links]


def _arena(source: SiteSource) -> list[Part]:
    rankings = arena_rankings.read_rankings(source.frame)
    if not rankings:
        return [Note("No week of the arena has been run: the warehouse has no rows of arena.rankings.")]
    board = source.frame("arena/leaderboard", "bets", "family")
    stats = Stats([("Bets", number(board["bets"].sum()), f"{board['family'].n_unique()} families"), _newest(source, "arena")])
    table = arena_rankings.leaderboard(rankings[0], _LINES)
    return [stats, table, Links([Cell("Cohorts and families", href="arena/index.html")])]


def _trading(source: SiteSource) -> list[Part]:
    summary = sort_by_pnl(source.frame("replay/summary"))
    if summary.is_empty():
        return [Note("No backtest has been summarised: the warehouse has no rows of replay.summary.")]
    leading = summary.filter(pl.col("rules") == summary["rules"][0]).sort("pnl_mean", descending=True, nulls_last=True).head(_LINES)
    table = build_table(
        "replay/summary", "Agents by mean P&L of an episode", leading.iter_rows(named=True), trading.trader_column(), trading.mean_column()
    )
    stats = Stats([("Agents", number(summary["agent"].n_unique()), ""), _newest(source, "replay")])
    return [stats, table, Links([Cell("All agents and episodes", href="trading/index.html")])]
