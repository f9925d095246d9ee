"""Evidence of a week: what venues state about the resolution of markets with bets. For reconstructed cohorts, evidence of past times is
reconstructed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.frames import evidence_frame
from bellwether.arena.identity import WEEK, week_of, week_start
from bellwether.arena.ledger import Ledger
from bellwether.arena.methodology import Venue
from bellwether.arena.records import InterventionKind, load_by_subject
from bellwether.arena.resolution import PollState, build_missing_evidence_row, find_awaited_markets, find_due_markets
from bellwether.arena.universe import status_from_row
from bellwether.arena.weekly.context import WeekContext, load_evidence
from bellwether.arena.weekly.ledgers import fold_ledgers
from bellwether.errors import ConfigError
from bellwether.tables.arena import AGENTS, EVIDENCE, TRADES


@dataclass(frozen=True)
class FactRows:
    """Rows of arena/agents, arena/trades and arena/evidence for all weeks."""

    agents: pl.DataFrame
    trades: pl.DataFrame
    evidence: pl.DataFrame

    @classmethod
    def load(cls, context: WeekContext, *, decided: Collection[date] = (), rebuilt: Collection[date] = ()) -> FactRows:
        """Read the rows from the lake. decided: weeks whose agents and trades are rebuilt and therefore not read. rebuilt: weeks whose damaged
        evidence is left out, because it is rebuilt.
        """
        excluded = {(week.isoformat(),) for week in decided}
        agents, trades = (context.lake.slice(table, missing="skip").exclude(excluded).read() for table in (AGENTS, TRADES))
        return cls(agents, trades, load_evidence(context, rebuilt).read())

    def replace_week(self, week: date, **rows: pl.DataFrame) -> FactRows:
        """Replace the rows of a week in the given tables (agents, trades or evidence)."""
        replaced = {name: pl.concat([getattr(self, name).filter(pl.col("week") != week), own]) for name, own in rows.items()}
        return replace(self, **replaced)


def build_evidence_rows(context: WeekContext, week: date, facts: FactRows, *, requested: Collection[str] = ()) -> pl.DataFrame:
    """Build rows of arena/evidence of a week: stored rows, cancellations by operators, and new observations. requested: markets to observe even
    if not due.

    Markets of live cohorts are observed in the current week only, if due or in `requested`. For reconstructed cohorts, observations of the week are
    reconstructed.
    """
    now = context.now()
    until = min(now, week_start(week) + WEEK)
    cancellations = load_by_subject(context.records, InterventionKind.CANCEL).values()
    parts = [
        evidence_frame(
            [
                {"market_id": entry.subject, "outcomes": [], "cancelled_by": entry.author, "fetched_at": entry.at}
                for entry in cancellations
                if week_of(entry.at) == week
            ]
        ),
        facts.evidence.filter(pl.col("week") == week),
    ]
    for venue, ledger in _fold_ledgers(context, facts, until, reconstructed=True).items():
        reconstructed = _reconstruct_evidence(context, venue, ledger, until)
        of_week = [row for row in reconstructed if week_start(week) <= row["fetched_at"] < week_start(week) + WEEK]
        parts.append(evidence_frame(of_week, reconstructed=True))
    if week == week_of(now):
        parts.append(_observe_markets(context, facts, now, requested))
        if (early := parts[-1].filter(pl.col("week") != week)).height:
            raise ConfigError(
                f"observing markets: the venue's clock shows {early['known_at'][0]:%Y-%m-%d %H:%M} UTC, this machine's {now:%Y-%m-%d %H:%M}; correct the latter"
            )
    rows = pl.concat(parts).unique(["market_id", "known_at"], keep="first", maintain_order=True)
    return EVIDENCE.validate(rows.sort(EVIDENCE.order))


def _reconstruct_evidence(context: WeekContext, venue: Venue, ledger: Ledger, until: datetime) -> list[dict[str, Any]]:
    """Return what polls of the awaited markets of a ledger up to `until` would have shown."""
    awaited, used = find_awaited_markets(ledger), {account.agent.methodology for account in ledger.accounts.values()}
    rules = {name: methodology for name, methodology in context.rules.items() if name in used}
    return context.query(venue, lambda data: data.reconstruct_evidence(awaited, until, rules)) if awaited else []


def list_due_markets(context: WeekContext) -> list[str]:
    """Return the markets with bets of live cohorts that are to be polled for evidence now."""
    return [market_id for due_ones in _due_by_venue(context, FactRows.load(context), context.now()).values() for market_id in due_ones]


def _due_by_venue(context: WeekContext, facts: FactRows, now: datetime) -> dict[Venue, list[str]]:
    """Return the markets with bets of live cohorts that are to be polled for evidence by `now`, by venue."""
    cancelled = facts.evidence.filter(pl.col("cancelled_by").is_not_null())["market_id"].to_list()
    return {
        venue: find_due_markets(
            ledger, derive_poll_states(facts.evidence.filter(pl.col("market_id").is_in(list(ledger.bets)))), now, final=cancelled
        )
        for venue, ledger in _fold_ledgers(context, facts, now, reconstructed=False).items()
    }


def _observe_markets(context: WeekContext, facts: FactRows, now: datetime, requested: Collection[str]) -> pl.DataFrame:
    """Build rows of arena/evidence by observing due and requested markets. A market without a readable record gives a row in which the column
    missing is true.
    """
    rows: list[dict[str, Any]] = []
    wanted_by_venue = {venue: set(due_ones) for venue, due_ones in _due_by_venue(context, facts, now).items()}
    for reconstructed in (False, True) if requested else ():
        for venue, ledger in _fold_ledgers(context, facts, now, reconstructed=reconstructed).items():
            wanted_by_venue.setdefault(venue, set()).update(market_id for market_id in requested if market_id in ledger.bets)
    for venue, names in wanted_by_venue.items():
        if wanted := sorted(names):
            observed = context.query(venue, lambda data: data.fetch_evidence(wanted, now))
            listed = {row["market_id"] for row in observed}
            rows += [*observed, *(build_missing_evidence_row(market_id, now) for market_id in wanted if market_id not in listed)]
    return evidence_frame(rows)


def derive_poll_states(evidence: pl.DataFrame) -> dict[str, PollState]:
    """Return what the latest polls of each market showed, from rows of arena/evidence."""
    states: dict[str, PollState] = {}
    contents: dict[str, object] = {}
    for row in evidence.filter(pl.col("cancelled_by").is_null()).sort("known_at").iter_rows(named=True):
        name, status = row["market_id"], status_from_row({**row, "active": True, "accepting_orders": True})
        earlier = states.get(name)
        content = {column: value for column, value in row.items() if column not in ("week", "known_at", "reconstructed")}
        same = earlier.same + 1 if earlier is not None and contents[name] == content else 1
        states[name] = PollState(status, row["known_at"], same, row["end_time"], bool(row["missing"]))
        contents[name] = content
    return states


def _fold_ledgers(context: WeekContext, facts: FactRows, at: datetime, *, reconstructed: bool) -> dict[Venue, Ledger]:
    """Build the ledgers of live or reconstructed agents as known at an instant, by venue."""
    return fold_ledgers(context, facts.agents.filter(pl.col("reconstructed") == reconstructed), facts.trades, facts.evidence, at)
