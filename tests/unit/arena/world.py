"""A small world for the arena's tests: one agent, binary and named markets, quotes in dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.arena.account import Account
from bellwether.arena.decision import Action, Bet, Decision, Sell
from bellwether.arena.execution import ExecutionResult, MarketData, execute
from bellwether.arena.facts import Agent, Result, Settlement, Trade
from bellwether.arena.frames import to_frame
from bellwether.arena.identity import AgentKey, DecisionKey
from bellwether.arena.ledger import Ledger
from bellwether.arena.market import Market, MarketStatus, Quote
from bellwether.arena.methodology import Methodology, load_methodology
from bellwether.arena.units import micros, price_micros
from bellwether.tables import table
from bellwether.tables.arena import AGENTS
from bellwether.units import MicroDollars, SharePrice

V1 = load_methodology("v1")
#: v1, filled like v2; and v2, filled like v1.
REALISTIC, V2 = (
    rules.model_copy(update={name: getattr(fills, name) for name in ("fill", "fees", "share_step")} | {"name": name})
    for name, rules, fills in (("realistic", V1, load_methodology("v2")), ("v2", load_methodology("v2"), V1))
)
COHORT = date(2026, 3, 1)
NOW = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
KEY = DecisionKey(AgentKey(COHORT, "acme"), COHORT)
AGENT = Agent(KEY.agent.agent_id, str(COHORT), "acme", "v1", MicroDollars(micros("10000")))


def usd(value: str | int) -> Any:
    """Convert dollars or shares to millionths."""
    return micros(value)


def agent(cash: str = "10000", family: str = "acme", rules: str = "v1") -> Agent:
    return Agent(AgentKey(COHORT, family).agent_id, str(COHORT), family, rules, usd(cash))


def account(cash: str = "10000") -> Account:
    return Account.of(agent(cash))


def binary(market_id: str = "m", yes: str | None = "0.4", status: MarketStatus = MarketStatus.ACTIVE, **more: Any) -> Market:
    prices = (None, None) if yes is None else (usd(yes), usd(1) - usd(yes))
    return Market(market_id, "Will it?", ("Yes", "No"), prices, ("y", "n"), status=status, **more)


def named(prices: Mapping[str, str | None], market_id: str = "m", **more: Any) -> Market:
    return Market(
        market_id,
        "Who?",
        tuple(prices),
        tuple(price_micros(price) for price in prices.values()),
        tuple(f"t{n}" for n in range(len(prices))),
        **more,
    )


def mid(price: str | float | None) -> Quote:
    return Quote(price_micros(price))


def raw_mid(price: str) -> Quote:
    """Return a quote that no source would return, to test that the executor refuses it."""
    return Quote(SharePrice(int(Decimal(price) * 1_000_000)))


def bet(amount: str = "100", side: str = "YES", market_id: str = "m", probability: float | None = None) -> Bet:
    return Bet(market_id, side, usd(amount), probability)


def sale(percentage: str = "50", position_id: str = f"{KEY.decision_id}/1") -> Sell:
    return Sell(position_id, usd(percentage))


def bets(*legs: Bet) -> Decision:
    return Decision(Action.BET, bets=legs, reasoning="r")


def sales(*legs: Sell) -> Decision:
    return Decision(Action.SELL, sells=legs, reasoning="r")


def execute_decision(
    decision: Decision,
    holder: Account | None,
    *markets: Market,
    quotes: Mapping[str, Mapping[int, Quote]] | None = None,
    rules: Methodology = V1,
    week: date = COHORT,
    **more: Any,
) -> ExecutionResult:
    """Execute a decision. Markets without a quote trade at their own prices."""
    stated = {
        market.market_id: {place: Quote(price) for place, price in enumerate(market.prices) if price is not None} for market in markets
    }
    data = MarketData({market.market_id: market for market in markets}, {**stated, **(quotes or {})}, NOW)
    return execute(decision, DecisionKey(KEY.agent, week), holder, data, rules, **more)


def buy_trade(shares: str, cost: str, side: str = "YES", market_id: str = "m", leg: int = 1, **more: Any) -> Trade:
    """Return a BUY of these shares for these dollars that opens a position."""
    trade_id = KEY.trade_id(leg)
    values: dict[str, Any] = {
        "trade_id": trade_id,
        "agent_id": AGENT.agent_id,
        "market_id": market_id,
        "side": side,
        "action": "BUY",
        "position_id": trade_id,
        "shares": usd(shares),
        "price": usd(cost) * 1_000_000 // usd(shares),
        "amount": usd(cost),
        "fee": 0,
        "executed_at": NOW,
        "base": usd("10000"),
        "mid": usd(cost) * 1_000_000 // usd(shares),
        "confidence": 0.5,
    }
    return Trade(**{**values, **more})


def sell_trade(shares: str, proceeds: str, position: Trade, leg: int, **more: Any) -> Trade:
    """Return a SELL of part of the position that a trade opened."""
    trade_id = KEY.trade_id(leg)
    sale = position._replace(trade_id=trade_id, action="SELL", shares=usd(shares), amount=usd(proceeds), confidence=None)
    return sale._replace(price=usd(proceeds) * 1_000_000 // usd(shares), **more)


def account_after(*trades: Trade, cash: str = "10000") -> Account:
    """Return the account of an agent after these trades."""
    accounts = book(*trades, cash=cash)
    return accounts.accounts[AGENT.agent_id]


def book(*trades: Trade, cash: str = "10000") -> Ledger:
    ledger = Ledger()
    ledger.open_account(agent(cash))
    for trade in trades:
        ledger.trade(trade)
    assert not ledger.violations, ledger.violations
    return ledger


def won(
    winner: str, outcomes: tuple[str, ...] = ("Yes", "No"), market_id: str = "m", rules: str = "v1", at: datetime | None = None
) -> Settlement:
    payouts = {name.casefold(): SharePrice(1_000_000 * (name.casefold() == winner.casefold())) for name in outcomes}
    return Settlement(market_id, rules, at or NOW.replace(day=20), Result.WON, payouts, winner, "test")


def agents_frame(agents: Sequence[Agent]) -> pl.DataFrame:
    """Return rows of arena/agents of a cohort."""
    return to_frame(AGENTS, agents, week=COHORT, known_at=NOW, model="m", lineup="", reconstructed=False)


def row_of(name: str, **given: Any) -> dict[str, Any]:
    """Return a row of a table. Other columns are null, or the plainest value of their type."""
    nothing: dict[Any, Any] = {pl.String: "", pl.Boolean: False, pl.Float64: 0.0, pl.List: [], pl.Date: COHORT, pl.Datetime: NOW}
    row = {one.name: nothing.get(one.dtype.base_type(), 0) for one in table(name).columns if not one.nullable}
    return {**row, **given}
