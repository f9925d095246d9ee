"""Evidence of a week: looks at the markets that bets wait for. Live ones are made when they are due; those of reconstructed cohorts are dated back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.facts import Agent, Trade
from bellwether.arena.frames import agents_of, evidence_frame, observations_of, trades_of
from bellwether.arena.identity import WEEK, start_of, week_of
from bellwether.arena.ledger import Book, fold
from bellwether.arena.market import MarketStatus
from bellwether.arena.methodology import Methodology
from bellwether.arena.polling import Polled, awaited, due
from bellwether.arena.resolution import evidence_of, settlements
from bellwether.arena.universe import status_of
from bellwether.arena.weekly.means import World
from bellwether.arena.weekly.state import evidence_of_past
from bellwether.tables.arena import AGENTS, EVIDENCE, TRADES
from bellwether.tables.schema import Table
from bellwether.venues.polymarket import looks
from bellwether.venues.polymarket.client import ClobClient, GammaClient


def evidence_rows(world: World, week: date, agents: pl.DataFrame | None = None, trades: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rows of arena/evidence of a week: those that are stored, and the looks that were missing.

    agents, trades: of this week, where the lake does not have them yet. Live cohorts' markets are looked at in the present week alone, when they are
    due; what could have been seen of reconstructed cohorts' markets within the week, and is not stored, is added as of then.
    """
    now = world.now()
    stored = world.lake.slice(EVIDENCE, [(week.isoformat(),)], missing="skip").read()
    known = _with(world, AGENTS, week, agents), _with(world, TRADES, week, trades)
    until = min(now, start_of(week) + WEEK)
    past = _families(known[0], reconstructed=True)
    book = _book(world, known, until, past)
    waiting = awaited(book)
    rules = _rules(world, book)
    found = [stored]
    if waiting:
        made = world.venue(lambda gamma, clob: evidence_of_past(gamma, clob, waiting, until, rules))
        within = [look for look in made if start_of(week) <= look["fetched_at"] < start_of(week) + WEEK]
        found.append(evidence_frame(within, reconstructed=True))
    if week == week_of(now):
        found.append(_looked_at(world, known, now))
    rows = pl.concat(found).unique(["market_id", "known_at"], keep="first", maintain_order=True)
    return EVIDENCE.validate(rows.sort(EVIDENCE.order))


def due_markets(world: World) -> list[str]:
    """Markets of live cohorts whose next look is due."""
    now = world.now()
    known = _with(world, AGENTS, week_of(now), None), _with(world, TRADES, week_of(now), None)
    book = _book(world, known, now, _families(known[0], reconstructed=False))
    return due(book, polled(_evidence(world, awaited(book))), now)


def _looked_at(world: World, known: tuple[pl.DataFrame, pl.DataFrame], now: datetime) -> pl.DataFrame:
    book = _book(world, known, now, _families(known[0], reconstructed=False))
    wanted = due(book, polled(_evidence(world, awaited(book))), now)
    if not wanted:
        return EVIDENCE.empty()
    return evidence_frame(world.venue(lambda gamma, clob: _look(gamma, clob, wanted, now)))


async def _look(gamma: GammaClient, clob: ClobClient, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
    seen = await looks.by_id(gamma, market_ids)
    flags = await looks.winners(clob, [row["condition_id"] for row in seen.rows if row.get("closed") and row.get("condition_id")])
    at = seen.at or now
    return [
        evidence_of(row, fetched_at=at, winners=winners, is_50_50=half)
        for row in seen.rows
        for winners, half in [flags.get(row.get("condition_id") or "", (None, None))]
    ]


def polled(evidence: pl.DataFrame) -> dict[str, Polled]:
    """What is known of each market from rows of arena/evidence, looks at the venue alone."""
    found: dict[str, Polled] = {}
    words: dict[str, object] = {}
    for row in evidence.filter(pl.col("cancelled_by").is_null()).sort("known_at").iter_rows(named=True):
        name, status = row["market_id"], status_of({**row, "active": True, "accepting_orders": True})
        before = found.get(name)
        said = {column: value for column, value in row.items() if column not in ("week", "known_at", "reconstructed")}
        same = before.same + 1 if before is not None and words[name] == said else 1
        since = (before.since if before is not None else None) or (None if status is MarketStatus.ACTIVE else row["known_at"])
        found[name] = Polled(status, row["known_at"], same, row["end_time"], None if status is MarketStatus.ACTIVE else since)
        words[name] = said
    return found


def _evidence(world: World, market_ids: Iterable[str]) -> pl.DataFrame:
    wanted = list(market_ids)
    return world.lake.slice(EVIDENCE, missing="skip").scan().filter(pl.col("market_id").is_in(wanted)).collect()


def _with(world: World, table: Table, week: date, own: pl.DataFrame | None) -> pl.DataFrame:
    """The rows of all weeks up to one, with those of the week itself as given."""
    rows = world.lake.slice(table, missing="skip").scan().filter(pl.col("week") <= week)
    return rows.collect() if own is None else pl.concat([rows.filter(pl.col("week") < week).collect(), own])


def _families(agents: pl.DataFrame, *, reconstructed: bool) -> set[str]:
    return set(agents.filter(pl.col("reconstructed") == reconstructed)["agent_id"])


def _book(world: World, known: tuple[pl.DataFrame, pl.DataFrame], at: datetime, wanted: set[str]) -> Book:
    """The books of some agents as known at an instant."""
    agents: list[Agent] = [agent for agent in agents_of(known[0]) if agent.agent_id in wanted]
    trades: list[Trade] = [trade for trade in trades_of(known[1]) if trade.agent_id in wanted]
    seen = observations_of(_evidence(world, {trade.market_id for trade in trades}).filter(pl.col("known_at") <= at))
    used = {agent.methodology for agent in agents}
    settled = [one for name, rules in world.rules.items() if name in used for one in settlements(seen, rules)]
    return fold(agents, trades, settled, known_at=at)


def _rules(world: World, book: Book) -> Mapping[str, Methodology]:
    used = {account.agent.methodology for account in book.accounts.values()}
    return {name: rules for name, rules in world.rules.items() if name in used}
