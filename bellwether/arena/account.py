"""Accounts of agents (cash and positions), and how a trade changes an account."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bellwether.arena.facts import Agent, Result, Trade
from bellwether.arena.market import fold_case
from bellwether.arena.units import divide_half_even
from bellwether.units import MicroDollars, MicroShares, SharePrice

_NO_SHARES, _NOTHING = MicroShares(0), MicroDollars(0)


class PositionStatus(StrEnum):
    """Status of a position. CLOSED: all shares were sold. SETTLED: its market was settled."""

    OPEN = "open"
    CLOSED = "closed"
    SETTLED = "settled"


@dataclass(slots=True)
class Position:
    """Position of an agent on one side of a market. Shares are micro-shares, money is micro-dollars.

    mid: midpoint of the side when the position was opened, in micro-dollars per share. shares, cost: current holding; a settled position keeps
    its last one. sold: proceeds of sales. realized: profit of sales and settlement, without fees. paid: payout of the settlement in force.
    result: kind of the settlement; None before. won: True if the side won.
    """

    position_id: str
    agent_id: str
    market_id: str
    side: str
    opened_at: datetime
    mid: SharePrice
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
        """Average cost of the current shares in micro-dollars per share; 0 without shares."""
        return SharePrice(divide_half_even(self.cost * 1_000_000, self.shares) if self.shares else 0)


@dataclass(slots=True)
class Account:
    """Account of an agent: cash, fees paid, and payouts that corrected settlements took back (`taken_back`), all in micro-dollars. positions:
    all, by id. open: open positions by (market, case-folded side).
    """

    agent: Agent
    cash: MicroDollars
    positions: dict[str, Position] = field(default_factory=dict)
    open: dict[tuple[str, str], Position] = field(default_factory=dict)
    fees: MicroDollars = _NOTHING
    taken_back: MicroDollars = _NOTHING

    @classmethod
    def of(cls, agent: Agent) -> Account:
        """Create the account of an agent, with the agent's initial cash."""
        return cls(agent, agent.initial_cash)

    @property
    def invested(self) -> MicroDollars:
        """Cost of the open positions in micro-dollars."""
        return MicroDollars(sum(position.cost for position in self.open.values()))

    @property
    def realized(self) -> MicroDollars:
        """Profit of sales and settlements in micro-dollars, without fees."""
        return MicroDollars(sum(position.realized for position in self.positions.values()))

    def is_bankrupt(self, smallest_bet: MicroDollars) -> bool:
        """Return whether the cash is below the smallest bet and no position is open. smallest_bet: in micro-dollars."""
        return self.cash < smallest_bet and not self.open

    def find_position(self, market_id: str, side: str) -> Position | None:
        """Return the open position on a side of a market, or None. The side is case-insensitive."""
        return self.open.get((market_id, fold_case(side)))

    def copy(self) -> Account:
        """Return an independent copy of the account."""
        positions = {name: copy(position) for name, position in self.positions.items()}
        return Account(
            self.agent,
            self.cash,
            positions,
            {key: positions[position.position_id] for key, position in self.open.items()},
            self.fees,
            self.taken_back,
        )

    def explain_problem(self, trade: Trade) -> str | None:
        """Return why a trade cannot be booked on this account; None if the trade can be booked."""
        if trade.shares <= 0 or trade.amount < 0 or trade.fee < 0:
            return f"shares {trade.shares}, amount {trade.amount}, fee {trade.fee}; shares are above 0, the others 0 or more"
        position = self.positions.get(trade.position_id)
        if position is not None:
            return _explain_mismatch(position, trade)
        if trade.action == "SELL":
            return f"position {trade.position_id} does not belong to the agent"
        existing = self.find_position(trade.market_id, trade.side)
        if existing is not None:
            return f"{existing.position_id} is open on {trade.side} of {trade.market_id} already"
        return None if trade.position_id == trade.trade_id else f"position {trade.position_id} does not exist"

    def book(self, trade: Trade) -> Position:
        """Book a trade, and return the changed position. `explain_problem` must have returned None for the trade."""
        # Any, here and below, avoids a call of `MicroDollars` for each sum.
        account: Any = self
        account.fees += trade.fee
        if trade.action == "BUY":
            return self._buy(trade)
        return self._sell(trade)

    def _buy(self, trade: Trade) -> Position:
        position = self.positions.get(trade.position_id)
        if position is None:
            position = Position(trade.position_id, trade.agent_id, trade.market_id, trade.side, trade.executed_at, trade.mid, trade.binary)
            self.positions[trade.position_id] = position
            self.open[trade.market_id, fold_case(trade.side)] = position
        totals: Any = position
        account: Any = self
        totals.shares += trade.shares
        totals.cost += trade.amount
        account.cash -= trade.amount + trade.fee
        return position

    def _sell(self, trade: Trade) -> Position:
        position = self.positions[trade.position_id]
        basis = divide_half_even(position.cost * trade.shares, position.shares)
        totals: Any = position
        account: Any = self
        totals.shares -= trade.shares
        totals.cost -= basis
        totals.sold += trade.amount
        totals.realized += trade.amount - basis
        account.cash += trade.amount - trade.fee
        if not position.shares:
            position.status, position.ended_at = PositionStatus.CLOSED, trade.executed_at
            del self.open[position.market_id, fold_case(position.side)]
        return position


def _explain_mismatch(position: Position, trade: Trade) -> str | None:
    """Return why a trade cannot be booked on an existing position (not open, another side, too few shares); None if the trade can be booked."""
    if position.status is not PositionStatus.OPEN:
        return f"position {position.position_id} is {position.status}"
    if position.market_id != trade.market_id or fold_case(position.side) != fold_case(trade.side):
        return f"position {position.position_id} is {position.side} of {position.market_id}"
    if trade.action == "SELL" and trade.shares > position.shares:
        return f"{trade.shares} micro-shares are more than the {position.shares} held"
    return None
