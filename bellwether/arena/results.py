"""Results derived from the arena's facts: settlements, ledger, positions, scores, portfolios and the leaderboard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import polars as pl

from bellwether.arena.decision import ANSWERED
from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.frames import agents_from_rows, book_frames, observations_from_rows, prices_from_rows, trades_from_rows
from bellwether.arena.identity import decision_of_trade
from bellwether.arena.ledger import Ledger, LedgerEntry, Violation, fold, violations
from bellwether.arena.lifecycle import find_complete_cohorts
from bellwether.arena.marks import compute_portfolio_curves
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.resolution import derive_settlements
from bellwether.arena.scores import Score, score_bets, summary
from bellwether.arena.units import dollars
from bellwether.lake import Lake
from bellwether.lake.sql import run_sql
from bellwether.tables.arena import AGENTS, DECISION_VERSIONS, DECISIONS, EVIDENCE, LEADERBOARD, PRICES, REFUSALS, TRADES

#: Filter for rows of arena/refusals: the last execution of each decision.
LAST_EXECUTION = pl.col("superseded_at").is_null()


@dataclass(frozen=True)
class Facts:
    """Rows of the arena's fact tables, from which all results are computed, for all weeks."""

    agents: pl.DataFrame
    decisions: pl.DataFrame
    refusals: pl.DataFrame
    trades: pl.DataFrame
    evidence: pl.DataFrame
    prices: pl.DataFrame
    decision_versions: pl.DataFrame = field(default_factory=DECISION_VERSIONS.empty)

    @classmethod
    def load(cls, lake: Lake) -> Facts:
        """Read all facts from the lake."""
        return cls(
            *(
                lake.slice(declared, missing="skip").read()
                for declared in (AGENTS, DECISIONS, REFUSALS, TRADES, EVIDENCE, PRICES, DECISION_VERSIONS)
            )
        )

    def as_known(self, at: datetime) -> Facts:
        """Return the facts that were known at an instant, with later changes undone."""
        past, changed = self.decision_versions, pl.coalesce("changed_at", "known_at") <= at
        states = pl.concat([self.decisions.with_columns(superseded_at=pl.lit(None, past.schema["superseded_at"])), past])
        return Facts(
            agents=_drop_later_ends(self.agents.filter(pl.col("known_at") <= at), at, "closed", "archived"),
            decisions=states.filter(changed, ~(pl.col("superseded_at") <= at).fill_null(value=False))
            .select(DECISIONS.names)
            .sort(DECISIONS.order),
            refusals=_drop_later_ends(self.refusals.filter(pl.col("known_at") <= at), at, "superseded"),
            trades=self.trades.filter(pl.col("known_at") <= at),
            evidence=self.evidence.filter(pl.col("known_at") <= at),
            prices=self.prices.filter(pl.coalesce("known_at", "at") <= at),
            decision_versions=past.filter(pl.col("superseded_at") <= at),
        )


@dataclass(frozen=True)
class Results:
    """Results derived from the facts known at one instant. frames: rows of the derived tables by name."""

    ledger: Ledger
    settlements: Sequence[Settlement]
    violations: Sequence[Violation]
    frames: Mapping[str, pl.DataFrame]


def _drop_later_ends(rows: pl.DataFrame, at: datetime, *events: str) -> pl.DataFrame:
    """Set events after `at` to null. events: names such as closed, whose columns are closed_at and (if present) closed_by."""
    return rows.with_columns(
        pl.when(pl.col(f"{event}_at") <= at).then(pl.col(name)).alias(name)
        for event in events
        for name in (f"{event}_by", f"{event}_at")
        if name in rows.columns
    )


def compute_results(facts: Facts, rules: Mapping[str, Methodology], *, known_at: datetime | None = None) -> Results:
    """Compute all results from the facts known by an instant (default: all). rules: methodologies by name. The order of rows has no effect."""
    if known_at is not None:
        facts = facts.as_known(known_at)
    agents, trades = agents_from_rows(facts.agents), trades_from_rows(facts.trades)
    observations = observations_from_rows(facts.evidence)
    names = {agent.methodology for agent in agents}
    markets = _markets_with_bets(agents, trades, rules)
    settlements = [
        settlement
        for name in sorted(names)
        for settlement in derive_settlements(
            [observation for observation in observations if observation.market_id in markets[rules[name].venue]], rules[name]
        )
    ]
    ledger = fold(agents, trades, settlements, known_at=known_at)
    curves = compute_portfolio_curves(
        ledger, prices_from_rows(facts.prices), live=frozenset(facts.agents.filter(~pl.col("reconstructed"))["agent_id"])
    )
    faults = violations(ledger, trades, _count_executed_legs(facts.decisions, facts.refusals))
    frames = book_frames(ledger, settlements, curves)
    frames["arena/leaderboard"] = compute_leaderboard(facts, ledger, frames, rules)
    return Results(ledger, settlements, faults, frames)


def _markets_with_bets(agents: Sequence[Agent], trades: Sequence[Trade], rules: Mapping[str, Methodology]) -> dict[Venue, set[str]]:
    """Return the ids of markets with bets, by venue. A trade of an unknown agent counts for every venue."""
    venues = {agent.agent_id: rules[agent.methodology].venue for agent in agents}
    markets: dict[Venue, set[str]] = {venue: set() for venue in set(venues.values())}
    for trade in trades:
        agent_venue = venues.get(trade.agent_id)
        for venue in markets if agent_venue is None else (agent_venue,):
            markets[venue].add(trade.market_id)
    return markets


def _count_executed_legs(decisions: pl.DataFrame, refusals: pl.DataFrame) -> dict[str, int]:
    """Return how many legs of each executed BET were not refused, by decision id."""
    refused = refusals.filter(LAST_EXECUTION).group_by("decision_id").agg(refused=pl.len())
    bets = decisions.filter(pl.col("state").is_in(sorted(ANSWERED)), pl.col("action") == "BET")
    rows = bets.join(refused, on="decision_id", how="left").select("decision_id", pl.col("legs") - pl.col("refused").fill_null(0))
    return dict(rows.iter_rows())


def compute_leaderboard(facts: Facts, ledger: Ledger, folded: Mapping[str, pl.DataFrame], rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """Build rows of arena/leaderboard, without archived cohorts. folded: rows of arena/ledger, arena/positions and arena/portfolios, by table."""
    open_positions = {name: len(account.open) for name, account in ledger.accounts.items()}
    complete = find_complete_cohorts(facts.agents, facts.decisions, open_positions, rules, newest_fact_time(facts))
    inputs = {
        **{name: getattr(facts, name) for name in ("agents", "decisions", "refusals", "trades")},
        **{name: folded[f"arena/{name}"] for name in ("ledger", "positions", "portfolios")},
        "completed": pl.DataFrame({"week": sorted(complete)}, schema={"week": pl.Date()}),
        "scored": _score_families(facts.agents, ledger),
    }
    return run_sql(LEADERBOARD, inputs)


_FAMILY = ("methodology", "reconstructed", "family")
_SCORED = ("scored", "stated", "brier_stated", "brier_size", "brier_price", "win_rate")


def _score_families(agents: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    """Return mean scores by family, computed with exact sums so that the order of bets has no effect."""
    families = {
        name: tuple(rest) for name, *rest in agents.filter(pl.col("archived_at").is_null()).select("agent_id", *_FAMILY).iter_rows()
    }
    bets: dict[tuple[Any, ...], list[Score]] = {family: [] for family in families.values()}
    for score in score_bets(ledger):
        if score.agent_id in families:
            bets[families[score.agent_id]].append(score)
    summaries = {family: summary(scores) for family, scores in bets.items()}
    return pl.DataFrame(
        [(*family, *(getattr(means, name) for name in _SCORED)) for family, means in summaries.items()],
        schema={name: LEADERBOARD.schema[name] for name in (*_FAMILY, *_SCORED)},
        orient="row",
    )


def newest_fact_time(facts: Facts) -> datetime:
    """Return the time of the latest decision, trade, evidence or mark. Results use this time instead of the clock, so that equal facts give equal
    results.
    """
    decided = facts.decisions.select(pl.coalesce("changed_at", "known_at")).to_series()
    times = [decided.max(), *(rows["known_at"].max() for rows in (facts.trades, facts.evidence))]
    return max(
        (time for time in (*times, facts.prices["at"].max()) if isinstance(time, datetime)), default=datetime.min.replace(tzinfo=UTC)
    )


def find_changed_cash(facts: Facts, ledger: Ledger) -> list[str]:
    """Return a message for each decision whose recorded cash differs from the ledger's cash at that time, because an earlier fact changed
    afterwards.

    Decisions are final, so their week is reported as out of date.
    """
    entries: dict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in ledger.entries:
        entries[entry.agent_id].append(entry)
    changed = []
    for row in facts.decisions.filter(pl.col("planned_at").is_not_null()).sort("decision_id").iter_rows(named=True):
        account = ledger.accounts.get(row["agent_id"])
        if account is None:
            continue
        earlier = [
            entry_before.cash
            for entry_before in entries[row["agent_id"]]
            if entry_before.known_at <= row["planned_at"]
            and (entry_before.trade_id is None or decision_of_trade(entry_before.trade_id) != row["decision_id"])
        ]
        cash = earlier[-1] if earlier else account.agent.initial_cash
        if dollars(max(cash, 0)) != row["cash"]:
            changed.append(f"{row['decision_id']}: decided with {row['cash']}, the ledger has {dollars(cash)}")
    return changed
