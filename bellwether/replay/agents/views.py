"""Live views of markets, books, orders and series for an agent.

Prices are $0.0001 of the side they are named for, sizes lots (0.01 contract), money micro-dollars, times ns UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bellwether.replay.agents import gateway
from bellwether.replay.agents.limits import OrderError
from bellwether.replay.agents.records import ACTIONS, REASONS, SIDES, STATUSES
from bellwether.replay.engine import codes
from bellwether.replay.units import NO, SECOND, SELL, YES
from bellwether.units import CentiCents, Lots, MicroDollars

_RESTING = int(codes.Status.RESTING)
_MARKET_STATUS = tuple(
    (int(bit), bit.name.lower())
    for bit in (
        codes.TickerStatus.SETTLED,
        codes.TickerStatus.CLOSED,
        codes.TickerStatus.HALTED,
        codes.TickerStatus.NO_BOOK,
        codes.TickerStatus.INVALID,
    )
)
#: Bits of a market's status under which it accepts no orders.
BLOCKING = sum(bit for bit, _ in _MARKET_STATUS)


class Market:
    """Present state of one market; prices are None where a side of the book is empty. close_ns: ns UTC, None where not stated."""

    __slots__ = ("_ctx", "close_ns", "code", "ticker", "title")

    def __init__(self, ctx: Any, code: int, ticker: str, title: str, close_ns: int | None) -> None:
        self._ctx, self.code, self.ticker, self.title, self.close_ns = ctx, code, ticker, title, close_ns

    @property
    def yes_bid(self) -> CentiCents | None:
        """Best bid for YES, $0.0001."""
        return self._ctx._best_list()[self.code][YES] or None

    @property
    def no_bid(self) -> CentiCents | None:
        """Best bid for NO, $0.0001."""
        return self._ctx._best_list()[self.code][NO] or None

    @property
    def yes_ask(self) -> CentiCents | None:
        """Best price at which YES can be bought, $0.0001: a dollar less the best bid for NO."""
        return self._ask(NO)

    @property
    def no_ask(self) -> CentiCents | None:
        """Best price at which NO can be bought, $0.0001."""
        return self._ask(YES)

    def _ask(self, other: int) -> Any:
        bid = self._ctx._best_list()[self.code][other]
        return self._ctx._dollar - bid if bid else None

    @property
    def mid(self) -> float | None:
        """Middle of the best YES bid and ask, $0.0001, possibly a half; None unless there are both."""
        yes, no = self._ctx._best_list()[self.code]
        return (yes + self._ctx._dollar - no) / 2 if yes and no else None

    @property
    def spread(self) -> CentiCents | None:
        """Best YES ask less best YES bid, $0.0001; None unless there are both."""
        yes, no = self._ctx._best_list()[self.code]
        spread: Any = self._ctx._dollar - no - yes
        return spread if yes and no else None

    @property
    def yes_bid_lots(self) -> Lots:
        """Size at the best bid for YES, offered at `no_ask`; 0.01 contract."""
        return self._ctx._best_sizes().item(self.code, YES)

    @property
    def no_bid_lots(self) -> Lots:
        """Size at the best bid for NO, offered at `yes_ask`; 0.01 contract."""
        return self._ctx._best_sizes().item(self.code, NO)

    @property
    def yes_position(self) -> Lots:
        """YES held, 0.01 contract."""
        return self._ctx._held_list()[self.code][YES]

    @property
    def no_position(self) -> Lots:
        """NO held, 0.01 contract."""
        return self._ctx._held_list()[self.code][NO]

    @property
    def is_active(self) -> bool:
        """Return whether orders are accepted now."""
        return not self._ctx._status_list()[self.code] & BLOCKING

    @property
    def status(self) -> str:
        """active, no_book, invalid, halted, closed or settled. Orders are accepted while it is active."""
        bits = self._ctx._status_list()[self.code]
        return next((text for bit, text in _MARKET_STATUS if bits & bit), "active")

    @property
    def seconds_to_close(self) -> float | None:
        """Seconds until the market's close time, 0 after it; None where it is not stated."""
        return None if self.close_ns is None else max(0, self.close_ns - self._ctx.now_ns) / SECOND

    def __repr__(self) -> str:
        return f"Market({self.ticker!r}, yes_bid={self.yes_bid}, yes_ask={self.yes_ask}, {self.status})"


Levels = tuple[tuple[CentiCents, Lots], ...]


@dataclass(frozen=True, slots=True)
class Book:
    """Book of a market to a depth: pairs of price ($0.0001) and size (0.01 contract), best first. Asks are the other side's bids."""

    ticker: str
    yes_bids: Levels
    no_bids: Levels
    yes_asks: Levels
    no_asks: Levels


class Order:
    """Present state of an order, accepted wherever an id is expected. An order that the venue did not even record is rejected and has the id -1."""

    __slots__ = ("_ctx", "_row", "_version", "id")

    def __init__(self, ctx: Any, number: int) -> None:
        self._ctx, self.id, self._version = ctx, number, -1

    def __index__(self) -> int:
        return self.id

    def _get(self, column: int) -> Any:
        if self.id < 0:
            raise OrderError("reading an order: the venue has no record of it; look at its status and reason first")
        if self._version != self._ctx._version:
            self._row, self._version = self._ctx._row(self.id), self._ctx._version
        return self._row[column]

    def _amount(self, column: int) -> Any:
        return self._get(column) if self.id >= 0 else 0

    @property
    def ticker(self) -> str:
        """The market."""
        return self._ctx.tickers[self._get(gateway.TICKER)]

    @property
    def side(self) -> str:
        """Yes or no, as sent."""
        return SIDES[self._get(gateway.SIDE)]

    @property
    def action(self) -> str:
        """Buy or sell."""
        return ACTIONS[self._get(gateway.ACTION)]

    @property
    def price(self) -> CentiCents | None:
        """Limit on the side as sent, $0.0001; None for a market order."""
        return self._amount(gateway.PRICE) or None

    @property
    def lots(self) -> Lots:
        """Size, 0.01 contract, after amendments."""
        return self._amount(gateway.LOTS)

    @property
    def filled(self) -> Lots:
        """Lots filled so far, 0.01 contract."""
        return self._amount(gateway.FILLED)

    @property
    def remaining(self) -> Lots:
        """Lots not filled yet, 0.01 contract; 0 once it has ended."""
        remaining: Any = self.lots - self.filled if self.status in ("pending", "resting") else 0
        return remaining

    @property
    def status(self) -> str:
        """Pending (on its way), resting, filled, cancelled, rejected or expired."""
        return STATUSES[self._get(gateway.STATUS)] if self.id >= 0 else "rejected"

    @property
    def reason(self) -> str | None:
        """Reason of a rejection or a cancel, such as insufficient_cash; None otherwise."""
        return REASONS[self._reason]

    @property
    def explanation(self) -> str:
        """The reason as a clause; empty without one."""
        return codes.Reason(self._reason).text

    @property
    def _reason(self) -> int:
        if self.id >= 0:
            return self._get(gateway.REASON)
        return codes.Reason.ORDER_LIMIT if self._ctx._orders_used_up else codes.Reason.NO_BOOK

    @property
    def is_resting(self) -> bool:
        """In the book's queue now."""
        return self.id >= 0 and self._get(gateway.STATUS) == _RESTING

    @property
    def cost(self) -> MicroDollars:
        """Cost of its fills so far without fees, micro-dollars; negative for sales."""
        cost = self._amount(gateway.COST)
        return -cost if cost and self._get(gateway.ACTION) == SELL else cost

    @property
    def fees(self) -> MicroDollars:
        """Fees of its fills so far, micro-dollars."""
        return self._amount(gateway.FEES)

    @property
    def tag(self) -> str:
        """Text that was given with it; empty without one."""
        return self._ctx._tags.get(self.id, "")

    def __repr__(self) -> str:
        if self.id < 0:
            return f"Order(rejected: {self.reason})"
        text = f"Order({self.id}, {self.action} {self.lots} {self.side} {self.ticker!r} at {self.price or 'market'}: {self.status}"
        return f"{text}, {self.reason})" if self.reason else f"{text})"


class Quotes:
    """Best prices of all markets as arrays, int64[T], $0.0001, in the order of `AgentContext.tickers`. A missing bid is 0, a missing ask a dollar.

    Each array is a read-only copy of the state when it is read.
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    @property
    def bids(self) -> np.ndarray:
        """int64[T, 2]: best bids for YES and for NO, $0.0001."""
        return self._ctx._best()

    @property
    def yes_bid(self) -> np.ndarray:
        """Best bids for YES, $0.0001."""
        return self._ctx._best()[:, YES]

    @property
    def no_bid(self) -> np.ndarray:
        """Best bids for NO, $0.0001."""
        return self._ctx._best()[:, NO]

    @property
    def yes_ask(self) -> np.ndarray:
        """Best prices at which YES can be bought, $0.0001."""
        return self._ctx._dollar - self.no_bid

    @property
    def no_ask(self) -> np.ndarray:
        """Best prices at which NO can be bought, $0.0001."""
        return self._ctx._dollar - self.yes_bid

    @property
    def yes_bid_lots(self) -> np.ndarray:
        """Sizes at the best YES bids, 0.01 contract; 0 without one."""
        return self._ctx._best_sizes()[:, YES]

    @property
    def no_bid_lots(self) -> np.ndarray:
        """Sizes at the best NO bids, 0.01 contract; 0 without one."""
        return self._ctx._best_sizes()[:, NO]

    @property
    def active(self) -> np.ndarray:
        """bool[T]: markets that accept orders."""
        return (self._ctx._status() & BLOCKING) == 0


class Series:
    """Published part of an exogenous series: ts int64, ns UTC, ascending; values float64. number: its place among the series."""

    __slots__ = ("_ts", "_values", "known", "number")

    def __init__(self, number: int) -> None:
        self.number, self.known = number, 0
        self._ts, self._values = np.zeros(16, np.int64), np.zeros(16)

    def extended(self, ts: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All points, after those that are new; read-only."""
        known = self.known + len(ts)
        if known > len(self._ts):
            self._ts, self._values = np.resize(self._ts, 2 * known), np.resize(self._values, 2 * known)
        self._ts[self.known : known], self._values[self.known : known] = ts, values
        self.known = known
        shown = self._ts[:known], self._values[:known]
        for array in shown:
            array.flags.writeable = False
        return shown
