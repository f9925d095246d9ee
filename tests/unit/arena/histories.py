"""Random histories: agents that bet, sell and make invalid decisions over weeks, in markets that resolve, are voided, split, cancelled or
corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from bellwether.arena.decision import Action, Bet, Decision, Sell
from bellwether.arena.execution import MarketData, execute
from bellwether.arena.facts import Agent, Result, Settlement, Trade
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey, week_start
from bellwether.arena.ledger import fold
from bellwether.arena.market import Level, Market, MarketStatus, Quote
from bellwether.arena.resolution import UNKNOWN, Observation, Ruling, derive_settlements
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FeeSchedule, Regime
from tests.unit.arena.world import COHORT, REALISTIC, V1, V2, usd

#: A short grace period, so that refunds occur within a history.
RULES = {rules.name: rules.model_copy(update={"grace_days": 6}) for rules in (V1, V2, REALISTIC)}
MARKETS = (
    Market("m1", "q", ("Yes", "No"), token_ids=("y", "n"), fees=FeeSchedule(Regime.BY_SHARES, Decimal("0.05"))),
    Market("m2", "q", ("No", "Yes"), token_ids=("n", "y")),
    Market("m3", "q", ("Alice", "Bob", "No"), token_ids=("a", "b", "c")),
)
SIDES = {"m1": ("YES", "no", "Yes"), "m2": ("YES", "NO"), "m3": ("Alice", "bob", "No"), "m9": ("YES",)}
DAY = timedelta(days=1)


@dataclass
class History:
    """Facts of a history. `legs`: number of trades that each finished BET requested."""

    agents: list[Agent] = field(default_factory=list)
    trades: list[Trade] = field(default_factory=list)
    looks: list[Observation] = field(default_factory=list)
    legs: dict[str, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    end: datetime = datetime(2026, 3, 1, tzinfo=UTC)

    def settlements(self) -> list[Settlement]:
        return [one for name in {agent.methodology for agent in self.agents} for one in derive_settlements(self.looks, RULES[name])]


def history(seed: int) -> History:
    rng = Random(seed)
    facts = History()
    for name in ("acme", "zeta")[: rng.choice((1, 2, 2))]:
        rules = rng.choice(list(RULES))
        facts.agents.append(Agent(AgentKey(COHORT, name).agent_id, str(COHORT), name, rules, usd(rng.choice((1000, 10_000)))))
    truth = {market.market_id: rng.choice(_rulings(market)) for market in MARKETS}
    for week in range(rng.randint(2, 3)):
        at = week_start(COHORT) + week * WEEK + timedelta(minutes=5)
        _decide(facts, rng, at)
        _watch(facts, rng, at, truth)
        facts.end = at + WEEK
    return facts


def _decide(facts: History, rng: Random, at: datetime) -> None:
    settled = facts.settlements()
    book = fold(facts.agents, facts.trades, settled)
    owners = {name: account.agent.agent_id for account in book.accounts.values() for name in account.positions}
    quotes = {market.market_id: _quotes(rng, market) for market in MARKETS}
    for agent in facts.agents:
        over = {one.market_id for one in settled if one.methodology == agent.methodology}
        markets = {
            market.market_id: market if market.market_id not in over else _resolved(market) for market in MARKETS if rng.random() < 0.95
        }
        data = MarketData(markets, quotes, at)
        key = DecisionKey(AgentKey(COHORT, agent.family), at.date())
        decision = _decision(rng, agent, list(owners))
        rules = RULES[agent.methodology]
        execution = execute(decision, key, book.accounts[agent.agent_id], data, rules, owners=owners)
        if rng.random() < 0.1:  # A crash between execution and storage repeats the execution from stored data.
            again = execute(decision, key, book.accounts[agent.agent_id], data, rules, owners=owners)
            assert (again.trades, again.refusals) == (execution.trades, execution.refusals)
        if decision.action is Action.BET:
            facts.legs[key.decision_id] = len(decision.bets) - len({refusal.leg for refusal in execution.refusals})
        facts.trades += execution.trades
        facts.refusals += [refusal.reason for refusal in execution.refusals]


def _resolved(market: Market) -> Market:
    return Market(market.market_id, market.question, market.outcomes, token_ids=market.token_ids, status=MarketStatus.RESOLVED)


def _quotes(rng: Random, market: Market) -> dict[int, Quote]:
    quotes = {}
    for place in range(len(market.outcomes)):
        middle = rng.choice((rng.randrange(1, 1_000_000), 500_000, 333_333, 1, 999_999, 10_000 * rng.randrange(1, 100)))
        bid, ask = SharePrice(max(middle - 10_000, 1)), SharePrice(min(middle + 10_000, 999_999))
        deep = (
            (
                Level(ask, MicroShares(rng.randrange(1, 10**9))),
                Level(SharePrice(min(ask + 7, 999_999)), MicroShares(rng.choice((10**8, 10**12)))),
            )
            if rng.random() < 0.5
            else ()
        )
        if rng.random() < 0.95:
            quotes[place] = Quote(SharePrice(middle), bid, ask, asks=deep)
    return quotes


def _decision(rng: Random, agent: Agent, positions: list[str]) -> Decision:
    kind = rng.random()
    if kind < 0.6:
        legs = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            market = "m9" if rng.random() < 0.02 else rng.choice(("m1", "m2", "m3"))
            side = rng.choice(SIDES[market]) if rng.random() < 0.9 else "YES"
            small = rng.randrange(agent.initial_cash // 100, agent.initial_cash // 13)
            amount = small if rng.random() < 0.9 else rng.choice((1, usd(50), agent.initial_cash // 4, agent.initial_cash))
            legs.append(Bet(market, side, MicroDollars(amount), rng.choice((None, rng.random()))))
        return Decision(Action.BET, bets=tuple(legs), reasoning="r")
    if kind < 0.9 and positions:
        shares = [rng.choice((100_000_000, 50_000_000, rng.randrange(1_000_000, 100_000_001))) for _ in range(rng.choice((1, 2)))]
        mine = [name for name in positions if name.startswith(agent.agent_id)] if rng.random() < 0.8 else positions
        return Decision(Action.SELL, sells=tuple(Sell(rng.choice(mine or positions), share) for share in shares), reasoning="r")
    return Decision(Action.HOLD, reasoning="r")


def _rulings(market: Market) -> list[Ruling]:
    names = [name.lower() for name in market.outcomes]
    wins = [
        Ruling(Result.WON, tuple((name, SharePrice(1_000_000 * (name == winner))) for name in names), winner.title()) for winner in names
    ]
    split = Ruling(Result.SPLIT, tuple((name, SharePrice(1_000_000 // len(names))) for name in names))
    scalar = Ruling(
        Result.SPLIT, tuple((name, SharePrice(300_000 if place else 700_000 // (len(names) - 1))) for place, name in enumerate(names))
    )
    return [*wins, *wins, split, scalar, UNKNOWN, Ruling(Result.CANCELLED)]


def _watch(facts: History, rng: Random, at: datetime, truth: dict[str, Ruling]) -> None:
    for market in MARKETS:
        if rng.random() < 0.5:
            continue
        for _ in range(rng.choice((1, 2, 3))):
            if rng.random() < 0.15:
                truth[market.market_id] = rng.choice(_rulings(market))
            ruling = truth[market.market_id] if rng.random() < 0.8 else rng.choice((None, UNKNOWN))
            observed_at = at + timedelta(hours=rng.randrange(1, 160))
            final = rng.choice((None, observed_at - 3 * timedelta(hours=1), observed_at))
            operator = ruling is not None and ruling.result is Result.CANCELLED
            facts.looks.append(Observation(market.market_id, observed_at, ruling, "rule", final, by_operator=operator))
