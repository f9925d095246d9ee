"""Pages of the arena's markets: the list, and a page for each traded market."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import polars as pl

from bellwether.figures.canvas import palette
from bellwether.pages import charts
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Note, Page, Part, Section
from bellwether.pages.render import File, render
from bellwether.pages.values import cast_decimals, finite, group_rows, minute, number, text, thin_indices, timestamp
from bellwether.site.arena_agents import Books
from bellwether.site.paths import agent_path, market_path
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key

#: Rows of a table about one market.
Rows = Sequence[Mapping[str, Any]]
LIST = "arena/markets.html"
_ABOVE = [("Arena", "arena/index.html"), ("Markets", LIST)]
_POINTS = 150
_EVIDENCE = ("week", "market_id", "known_at", "closed", "uma_resolution_status", "winners", "is_50_50", "closed_at", "cancelled_by")


@dataclass(frozen=True, slots=True)
class _MarketRows:
    """Rows of the arena's tables about the same markets. universe: the newest row of each market."""

    universe: pl.DataFrame
    trades: pl.DataFrame
    positions: pl.DataFrame
    prices: pl.DataFrame
    settlements: pl.DataFrame
    evidence: pl.DataFrame


def sort_markets(listed: pl.DataFrame) -> pl.DataFrame:
    """Sort markets by number of trades, then by volume, both largest first, then by id."""
    return listed.sort("market_id").sort("trades", "volume", descending=True, nulls_last=True, maintain_order=True)


def units(source: SiteSource, books: Books) -> Iterator[Unit]:
    """Yield the units of markets (groups of files built together): one for the list, and one per week with the pages of markets first traded in
    that week.
    """
    newest = books.universe.sort("week", "place").unique("market_id", keep="last", maintain_order=True)
    counts = books.trades.group_by("market_id").agg(trades=pl.len(), agents=pl.col("agent_id").n_unique()).sort("market_id")
    weeks = books.universe.group_by("market_id").agg(first=pl.col("week").min(), weeks=pl.col("week").n_unique()).sort("market_id")
    ends = source.frame("arena/settlements", "market_id", "result", "winner").unique("market_id", keep="last", maintain_order=True)
    listed = newest.join(counts, on="market_id", how="left").join(weeks, on="market_id").join(ends, on="market_id", how="left")
    listed = sort_markets(listed)
    yield Unit("arena markets", key(listed), partial(_list, listed))
    every = _MarketRows(
        newest,
        books.trades,
        books.positions,
        source.frame("arena/prices", "market_id", "outcome", "at", "price", "source", "disagrees"),
        source.frame("arena/settlements"),
        source.frame("arena/evidence", *_EVIDENCE),
    )
    first = books.trades.group_by("market_id").agg(pl.col("week").min()).sort("week", "market_id")
    for (week,), part in first.group_by("week", maintain_order=True):
        ids = part["market_id"].to_list()
        part_rows = _MarketRows(*(getattr(every, one.name).filter(pl.col("market_id").is_in(ids)) for one in fields(every)))
        digest = key(*(getattr(part_rows, one.name) for one in fields(part_rows)))
        yield Unit(f"arena markets {week}", digest, partial(_pages, ids, part_rows))


def _list(listed: pl.DataFrame) -> Iterator[File]:
    markets = build_table(
        "arena/universe",
        "Markets, most traded first",
        listed.iter_rows(named=True),
        *("question", "category"),
        build_column("First week", lambda row: text(row["first"])),
        build_column("Weeks", lambda row: number(row["weeks"]), numeric=True),
        ("closes_at", "Ends"),
        build_column("Volume", lambda row: number(row["volume"], 0, unit="$"), numeric=True),
        build_column("Trades", lambda row: number(row["trades"] or 0), numeric=True),
        build_column("Agents", lambda row: number(row["agents"] or 0), numeric=True),
        build_column("Resolution", lambda row: text(row["winner"] or row["result"])),
        "reconstructed",
        cells={"question": lambda row: text(row["question"], market_path(row["market_id"]) if row["trades"] else "")},
        filters=("Category", "Resolution", "Reconstructed"),
        search=("Question", "Category"),
        empty="The warehouse has no universe of the arena yet.",
        name="markets",
    )
    lead = f"{listed.height:,} markets could be bet on in some week; those that were traded have a page."
    yield from render(Page(LIST, "Markets of the arena", lead, [Section("Markets", [markets])], _ABOVE[:1]))


def _pages(ids: list[str], part_rows: _MarketRows) -> Iterator[File]:
    parts = {one.name: group_rows(cast_decimals(getattr(part_rows, one.name)), "market_id") for one in fields(part_rows)}
    for name in ids:
        yield from _page(name, {one: part.get(name, []) for one, part in parts.items()})


def _page(name: str, own_rows: dict[str, Rows]) -> Iterator[File]:
    about: Mapping[str, Any] = own_rows["universe"][0] if own_rows["universe"] else {}
    title = text(about.get("question", name)).text
    tables = _tables(own_rows)
    sections = [
        Section("Positions", [tables["positions"]]),
        Section("Price", _prices(own_rows["prices"])),
        Section("Trades", [tables["trades"]]),
        Section("Resolution", [tables["settlements"], tables["evidence"]]),
    ]
    lead = f"Market {name}"
    if about:
        category = f"{text(about['category']).text}; " if about["category"] else ""
        lead += f"; {category}outcomes {', '.join(about['outcomes'])}; ends {timestamp(about['closes_at']).text}"
    settlement = own_rows["settlements"][-1] if own_rows["settlements"] else None
    lead += f"; resolution: {text(settlement['winner'] or settlement['result']).text}." if settlement else "; open."
    yield from render(Page(market_path(name), title, lead, sections, _ABOVE))


def _prices(prices: Rows) -> list[Part]:
    by_outcome: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(prices, key=lambda row: (row["outcome"], row["at"])):
        by_outcome.setdefault(row["outcome"], []).append(row)
    rows = [
        {"name": outcome, "x": minute(own[place]["at"]), "y": finite(own[place]["price"])}
        for outcome, own in by_outcome.items()
        for place in thin_indices(len(own), _POINTS)
    ]
    if not rows:
        return [Note("The warehouse has no marks of this market.")]
    colours = dict(palette(by_outcome))
    return [charts.lines("Price by which positions are marked", "UTC", "dollars per share", rows, colours, step=True, height=240)]


def _tables(own_rows: Mapping[str, Rows]) -> dict[str, Part]:
    """Build the tables of a market, by name of the table of the warehouse."""
    agent = {"agent_id": lambda row: text(row["agent_id"], agent_path(row["agent_id"]))}
    positions = build_table(
        "arena/positions",
        "Positions of all agents",
        own_rows["positions"],
        *(
            ("agent_id", "Agent"),
            "side",
            "status",
            "shares",
            "cost",
            ("realized", "Gain"),
            "won",
            ("opened_at", "Opened"),
            ("ended_at", "Ended"),
        ),
        cells=agent,
        filters=("Side", "Status"),
        search=("Agent",),
        empty="No agent has held a position.",
        name="positions",
    )
    trades = build_table(
        "arena/trades",
        "Trades of all agents",
        own_rows["trades"],
        *("week", ("agent_id", "Agent"), "action", "side", "shares", "price", "amount"),
        cells=agent,
        filters=("Week", "Action", "Side"),
        search=("Agent",),
        name="trades",
    )
    settlements = build_table(
        "arena/settlements",
        "Resolutions that count",
        own_rows["settlements"],
        *("methodology", "number", "result", "winner", "rule", ("known_at", "Known")),
    )
    evidence = build_table(
        "arena/evidence",
        "Snapshots of the market by the venue",
        own_rows["evidence"],
        *(("known_at", "Observed"), "closed", ("uma_resolution_status", "UMA"), "winners", ("is_50_50", "Half and half")),
        *("closed_at", "cancelled_by"),
        name="evidence",
    )
    return {"positions": positions, "trades": trades, "settlements": settlements, "evidence": evidence}
