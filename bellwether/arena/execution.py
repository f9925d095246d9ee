"""Execution of a stored decision: each leg (bet or sale) becomes a trade or a refusal, without side effects.

Checks run in a fixed order, so that a leg with several faults is always refused for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from bellwether.arena import fills
from bellwether.arena.account import Account, Position, PositionStatus
from bellwether.arena.decision import LIMITS, Bet, Decision, LegRefused, Reason, Refusal, Sell
from bellwether.arena.facts import Trade, implied_confidence
from bellwether.arena.identity import DecisionKey
from bellwether.arena.market import Market, MarketStatus, Quote, Quotes, find_quote
from bellwether.arena.methodology import Methodology
from bellwether.arena.parsing import ALL, Limits
from bellwether.arena.units import divide_half_even, dollars
from bellwether.units import MicroDollars, MicroShares


@dataclass(frozen=True)
class MarketData:
    """Markets and quotes against which a decision is executed.

    markets: the universe by id. held: markets outside the universe with open positions, which can be sold but not bought. quotes: by market.
    at: time of the quotes.
    """

    markets: Mapping[str, Market]
    quotes: Mapping[str, Quotes]
    at: datetime
    held: Mapping[str, Market] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecutionResult:
    """Result of executing a decision: a trade or a refusal for each leg, and the account after the trades; account None if the agent is unknown."""

    trades: tuple[Trade, ...]
    refusals: tuple[Refusal, ...]
    account: Account | None


@dataclass
class _Run:
    methodology: Methodology
    key: DecisionKey
    data: MarketData
    account: Account
    base: MicroDollars
    remaining: dict[tuple[str, str], Quote] = field(default_factory=dict)
    trades: list[Trade] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def execute(
    decision: Decision,
    key: DecisionKey,
    account: Account | None,
    data: MarketData,
    methodology: Methodology,
    *,
    owners: Mapping[str, str] | None = None,
    base: MicroDollars | None = None,
) -> ExecutionResult:
    """Execute a decision on a copy of the agent's account. account: None if the agent is unknown; then every leg is refused.

    base: cash in micro-dollars stated in the prompt, which determines limits and confidences; default: the account's cash. owners: agents by
    position, which distinguishes positions of other agents from unknown ones. Legs are executed one after another, each on the account that the
    previous one left. If the methodology limits the decision as a whole, a bet that violates limits or cash refuses all bets. HOLD and INVALID
    execute nothing.
    """
    if account is None:
        refusals = tuple(
            Refusal(leg, Reason.AGENT_UNKNOWN, f"there is no agent {key.agent.agent_id}") for leg in range(1, decision.legs + 1)
        )
        return ExecutionResult((), refusals, None)
    run = _Run(methodology, key, data, account.copy(), account.cash if base is None else base)
    if decision.bets:
        _execute_bets(run, decision.bets)
        if methodology.limit == "decision" and (broken := [refusal for refusal in run.refusals if refusal.reason in LIMITS]):
            return ExecutionResult((), _refuse_all(run.refusals, broken[0], decision.legs), account)
    for leg, sell in enumerate(decision.sells, start=1):
        _execute_leg(run, leg, partial(_sell, run, leg, sell, owners or {}))
    return ExecutionResult(tuple(run.trades), tuple(run.refusals), run.account)


def _refuse_all(refusals: Sequence[Refusal], broken: Refusal, legs: int) -> tuple[Refusal, ...]:
    """Return a refusal for every leg of a decision, because one leg violated limits or cash. refusals: existing ones, which are kept. broken:
    that leg's refusal, named in the new ones. legs: number of legs.
    """
    refused = {refusal.leg: refusal for refusal in refusals}
    return tuple(
        refused.get(leg, Refusal(leg, Reason.BATCH, f"leg {broken.leg} was refused: {broken.reason}")) for leg in range(1, legs + 1)
    )


def _execute_bets(run: _Run, bets: Sequence[Bet]) -> None:
    try:
        _check_batch(run, bets)
    except LegRefused as refused:
        run.refusals.extend(Refusal(leg, refused.reason, refused.message) for leg in range(1, len(bets) + 1))
        return
    for leg, bet in enumerate(bets, start=1):
        _execute_leg(run, leg, partial(_buy, run, leg, bet))


def _require(condition: bool, reason: Reason, message: str) -> None:
    if not condition:
        raise LegRefused(reason, message)


def _execute_leg(run: _Run, leg: int, build_trade: Callable[[], Trade]) -> None:
    """Book the trade of a leg, or record its refusal. build_trade: returns the trade, or raises `LegRefused`."""
    try:
        trade = build_trade()
    except LegRefused as refused:
        run.refusals.append(Refusal(leg, refused.reason, refused.message))
    else:
        run.account.book(trade)
        run.trades.append(trade)


def _check_batch(run: _Run, bets: Sequence[Bet]) -> None:
    """Raise `LegRefused` if the agent is bankrupt, or if the methodology limits all bets together and their total is above limit or cash.
    Negative amounts count as 0.
    """
    _check_solvent(run)
    if len(bets) == 1 or run.methodology.limit != "decision":
        return
    limits = Limits.of(run.methodology, run.base)
    total = sum(max(bet.amount, 0) for bet in bets)
    stated = f"the bets add up to {dollars(total)}"
    _require(total <= limits.accepted, Reason.TOTAL_ABOVE_LIMIT, f"{stated}; all together may be {dollars(limits.most)}")
    cash = run.account.cash
    _require(total <= cash, Reason.TOTAL_ABOVE_CASH, f"{stated}; the cash is {dollars(cash)}")


def _check_solvent(run: _Run) -> None:
    # Uses the cash before the decision: an earlier leg of the same decision cannot bankrupt the agent.
    smallest = run.methodology.smallest_bet
    bankrupt = run.base < smallest and run.account.is_bankrupt(smallest)
    _require(not bankrupt, Reason.BANKRUPT, f"the cash of {dollars(run.base)} is below the smallest bet and no position is open")


def _buy(run: _Run, leg: int, bet: Bet) -> Trade:
    _check_solvent(run)
    market = _find_active_market(run.data.markets.get(bet.market_id), bet.market_id)
    limits, cash = Limits.of(run.methodology, run.base), run.account.cash
    stated = f"the amount is {dollars(bet.amount)}"
    _require(bet.amount > 0, Reason.NOT_POSITIVE, stated)
    _require(bet.amount <= limits.accepted, Reason.ABOVE_LIMIT, f"{stated}; {dollars(limits.most)} is the most")
    _require(bet.amount <= cash, Reason.ABOVE_CASH, f"{stated}; the cash is {dollars(cash)}")
    side = _find_side(market, bet.side)
    quote = _find_quote(run, market, side)
    position, trade_id = run.account.find_position(market.market_id, side), run.key.trade_id(leg)
    draft = _draft_trade(
        run,
        market,
        quote,
        trade_id=trade_id,
        side=side,
        action="BUY",
        position_id=position.position_id if position else trade_id,
        confidence=implied_confidence(bet.amount, run.base, run.methodology),
        probability=bet.probability,
    )
    with _named(market, side):
        trade, taken = fills.fill_buy(draft, run.methodology, market, quote, bet.amount)
    cost = f"{dollars(trade.amount)} and a fee of {dollars(trade.fee)}"
    _require(trade.amount + trade.fee <= cash, Reason.FEE_ABOVE_CASH, f"{cost} are more than the cash {dollars(cash)}")
    run.remaining[market.market_id, side] = quote.without(taken)
    return trade


def _sell(run: _Run, leg: int, sell: Sell, owners: Mapping[str, str]) -> Trade:
    position = _find_position(run, sell, owners)
    _require(0 < sell.percentage <= ALL, Reason.PERCENTAGE, f"{dollars(sell.percentage)} percent; above 0 and 100 at most can be sold")
    listed = run.data.markets.get(position.market_id) or run.data.held.get(position.market_id)
    market = _find_active_market(listed, position.market_id)
    shares = MicroShares(divide_half_even(position.shares * sell.percentage, ALL))
    _require(shares > 0, Reason.NO_SHARES, f"{dollars(sell.percentage)} percent of {dollars(position.shares)} shares are none")
    side = _find_side(market, position.side)
    quote = _find_quote(run, market, side)
    draft = _draft_trade(
        run, market, quote, trade_id=run.key.trade_id(leg), side=position.side, action="SELL", position_id=position.position_id
    )
    with _named(market, side):
        trade, taken = fills.fill_sell(draft, run.methodology, market, quote, shares, position=position.shares)
    run.remaining[market.market_id, side] = quote.without(taken)
    return trade


def _find_position(run: _Run, sell: Sell, owners: Mapping[str, str]) -> Position:
    position = run.account.positions.get(sell.position_id)
    if position is None:
        _require(sell.position_id in owners, Reason.POSITION_UNKNOWN, f"there is no position {sell.position_id!r:.80}")
        raise LegRefused(Reason.NOT_OWNER, f"position {sell.position_id} is not the agent's")
    _require(position.status is PositionStatus.OPEN, Reason.NOT_OPEN, f"position {sell.position_id} is {position.status}")
    return position


def _find_active_market(market: Market | None, market_id: str) -> Market:
    if market is None:
        raise LegRefused(Reason.MARKET_UNKNOWN, f"there is no market {market_id!r:.80} in the universe")
    _require(market.status is MarketStatus.ACTIVE, Reason.MARKET_NOT_ACTIVE, f"market {market_id} is {market.status}")
    return market


def _find_side(market: Market, text: str) -> str:
    side = market.side(text)
    if side is None:
        sides = "YES and NO" if market.binary else ", ".join(market.outcomes)[:200]
        raise LegRefused(Reason.SIDE, f"{text!r:.80} is no side of {market.market_id}; there are {sides}")
    return side


def _find_quote(run: _Run, market: Market, side: str) -> Quote:
    """Return the quote of a side, without the orders that earlier legs of the decision took."""
    quotes = run.data.quotes.get(market.market_id, {})
    return run.remaining.get((market.market_id, side)) or find_quote(market, side, quotes) or Quote(None)


@contextmanager
def _named(market: Market, side: str) -> Iterator[None]:
    """Add market and side to the message of a refusal."""
    try:
        yield
    except LegRefused as refused:
        raise LegRefused(refused.reason, f"{side} of {market.market_id}: {refused.message}") from None


def _draft_trade(run: _Run, market: Market, quote: Quote, **fields: Any) -> Trade:
    """Return a trade before it is filled. fields: those in which purchases and sales differ."""
    blank: dict[str, Any] = dict.fromkeys(("mid", "shares", "price", "amount", "fee"), 0)
    return Trade(
        agent_id=run.account.agent.agent_id,
        market_id=market.market_id,
        executed_at=run.data.at,
        base=run.base,
        bid=quote.bid,
        ask=quote.ask,
        quoted_at=quote.at,
        quote_source=quote.source,
        binary=market.binary,
        **blank,
        **fields,
    )
