"""Accounts before a week is decided, from journaled decisions and the evidence known by then, and books of all agents by venue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import polars as pl

from bellwether.arena.account import Account, Position
from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.frames import agents_from_rows, evidence_frame, observations_from_rows, trades_from_rows
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey
from bellwether.arena.ledger import Book, fold
from bellwether.arena.market import YES, Market, Quotes, fold_case
from bellwether.arena.marks import HeldPrice, PriceKey, PriceSource
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.records import Execution, FrozenCohort, load_records
from bellwether.arena.resolution import Observation, awaited_markets, derive_settlements
from bellwether.arena.universe import Universe
from bellwether.arena.weekly.context import WeekContext, cohort_methodology, load_evidence
from bellwether.arena.weekly.venue import HeldMarkets
from bellwether.journal.records import Records


@dataclass(frozen=True)
class WeekState:
    """State before a week is decided, as of `at`.

    markets: known markets by id, of the universe and of positions. prices: latest by market and outcome. quotes: of held markets outside the
    universe, in a reconstructed week.
    """

    book: Book
    at: datetime
    markets: Mapping[str, Market]
    prices: Mapping[PriceKey, HeldPrice]
    quotes: Mapping[str, Quotes] = field(default_factory=dict)

    @property
    def owners(self) -> dict[str, str]:
        """Agent by position, of all positions."""
        return {name: position.agent_id for account in self.book.accounts.values() for name, position in account.positions.items()}

    def account(self, agent_id: str) -> Account:
        """Return the account of an agent."""
        return self.book.accounts[agent_id]

    def position(self, position_id: str) -> Position | None:
        """Return a position of any agent."""
        return next((account.positions[position_id] for account in self.book.accounts.values() if position_id in account.positions), None)


def decision_keys(cohort: FrozenCohort, week: date) -> list[DecisionKey]:
    """Return the keys of a cohort's decisions in a week, by family."""
    return [DecisionKey(AgentKey(cohort.week, family), week) for family in sorted(cohort.members)]


def load_earlier_trades(records: Records, cohorts: Iterable[FrozenCohort], week: date) -> list[Trade]:
    """Load the trades of the cohorts' decisions in earlier weeks from the journal."""
    found: list[Trade] = []
    for cohort in cohorts:
        earlier = cohort.week
        while earlier < week:
            for key in decision_keys(cohort, earlier):
                found += [trade for execution in load_records(records, Execution, key.decision_id)[-1:] for trade in execution.trades]
            earlier += WEEK
    return found


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
    """Build the state of a venue's cohorts before a week is decided."""
    agents = [agent for cohort in cohorts for agent in cohort.agents(cohort_methodology(context, cohort))]
    trades = load_earlier_trades(context.records, cohorts, week)
    rules = {cohort.methodology: cohort_methodology(context, cohort) for cohort in cohorts}
    seen = load_observations(context, at, {trade.market_id for trade in trades}, reconstructed=reconstructed)
    book = _fold_book(agents, trades, seen, rules, at)
    waiting = awaited_markets(book)
    listed = universe.by_id
    if reconstructed and waiting:
        seen = [
            *seen,
            *observations_from_rows(evidence_frame(context.data(venue).reconstruct_evidence(waiting, at, rules), reconstructed=True)),
        ]
        book = _fold_book(agents, trades, seen, rules, at)
    missing = sorted({position.market_id for account in book.accounts.values() for position in account.open.values()} - set(listed))
    held = context.data(venue).fetch_held_markets(missing, at, past=reconstructed) if missing else HeldMarkets()
    return WeekState(book, at, {**held.markets, **listed}, {**held.prices, **_universe_prices(universe, at)}, held.quotes)


def fold_books(
    context: WeekContext, agents: pl.DataFrame, trades: pl.DataFrame, evidence: pl.DataFrame, at: datetime | None = None
) -> dict[Venue, Book]:
    """Fold books by venue from rows of arena/agents, arena/trades and arena/evidence, optionally as known at an instant."""
    made = trades_from_rows(trades if at is None else trades.filter(pl.col("known_at") <= at))
    known = evidence if at is None else evidence.filter(pl.col("known_at") <= at)
    found: dict[Venue, Book] = {}
    for venue, own in context.group_by_venue(agents_from_rows(agents)).items():
        names = {agent.agent_id for agent in own}
        traded = [trade for trade in made if trade.agent_id in names]
        seen = observations_from_rows(known.filter(pl.col("market_id").is_in(list({trade.market_id for trade in traded}))))
        rules = {agent.methodology: context.rules[agent.methodology] for agent in own}
        found[venue] = _fold_book(own, traded, seen, rules, at)
    return found


def load_observations(context: WeekContext, at: datetime, market_ids: Iterable[str], *, reconstructed: bool) -> list[Observation]:
    """Load observations of some markets from the lake, as known at an instant. reconstructed: whether damaged rows may be rebuilt."""
    wanted = list(market_ids)
    if not wanted:
        return []
    chosen = pl.col("market_id").is_in(wanted) & (pl.col("known_at") <= at)
    return observations_from_rows(load_evidence(context, None if reconstructed else ()).query(lambda rows: rows.filter(chosen)))


def _fold_book(
    agents: Sequence[Agent], trades: Sequence[Trade], seen: Sequence[Observation], rules: Mapping[str, Methodology], at: datetime | None
) -> Book:
    settled: list[Settlement] = [
        one for methodology in rules.values() for one in derive_settlements(_distinct_observations(seen), methodology)
    ]
    return fold(agents, trades, settled, known_at=at)


def _distinct_observations(seen: Sequence[Observation]) -> list[Observation]:
    """Drop duplicates: the same observation may be stored and reconstructed."""
    return list({(one.market_id, one.observed_at, one.by_operator): one for one in seen}.values())


def _universe_prices(universe: Universe, at: datetime) -> dict[PriceKey, HeldPrice]:
    found: dict[PriceKey, HeldPrice] = {}
    for market in universe.markets:
        for side in (YES,) if market.binary else market.outcomes:
            price = market.price(side)
            if price is not None:
                name = side if market.binary else fold_case(side)
                found[market.market_id, name] = HeldPrice(market.market_id, name, at, price, PriceSource.LIVE, at)
    return found
