"""Everything that follows from the arena's facts: settlements, ledger, positions, scores, portfolios and the leaderboard, by one fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.frames import (
    agents_of,
    ledger_frame,
    millionths,
    observations_of,
    portfolios_frame,
    positions_frame,
    prices_of,
    scores_frame,
    settlements_frame,
    trades_of,
)
from bellwether.arena.identity import decision_of
from bellwether.arena.invariants import violations
from bellwether.arena.ledger import Book, Entry, Violation, fold
from bellwether.arena.marks import Valuation, curves
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.resolution import settlements
from bellwether.arena.returns import drawdown, turnover
from bellwether.arena.scores import Score, Summary, score_bets, skill, summary
from bellwether.arena.states import completed
from bellwether.arena.units import dollars
from bellwether.lake import Lake
from bellwether.tables.arena import AGENTS, DECISIONS, EVIDENCE, LEADERBOARD, PRICES, REFUSALS, TRADES

#: Share of its decisions in which a family must have given a usable answer to be ranked.
COVERED = 0.5


@dataclass(frozen=True)
class Facts:
    """Rows of the arena's tables of facts, of all weeks."""

    agents: pl.DataFrame
    decisions: pl.DataFrame
    refusals: pl.DataFrame
    trades: pl.DataFrame
    evidence: pl.DataFrame
    prices: pl.DataFrame

    @classmethod
    def stored(cls, lake: Lake) -> Facts:
        """What the lake has."""
        return cls(*(lake.slice(one, missing="skip").read() for one in (AGENTS, DECISIONS, REFUSALS, TRADES, EVIDENCE, PRICES)))

    def known(self, at: datetime) -> Facts:
        """What of it was known at an instant."""
        then = {
            name: getattr(self, name).filter(pl.col("at" if name == "prices" else "known_at") <= at) for name in Facts.__dataclass_fields__
        }
        agents = then["agents"].with_columns(
            pl.when(pl.col(f"{word}_at") <= at).then(pl.col(name)).alias(name)
            for word in ("closed", "archived")
            for name in (f"{word}_by", f"{word}_at")
        )
        return Facts(**{**then, "agents": agents})


@dataclass(frozen=True)
class Results:
    """What follows from facts, as known at one instant."""

    book: Book
    settlements: Sequence[Settlement]
    curves: Sequence[Valuation]
    violations: Sequence[Violation]
    frames: Mapping[str, pl.DataFrame]


def results(facts: Facts, rules: Mapping[str, Methodology], *, known_at: datetime | None = None) -> Results:
    """All results, from the facts known by an instant; of all facts when it is left out. The same facts give the same rows, in any order."""
    if known_at is not None:
        facts = facts.known(known_at)
    agents, trades = agents_of(facts.agents), trades_of(facts.trades)
    seen = observations_of(facts.evidence)
    used = {agent.methodology for agent in agents}
    held = _held(agents, trades, rules)
    settled = [
        one
        for name in sorted(used)
        for one in settlements([look for look in seen if look.market_id in held[rules[name].venue]], rules[name])
    ]
    book = fold(agents, trades, settled, known_at=known_at)
    drawn = curves(book, prices_of(facts.prices))
    found = violations(book, trades, _legs(facts.decisions))
    frames = {
        "arena/settlements": settlements_frame(settled),
        "arena/ledger": ledger_frame(book),
        "arena/positions": positions_frame(book),
        "arena/scores": scores_frame(book),
        "arena/portfolios": portfolios_frame(drawn, book),
        "arena/leaderboard": leaderboard(facts, book, trades, drawn, rules),
    }
    return Results(book, settled, drawn, found, frames)


def _held(agents: Sequence[Agent], trades: Sequence[Trade], rules: Mapping[str, Methodology]) -> dict[Venue, set[str]]:
    """The markets that cohorts of each venue bet on; those of trades of no agent are on all."""
    venues = {agent.agent_id: rules[agent.methodology].venue for agent in agents}
    found: dict[Venue, set[str]] = {venue: set() for venue in set(venues.values())}
    for trade in trades:
        own = venues.get(trade.agent_id)
        for venue in found if own is None else (own,):
            found[venue].add(trade.market_id)
    return found


def _legs(decisions: pl.DataFrame) -> dict[str, int]:
    """How many trades each finished BET asked for, by decision."""
    rows = decisions.filter(pl.col("state") == "finished", pl.col("action") == "BET").select("decision_id", "legs")
    return dict(rows.iter_rows())


def leaderboard(
    facts: Facts, book: Book, trades: Sequence[Trade], drawn: Sequence[Valuation], rules: Mapping[str, Methodology]
) -> pl.DataFrame:
    """Rows of arena/leaderboard; archived cohorts are in none."""
    by_agent = _ByAgent.of(facts, book, trades, drawn, rules)
    groups: dict[tuple[str, bool, str], list[str]] = defaultdict(list)
    for row in facts.agents.filter(pl.col("archived_at").is_null()).sort("agent_id").iter_rows(named=True):
        groups[row["methodology"], row["reconstructed"], row["family"]].append(row["agent_id"])
    rows = [_family(key, names, by_agent) for key, names in sorted(groups.items())]
    _rank(rows, rules)
    return millionths(LEADERBOARD, rows, "initial_cash", "cash", "total", "profit", "cost")


@dataclass(frozen=True)
class _ByAgent:
    book: Book
    decisions: Mapping[str, list[dict[str, Any]]]
    refused: Mapping[str, int]
    scores: Mapping[str, list[Score]]
    trades: Mapping[str, list[Trade]]
    totals: Mapping[str, list[int]]
    completed: Set[str]

    @classmethod
    def of(
        cls, facts: Facts, book: Book, trades: Sequence[Trade], drawn: Sequence[Valuation], rules: Mapping[str, Methodology]
    ) -> _ByAgent:
        decisions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in facts.decisions.select("agent_id", "state", "action", "cost", "decision_id", "known_at").iter_rows(named=True):
            decisions[row["agent_id"]].append(row)
        refused: dict[str, int] = defaultdict(int)
        for (name,) in facts.refusals.select("decision_id").iter_rows():
            refused[name.rpartition("/")[0]] += 1
        scored: dict[str, list[Score]] = defaultdict(list)
        for one in score_bets(book):
            scored[one.agent_id].append(one)
        traded: dict[str, list[Trade]] = defaultdict(list)
        for trade in trades:
            traded[trade.agent_id].append(trade)
        totals: dict[str, list[int]] = defaultdict(list)
        for valuation in drawn:
            totals[valuation.agent_id].append(valuation.total)
        held = {name: len(account.open) for name, account in book.accounts.items()}
        complete = completed(facts.agents, facts.decisions, held, rules, _newest(facts))
        return cls(book, decisions, refused, scored, traded, totals, {str(week) for week in complete})


def _family(key: tuple[str, bool, str], names: Sequence[str], by: _ByAgent) -> dict[str, Any]:
    methodology, reconstructed, family = key
    decisions = [row for name in names for row in by.decisions[name]]
    finished = [row for row in decisions if row["state"] == "finished"]
    invalid = [row for row in finished if row["action"] == "INVALID"]
    scored: Summary = summary([one for name in names for one in by.scores[name]])
    stated = summary([one for name in names for one in by.scores[name] if one.brier_stated is not None])
    accounts = [by.book.accounts[name] for name in names]
    traded = [trade for name in names for trade in by.trades[name]]
    initial = sum(account.agent.initial_cash for account in accounts)
    totals = {name: (by.totals[name] or [by.book.accounts[name].agent.initial_cash]) for name in names}
    total = sum(values[-1] for values in totals.values())
    costs = [row["cost"] for row in decisions]
    moved = {side: sum(trade.amount for trade in traded if trade.action == side) for side in ("BUY", "SELL")}
    return {
        "methodology": methodology,
        "reconstructed": reconstructed,
        "family": family,
        "rank": None,
        "cohorts": len(names),
        "completed": sum(account.agent.cohort in by.completed for account in accounts),
        "decisions": len(decisions),
        "finished": len(finished) - len(invalid),
        "invalid": len(invalid),
        "unfinished": len(decisions) - len(finished),
        "bets": sum(trade.action == "BUY" for trade in traded),
        "refused": sum(by.refused[name] for name in names),
        "scored": sum(len(by.scores[name]) for name in names),
        "stated": scored.stated,
        "brier_stated": scored.brier_stated,
        "brier_size": scored.brier_size,
        "brier_price": scored.brier_price,
        "skill_price": skill(stated.brier_stated, stated.brier_price),
        "win_rate": scored.win_rate,
        "initial_cash": initial,
        "cash": sum(account.cash for account in accounts),
        "total": total,
        "profit": total - initial,
        "return": (total - initial) / initial,
        "drawdown": max(drawdown([by.book.accounts[name].agent.initial_cash, *values]) or 0.0 for name, values in totals.items()),
        "turnover": turnover(moved["BUY"], moved["SELL"], initial),
        "open_positions": sum(len(account.open) for account in accounts),
        "cost": None if None in costs else sum(int(cost * 1_000_000) for cost in costs),
    }


def _newest(facts: Facts) -> datetime:
    """When the newest decision or evidence became known: what is over by then is over as far as the facts show."""
    times = [time for rows in (facts.decisions, facts.evidence) if isinstance(time := rows["known_at"].max(), datetime)]
    return max(times, default=datetime.min.replace(tzinfo=UTC))


def _rank(rows: list[dict[str, Any]], rules: Mapping[str, Methodology]) -> None:
    """Rank the families of each methodology by its first primary metric: the smallest score, or the largest return, is first.

    A family without that metric, or with usable answers in less than `COVERED` of its decisions, is not ranked.
    """
    for row in rows:
        name = rules[row["methodology"]].primary[0]
        sign = -1 if name == "return" else 1
        alike = [other[name] for other in rows if _is_alike(row, other) and _is_ranked(other, name)]
        if _is_ranked(row, name):
            row["rank"] = 1 + sum(sign * other < sign * row[name] for other in alike)


def _is_alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (other["methodology"], other["reconstructed"]) == (row["methodology"], row["reconstructed"])


def _is_ranked(row: Mapping[str, Any], metric: str) -> bool:
    return row[metric] is not None and row["finished"] >= COVERED * row["decisions"] > 0


def changed_bases(facts: Facts, book: Book) -> list[str]:
    """Decisions whose cash before them is not what the ledger has now: a past fact has changed since they were made.

    A decision cannot be made again, so it stands, and its week is shown as out of date.
    """
    entries: dict[str, list[Entry]] = defaultdict(list)
    for entry in book.entries:
        entries[entry.agent_id].append(entry)
    found = []
    for row in facts.decisions.filter(pl.col("planned_at").is_not_null()).sort("decision_id").iter_rows(named=True):
        account = book.accounts.get(row["agent_id"])
        if account is None:
            continue
        before = [one.cash for one in entries[row["agent_id"]] if one.known_at <= row["planned_at"] and not _of(one, row["decision_id"])]
        cash = before[-1] if before else account.agent.initial_cash
        if max(cash, 0) != int(row["cash"] * 1_000_000):
            found.append(f"{row['decision_id']}: decided with {row['cash']}, the books have {dollars(cash)}")
    return found


def _of(entry: Entry, decision_id: str) -> bool:
    return entry.trade_id is not None and decision_of(entry.trade_id) == decision_id
