"""Accounts and positions: the state that the ledger's fold keeps, and how a trade changes it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bellwether.arena.facts import Agent, Result, Trade
from bellwether.arena.market import folded
from bellwether.arena.units import divided
from bellwether.units import MicroDollars, MicroShares, SharePrice

_NO_SHARES, _NOTHING = MicroShares(0), MicroDollars(0)


class PositionStatus(StrEnum):
    """CLOSED: sold to the last share. SETTLED: its market ended."""

    OPEN = "open"
    CLOSED = "closed"
    SETTLED = "settled"


class AgentStatus(StrEnum):
    """BANKRUPT: it can never bet again. WARNED: it cannot bet now, and has positions that may bring cash."""

    ACTIVE = "active"
    WARNED = "active, cannot bet"
    BANKRUPT = "bankrupt"


@dataclass(slots=True)
class Position:
    """A position: shares in micro-shares; cost of those it holds, and what it brought (sales, payout) and cost in all, in micro-dollars.

    A settled position keeps shares and cost; `paid` is what the settlement in force brought, `result` how it was settled, None of one that was sold before.
    won: whether its side won.
    """

    position_id: str
    agent_id: str
    market_id: str
    side: str
    opened_at: datetime
    binary: bool = True
    shares: MicroShares = _NO_SHARES
    cost: MicroDollars = _NOTHING
    status: PositionStatus = PositionStatus.OPEN
    ended_at: datetime | None = None
    sold: MicroDollars = _NOTHING
    realized: MicroDollars = _NOTHING
    paid: MicroDollars | None = None
    result: Result | None = None
    won: bool | None = None

    @property
    def average(self) -> SharePrice:
        """Micro-dollars per share that those it holds cost; 0 when it holds none."""
        return SharePrice(divided(self.cost * 1_000_000, self.shares) if self.shares else 0)


@dataclass(slots=True)
class Account:
    """An agent's cash in micro-dollars, its positions by id, and which of them are open by (market, side)."""

    agent: Agent
    cash: MicroDollars
    positions: dict[str, Position] = field(default_factory=dict)
    open: dict[tuple[str, str], Position] = field(default_factory=dict)
    fees: MicroDollars = _NOTHING
    taken_back: MicroDollars = _NOTHING

    @classmethod
    def of(cls, agent: Agent) -> Account:
        """The account with which an agent starts."""
        return cls(agent, agent.initial_cash)

    @property
    def invested(self) -> MicroDollars:
        """Micro-dollars that the open positions cost."""
        return MicroDollars(sum(position.cost for position in self.open.values()))

    @property
    def realized(self) -> MicroDollars:
        """Micro-dollars gained or lost by sales and settlements, without fees."""
        return MicroDollars(sum(position.realized for position in self.positions.values()))

    def status(self, least: MicroDollars) -> AgentStatus:
        """Return whether it can bet, the smallest bet being `least` micro-dollars."""
        if self.cash >= least:
            return AgentStatus.ACTIVE
        return AgentStatus.WARNED if self.open else AgentStatus.BANKRUPT

    def held(self, market_id: str, side: str) -> Position | None:
        """The open position on a side of a market, whatever the side's case."""
        return self.open.get((market_id, folded(side)))

    def copy(self) -> Account:
        """An account that can be tried on: changes of it are not changes of this one."""
        positions = {name: copy(position) for name, position in self.positions.items()}
        return Account(
            self.agent,
            self.cash,
            positions,
            {key: positions[position.position_id] for key, position in self.open.items()},
            self.fees,
            self.taken_back,
        )

    def problem(self, trade: Trade) -> str | None:
        """Why a trade cannot be booked on this account; None when it can."""
        if trade.shares <= 0 or trade.amount < 0 or trade.fee < 0:
            return f"shares {trade.shares}, amount {trade.amount}, fee {trade.fee}; shares are above 0, the others 0 or more"
        position = self.positions.get(trade.position_id)
        if position is not None:
            return _unfit(position, trade)
        if trade.action == "SELL":
            return f"position {trade.position_id} is none of the agent's"
        held = self.held(trade.market_id, trade.side)
        if held is not None:
            return f"{held.position_id} is open on {trade.side} of {trade.market_id} already"
        return None if trade.position_id == trade.trade_id else f"position {trade.position_id} does not exist"

    def book(self, trade: Trade) -> Position:
        """Book a trade of which `problem` is None; returns its position after it."""
        # Any, here and below: a fold of many trades adds up without a call of `MicroDollars` for each sum.
        account: Any = self
        account.fees += trade.fee
        if trade.action == "BUY":
            return self._buy(trade)
        return self._sell(trade)

    def _buy(self, trade: Trade) -> Position:
        position = self.positions.get(trade.position_id)
        if position is None:
            position = Position(trade.position_id, trade.agent_id, trade.market_id, trade.side, trade.executed_at, trade.binary)
            self.positions[trade.position_id] = position
            self.open[trade.market_id, folded(trade.side)] = position
        held: Any = position
        account: Any = self
        held.shares += trade.shares
        held.cost += trade.amount
        account.cash -= trade.amount + trade.fee
        return position

    def _sell(self, trade: Trade) -> Position:
        position = self.positions[trade.position_id]
        basis = divided(position.cost * trade.shares, position.shares)
        held: Any = position
        account: Any = self
        held.shares -= trade.shares
        held.cost -= basis
        held.sold += trade.amount
        held.realized += trade.amount - basis
        account.cash += trade.amount - trade.fee
        if not position.shares:
            position.status, position.ended_at = PositionStatus.CLOSED, trade.executed_at
            del self.open[position.market_id, folded(position.side)]
        return position


def _unfit(position: Position, trade: Trade) -> str | None:
    """Why a trade does not fit the position that it names; None when it does."""
    if position.status is not PositionStatus.OPEN:
        return f"position {position.position_id} is {position.status}"
    if position.market_id != trade.market_id or folded(position.side) != folded(trade.side):
        return f"position {position.position_id} is {position.side} of {position.market_id}"
    if trade.action == "SELL" and trade.shares > position.shares:
        return f"{trade.shares} micro-shares are more than the {position.shares} held"
    return None
