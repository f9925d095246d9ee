"""Ledgers (cash and positions) of all agents by venue, and of the cohorts that decide in a week, as of just before the decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import polars as pl

from bellwether.arena.account import Account, Position
from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.frames import agents_from_rows, evidence_frame, observations_from_rows, trades_from_rows
from bellwether.arena.history import HeldMarkets
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey
from bellwether.arena.ledger import Ledger, fold
from bellwether.arena.market import YES, Market, Quotes, fold_case
from bellwether.arena.marks import HeldPrice, PriceKey, PriceSource
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.records import Execution, FrozenCohort, load_records
from bellwether.arena.resolution import Observation, derive_settlements, find_awaited_markets
from bellwether.arena.universe import Universe
from bellwether.arena.weekly.context import WeekContext, cohort_methodology, load_evidence
from bellwether.journal.records import Records


@dataclass(frozen=True)
class WeekState:
    """Ledger, markets and prices before the decisions of a week, as of `at`.

    markets: known markets by id, of the universe and of positions. prices: latest by market and outcome. quotes: of held markets outside the
    universe, in a reconstructed week.
    """

    ledger: Ledger
    at: datetime
    markets: Mapping[str, Market]
    prices: Mapping[PriceKey, HeldPrice]
    quotes: Mapping[str, Quotes] = field(default_factory=dict)

    @property
    def owners(self) -> dict[str, str]:
        """Agent of each position, by position id."""
        return {name: position.agent_id for account in self.ledger.accounts.values() for name, position in account.positions.items()}

    def account(self, agent_id: str) -> Account:
        """Return the account of an agent."""
        return self.ledger.accounts[agent_id]

    def position(self, position_id: str) -> Position | None:
        """Return the position of any agent; None if unknown."""
        return next((account.positions[position_id] for account in self.ledger.accounts.values() if position_id in account.positions), None)


def list_decision_keys(cohort: FrozenCohort, week: date) -> list[DecisionKey]:
    """Return the keys of a cohort's decisions in a week, by family."""
    return [DecisionKey(AgentKey(cohort.week, family), week) for family in sorted(cohort.members)]


def load_earlier_trades(records: Records, cohorts: Iterable[FrozenCohort], week: date) -> list[Trade]:
    """Load all trades that the cohorts made before a week, from the journal."""
    trades: list[Trade] = []
    for cohort in cohorts:
        earlier = cohort.week
        while earlier < week:
            for key in list_decision_keys(cohort, earlier):
                trades += [trade for execution in load_records(records, Execution, key.decision_id)[-1:] for trade in execution.trades]
            earlier += WEEK
    return trades


def build_week_state(
    context: WeekContext,
    week: date,
    venue: Venue,
    cohorts: Sequence[FrozenCohort],
    universe: Universe,
    *,
    at: datetime,
    reconstructed: bool,
) -> WeekState:
    """Build ledger, markets and prices of a venue's cohorts as of just before the decisions of a week. at: time of the decisions."""
    agents = [agent for cohort in cohorts for agent in cohort.agents(cohort_methodology(context, cohort))]
    trades = load_earlier_trades(context.records, cohorts, week)
    rules = {cohort.methodology: cohort_methodology(context, cohort) for cohort in cohorts}
    observations = load_observations(context, at, {trade.market_id for trade in trades}, reconstructed=reconstructed)
    ledger = _fold_ledger(agents, trades, observations, rules, at)
    awaited = find_awaited_markets(ledger)
    listed = universe.by_id
    if reconstructed and awaited:
        rows = context.query(venue, lambda data: data.reconstruct_evidence(awaited, at, rules))
        observations = [
            *observations,
            *observations_from_rows(evidence_frame(rows, reconstructed=True)),
        ]
        ledger = _fold_ledger(agents, trades, observations, rules, at)
    missing = sorted({position.market_id for account in ledger.accounts.values() for position in account.open.values()} - set(listed))
    held_markets = HeldMarkets()
    if missing:
        held_markets = context.query(venue, lambda data: data.fetch_held_markets(missing, at, past=reconstructed))
    return WeekState(
        ledger, at, {**held_markets.markets, **listed}, {**held_markets.prices, **_universe_prices(universe, at)}, held_markets.quotes
    )


def fold_ledgers(
    context: WeekContext, agents: pl.DataFrame, trades: pl.DataFrame, evidence: pl.DataFrame, at: datetime | None = None
) -> dict[Venue, Ledger]:
    """Build ledgers by venue from rows of arena/agents, arena/trades and arena/evidence. at: facts that became known later are ignored; None: all
    count.
    """
    all_trades = trades_from_rows(trades if at is None else trades.filter(pl.col("known_at") <= at))
    known_evidence = evidence if at is None else evidence.filter(pl.col("known_at") <= at)
    ledgers: dict[Venue, Ledger] = {}
    for venue, venue_agents in context.group_by_venue(agents_from_rows(agents)).items():
        names = {agent.agent_id for agent in venue_agents}
        venue_trades = [trade for trade in all_trades if trade.agent_id in names]
        observations = observations_from_rows(
            known_evidence.filter(pl.col("market_id").is_in(list({trade.market_id for trade in venue_trades})))
        )
        rules = {agent.methodology: context.rules[agent.methodology] for agent in venue_agents}
        ledgers[venue] = _fold_ledger(venue_agents, venue_trades, observations, rules, at)
    return ledgers


def load_observations(context: WeekContext, at: datetime, market_ids: Iterable[str], *, reconstructed: bool) -> list[Observation]:
    """Load what was observed about the resolution of markets up to an instant, from the lake. reconstructed: drop damaged rows if they can be
    rebuilt.
    """
    wanted = list(market_ids)
    if not wanted:
        return []
    is_chosen = pl.col("market_id").is_in(wanted) & (pl.col("known_at") <= at)
    return observations_from_rows(load_evidence(context, None if reconstructed else ()).query(lambda rows: rows.filter(is_chosen)))


def _fold_ledger(
    agents: Sequence[Agent],
    trades: Sequence[Trade],
    observations: Sequence[Observation],
    rules: Mapping[str, Methodology],
    at: datetime | None,
) -> Ledger:
    # An observation may be both stored and reconstructed.
    distinct = {(seen.market_id, seen.observed_at, seen.by_operator): seen for seen in observations}.values()
    settlements: list[Settlement] = [
        settlement for methodology in rules.values() for settlement in derive_settlements(distinct, methodology)
    ]
    return fold(agents, trades, settlements, known_at=at)


def _universe_prices(universe: Universe, at: datetime) -> dict[PriceKey, HeldPrice]:
    prices: dict[PriceKey, HeldPrice] = {}
    for market in universe.markets:
        for side in (YES,) if market.binary else market.outcomes:
            price = market.price(side)
            if price is not None:
                name = side if market.binary else fold_case(side)
                prices[market.market_id, name] = HeldPrice(market.market_id, name, at, price, PriceSource.LIVE, at)
    return prices
