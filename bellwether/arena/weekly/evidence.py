"""Evidence of a week: observations of markets with open bets. Live markets are observed when due; those of reconstructed cohorts are backdated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.frames import cancellations_frame, evidence_frame
from bellwether.arena.identity import WEEK, week_of, week_start
from bellwether.arena.ledger import Book
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.records import load_cancellations
from bellwether.arena.resolution import PollState, awaited_markets, markets_due, missing_evidence_row
from bellwether.arena.universe import status_from_row
from bellwether.arena.weekly.context import WeekContext, load_evidence
from bellwether.arena.weekly.ledgers import fold_books
from bellwether.errors import ConfigError
from bellwether.tables.arena import AGENTS, EVIDENCE, TRADES


@dataclass(frozen=True)
class FactRows:
    """Rows of arena/agents, arena/trades and arena/evidence for all weeks."""

    agents: pl.DataFrame
    trades: pl.DataFrame
    evidence: pl.DataFrame

    @classmethod
    def load(cls, context: WeekContext, *, decided: Collection[date] = (), found_again: Collection[date] = ()) -> FactRows:
        """Read the rows from the lake.

        decided: weeks whose agents and trades are rebuilt and not read. found_again: weeks whose evidence is rebuilt, as in `load_evidence`.
        """
        rebuilt = {(week.isoformat(),) for week in decided}
        agents, trades = (context.lake.slice(table, missing="skip").exclude(rebuilt).read() for table in (AGENTS, TRADES))
        return cls(agents, trades, load_evidence(context, found_again).read())

    def replace_week(self, week: date, **rows: pl.DataFrame) -> FactRows:
        """Replace the rows of a week in the given tables (agents, trades or evidence)."""
        made = {name: pl.concat([getattr(self, name).filter(pl.col("week") != week), own]) for name, own in rows.items()}
        return replace(self, **made)


def evidence_rows(context: WeekContext, week: date, known: FactRows, *, asked: Collection[str] = ()) -> pl.DataFrame:
    """Build rows of arena/evidence of a week: stored rows, cancellations of the week, and missing observations.

    Markets of live cohorts are observed in the present week only, if due or `asked`. For reconstructed cohorts, observations that could have
    been made within the week are added with that time.
    """
    now = context.now()
    until = min(now, week_start(week) + WEEK)
    found = [
        cancellations_frame([one for one in load_cancellations(context.records) if week_of(one.at) == week]),
        known.evidence.filter(pl.col("week") == week),
    ]
    for venue, book in _fold_books(context, known, until, reconstructed=True).items():
        waiting, rules = awaited_markets(book), _book_methodologies(context, book)
        if waiting:
            made = context.data(venue).reconstruct_evidence(waiting, until, rules)
            within = [look for look in made if week_start(week) <= look["fetched_at"] < week_start(week) + WEEK]
            found.append(evidence_frame(within, reconstructed=True))
    if week == week_of(now):
        found.append(_look_at_markets(context, known, now, asked))
        if (early := found[-1].filter(pl.col("week") != week)).height:
            raise ConfigError(
                f"observing markets: the venue's clock shows {early['known_at'][0]:%Y-%m-%d %H:%M} UTC, this machine's {now:%Y-%m-%d %H:%M}; correct the latter"
            )
    rows = pl.concat(found).unique(["market_id", "known_at"], keep="first", maintain_order=True)
    return EVIDENCE.validate(rows.sort(EVIDENCE.order))


def due_markets(context: WeekContext) -> list[str]:
    """Return markets of live cohorts that are due for an observation, of a resolution or a correction."""
    return [market_id for due_ones in _due_by_venue(context, FactRows.load(context), context.now()).values() for market_id in due_ones]


def _due_by_venue(context: WeekContext, known: FactRows, now: datetime) -> dict[Venue, list[str]]:
    """Return the due markets by venue."""
    cancelled = known.evidence.filter(pl.col("cancelled_by").is_not_null())["market_id"].to_list()
    return {
        venue: markets_due(book, poll_states(known.evidence.filter(pl.col("market_id").is_in(list(book.bets)))), now, final=cancelled)
        for venue, book in _fold_books(context, known, now, reconstructed=False).items()
    }


def _look_at_markets(context: WeekContext, known: FactRows, now: datetime, asked: Collection[str]) -> pl.DataFrame:
    """Observe due and `asked` markets. Unlisted markets, and those with an unreadable record, also give a row."""
    looks: list[dict[str, Any]] = []
    wanted_by_venue = {venue: set(due_ones) for venue, due_ones in _due_by_venue(context, known, now).items()}
    for reconstructed in (False, True) if asked else ():
        for venue, book in _fold_books(context, known, now, reconstructed=reconstructed).items():
            wanted_by_venue.setdefault(venue, set()).update(one for one in asked if one in book.bets)
    for venue, names in wanted_by_venue.items():
        if wanted := sorted(names):
            seen = context.data(venue).fetch_evidence(wanted, now)
            listed = {look["market_id"] for look in seen}
            looks += [*seen, *(missing_evidence_row(one, now) for one in wanted if one not in listed)]
    return evidence_frame(looks)


def poll_states(evidence: pl.DataFrame) -> dict[str, PollState]:
    """Derive the polling state of each market from rows of arena/evidence."""
    found: dict[str, PollState] = {}
    words: dict[str, object] = {}
    for row in evidence.filter(pl.col("cancelled_by").is_null()).sort("known_at").iter_rows(named=True):
        name, status = row["market_id"], status_from_row({**row, "active": True, "accepting_orders": True})
        before = found.get(name)
        said = {column: value for column, value in row.items() if column not in ("week", "known_at", "reconstructed")}
        same = before.same + 1 if before is not None and words[name] == said else 1
        found[name] = PollState(status, row["known_at"], same, row["end_time"], bool(row["missing"]))
        words[name] = said
    return found


def _fold_books(context: WeekContext, known: FactRows, at: datetime, *, reconstructed: bool) -> dict[Venue, Book]:
    """Fold the books of live or reconstructed agents as known at an instant, by venue."""
    return fold_books(context, known.agents.filter(pl.col("reconstructed") == reconstructed), known.trades, known.evidence, at)


def _book_methodologies(context: WeekContext, book: Book) -> Mapping[str, Methodology]:
    used = {account.agent.methodology for account in book.accounts.values()}
    return {name: rules for name, rules in context.rules.items() if name in used}
