"""What agents have before a week is decided: from decisions in the journal and evidence that was known by then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl

from bellwether.arena.account import Account, Position
from bellwether.arena.deciding import executions_of
from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.frames import observations_of
from bellwether.arena.frozen import FrozenCohort
from bellwether.arena.history import FRESH, SOURCE, as_of, past_evidence, past_quotes, tokens_of, was_open
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey
from bellwether.arena.ledger import Book, fold
from bellwether.arena.market import YES, Market, MarketStatus, Quote, Quotes, folded
from bellwether.arena.marks import Price, PriceKey, Source
from bellwether.arena.methodology import Methodology
from bellwether.arena.polling import awaited
from bellwether.arena.resolution import Observation, observations, settlements
from bellwether.arena.steps import Steps
from bellwether.arena.units import price_micros
from bellwether.arena.universe import Universe, market_of
from bellwether.arena.weekly.means import World, rules_of
from bellwether.tables.arena import EVIDENCE
from bellwether.venues.polymarket import looks
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.resolution import EVIDENCE as LOOK

#: A held market without a price of the day is valued at the last one of so long before.
_LAST = timedelta(days=14)


@dataclass(frozen=True)
class Standing:
    """The state before a week is decided, as of `at`.

    markets: all that are known, by id: those of the universe and those that are held. prices: the newest by market and outcome. quotes: of held
    markets outside of the universe, where the week is reconstructed.
    """

    book: Book
    at: datetime
    markets: Mapping[str, Market]
    prices: Mapping[PriceKey, Price]
    quotes: Mapping[str, Quotes] = field(default_factory=dict)

    @property
    def owners(self) -> dict[str, str]:
        """Agent by position, of all positions."""
        return {name: position.agent_id for account in self.book.accounts.values() for name, position in account.positions.items()}

    def account(self, agent_id: str) -> Account:
        """An agent's account."""
        return self.book.accounts[agent_id]

    def position(self, position_id: str) -> Position | None:
        """A position of any agent."""
        return next((account.positions[position_id] for account in self.book.accounts.values() if position_id in account.positions), None)


def keys_of(cohort: FrozenCohort, week: date) -> list[DecisionKey]:
    """The decisions of a cohort in a week, by family."""
    return [DecisionKey(AgentKey(cohort.week, family), week) for family in sorted(cohort.members)]


def trades_before(steps: Steps, cohorts: Iterable[FrozenCohort], week: date) -> list[Trade]:
    """The trades that the cohorts' decisions of earlier weeks led to, from the journal."""
    found: list[Trade] = []
    for cohort in cohorts:
        earlier = cohort.week
        while earlier < week:
            for key in keys_of(cohort, earlier):
                found += [trade for execution in executions_of(steps, key.decision_id)[-1:] for trade in execution.trades]
            earlier += WEEK
    return found


def standing(
    world: World, week: date, cohorts: Sequence[FrozenCohort], universe: Universe, at: datetime, *, reconstructed: bool
) -> Standing:
    """What the cohorts have before a week is decided."""
    agents = [agent for cohort in cohorts for agent in cohort.agents(rules_of(world, cohort))]
    trades = trades_before(world.steps, cohorts, week)
    rules = {cohort.methodology: rules_of(world, cohort) for cohort in cohorts}
    seen = stored_observations(world, at, {trade.market_id for trade in trades})
    book = _folded(agents, trades, seen, rules, at)
    waiting = awaited(book)
    listed = universe.by_id
    if reconstructed and waiting:
        seen = [*seen, *world.venue(lambda gamma, clob: _evidence(gamma, clob, waiting, at, rules))]
        book = _folded(agents, trades, seen, rules, at)
    missing = sorted({position.market_id for account in book.accounts.values() for position in account.open.values()} - set(listed))
    held, prices, quotes = world.venue(lambda gamma, clob: _held(gamma, clob, missing, at, past=reconstructed)) if missing else ({}, {}, {})
    return Standing(book, at, {**held, **listed}, {**prices, **_universe_prices(universe, at)}, quotes)


def stored_observations(world: World, at: datetime, market_ids: Iterable[str]) -> list[Observation]:
    """What the lake's evidence on some markets says, as known at an instant."""
    wanted = list(market_ids)
    if not wanted:
        return []
    rows = world.lake.slice(EVIDENCE, missing="skip").scan().filter(pl.col("market_id").is_in(wanted), pl.col("known_at") <= at)
    return observations_of(rows.collect())


def _folded(
    agents: Sequence[Agent], trades: Sequence[Trade], seen: Sequence[Observation], rules: Mapping[str, Methodology], at: datetime
) -> Book:
    settled: list[Settlement] = [one for methodology in rules.values() for one in settlements(_distinct(seen), methodology)]
    return fold(agents, trades, settled, known_at=at)


def _distinct(seen: Sequence[Observation]) -> list[Observation]:
    """Looks without repetitions: the same look may be stored and reconstructed."""
    return list({(one.market_id, one.observed_at, one.by_operator): one for one in seen}.values())


async def _evidence(
    gamma: GammaClient, clob: ClobClient, market_ids: Sequence[str], at: datetime, rules: Mapping[str, Methodology]
) -> list[Observation]:
    found = await evidence_of_past(gamma, clob, market_ids, at, rules)
    return observations(pl.DataFrame([{name: look[name] for name in LOOK} for look in found], schema=LOOK, orient="row"))


async def evidence_of_past(
    gamma: GammaClient, clob: ClobClient, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]
) -> list[dict[str, Any]]:
    """Looks at markets, as they could have been made by an instant: see `history.past_evidence`."""
    seen = await looks.by_id(gamma, market_ids)
    closed = [row for row in seen.rows if row.get("closed")]
    flags = await looks.winners(clob, [row["condition_id"] for row in closed if row.get("condition_id")])
    wait = max(one.dispute_window for one in rules.values())
    return past_evidence(closed, flags, until, wait=wait, grace=max(one.grace for one in rules.values()))


async def _held(
    gamma: GammaClient, clob: ClobClient, market_ids: Sequence[str], at: datetime, *, past: bool
) -> tuple[dict[str, Market], dict[PriceKey, Price], dict[str, Quotes]]:
    """Held markets outside of the universe: whether they can be sold, the last price of each, and quotes as of the past."""
    seen = await looks.by_id(gamma, market_ids)
    markets: dict[str, Market] = {}
    for row in seen.rows:
        market = market_of(row, at)
        status = (MarketStatus.ACTIVE if was_open(row, at) else MarketStatus.CLOSED) if past else market.status
        markets[market.market_id] = _as_of(market, status, past=past)
    tokens = [token for market in markets.values() for token in tokens_of(market)]
    prices = await looks.past_prices(clob, dict.fromkeys(tokens, (at - _LAST, at)))
    quotes: dict[str, Quotes] = {market_id: past_quotes(market, prices, at) for market_id, market in markets.items() if past}
    return markets, _last_prices(markets.values(), prices, at), quotes


def _as_of(market: Market, status: MarketStatus, *, past: bool) -> Market:
    return replace(market, status=status, prices=(None,) * len(market.outcomes), volume=None) if past else replace(market, status=status)


def _last_prices(markets: Iterable[Market], prices: Mapping[str, looks.Points], at: datetime) -> dict[PriceKey, Price]:
    found: dict[PriceKey, Price] = {}
    for market in markets:
        for place, token in enumerate(market.token_ids):
            points = prices.get(token) or []
            price = price_micros(points[-1][1]) if points else None
            if price is None:
                continue
            name = YES if market.binary else folded(market.outcomes[place])
            if market.binary and place != market.place(YES):
                continue
            source = Source.LIVE if as_of(points, at) and at - points[-1][0] <= FRESH else Source.PRIOR
            found[market.market_id, name] = Price(market.market_id, name, at, price, source, points[-1][0])
    return found


def _universe_prices(universe: Universe, at: datetime) -> dict[PriceKey, Price]:
    found: dict[PriceKey, Price] = {}
    for market in universe.markets:
        for side in (YES,) if market.binary else market.outcomes:
            price = market.price(side)
            if price is not None:
                name = side if market.binary else folded(side)
                found[market.market_id, name] = Price(market.market_id, name, at, price, Source.LIVE, at)
    return found


def quotes_of_universe(market: Market) -> Quotes:
    """The quotes of a reconstructed universe's market: the prices that it was frozen at."""
    return {place: Quote(price, source=SOURCE) for place, price in enumerate(market.prices) if price is not None}
