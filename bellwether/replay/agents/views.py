"""Light views of markets, books, orders and series for an agent.

Prices are mills of the side they are named for, sizes lots, money micro-dollars, times ns UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bellwether.replay.agents import gateway
from bellwether.replay.agents.limits import OrderError
from bellwether.replay.engine import codes
from bellwether.replay.units import DOLLAR, NO, SECOND, SELL, YES
from bellwether.units import Lots, MicroDollars, Mills

SIDES = ("yes", "no")
ACTIONS = ("buy", "sell")
_RESTING = int(codes.Status.RESTING)
_STATUS = tuple(status.name.lower() for status in codes.Status)
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


class Observations(Protocol):
    """The reads of `AgentContext` that the views make."""

    tickers: tuple[str, ...]
    _version: int

    @property
    def now_ns(self) -> int: ...  # noqa: D102
    @property
    def _orders_used_up(self) -> bool: ...
    def _best(self) -> np.ndarray: ...
    def _best_sizes(self) -> np.ndarray: ...
    def _status(self) -> np.ndarray: ...
    def _best_list(self) -> list[list[Mills]]: ...
    def _held_list(self) -> list[list[Lots]]: ...
    def _status_list(self) -> list[int]: ...
    def _row(self, number: int) -> gateway.Row: ...


class Market:
    """One market as it is now; read again after the next step it says what is then. None where a side of the book is empty."""

    __slots__ = ("_ctx", "close_ns", "code", "ticker", "title")

    def __init__(self, ctx: Observations, code: int, ticker: str, title: str, close_ns: int | None) -> None:
        self._ctx, self.code, self.ticker, self.title, self.close_ns = ctx, code, ticker, title, close_ns

    @property
    def yes_bid(self) -> Mills | None:
        """Best bid for YES."""
        return self._ctx._best_list()[self.code][YES] or None

    @property
    def no_bid(self) -> Mills | None:
        """Best bid for NO."""
        return self._ctx._best_list()[self.code][NO] or None

    @property
    def yes_ask(self) -> Mills | None:
        """Best price at which YES can be bought: a dollar less the best bid for NO."""
        bid = self._ctx._best_list()[self.code][NO]
        # Any: a call of `Mills` would take as long as the rest.
        ask: Any = DOLLAR - bid
        return ask if bid else None

    @property
    def no_ask(self) -> Mills | None:
        """Best price at which NO can be bought."""
        bid = self._ctx._best_list()[self.code][YES]
        ask: Any = DOLLAR - bid
        return ask if bid else None

    @property
    def mid(self) -> float | None:
        """Middle of the best YES bid and ask; None unless there are both."""
        yes, no = self._ctx._best_list()[self.code]
        return (yes + DOLLAR - no) / 2 if yes and no else None

    @property
    def spread(self) -> Mills | None:
        """Best YES ask less best YES bid; None unless there are both."""
        yes, no = self._ctx._best_list()[self.code]
        spread: Any = DOLLAR - no - yes
        return spread if yes and no else None

    def _size(self, side: int) -> Lots:
        return self._ctx._best_sizes().item(self.code, side)

    @property
    def yes_bid_lots(self) -> Lots:
        """Size at the best bid for YES, which is the size offered at `no_ask`."""
        return self._size(YES)

    @property
    def no_bid_lots(self) -> Lots:
        """Size at the best bid for NO, which is the size offered at `yes_ask`."""
        return self._size(NO)

    @property
    def yes_position(self) -> Lots:
        """YES contracts held, lots."""
        return self._ctx._held_list()[self.code][YES]

    @property
    def no_position(self) -> Lots:
        """NO contracts held, lots."""
        return self._ctx._held_list()[self.code][NO]

    @property
    def is_active(self) -> bool:
        """Return whether orders are accepted now."""
        return not self._ctx._status_list()[self.code] & BLOCKING

    @property
    def status(self) -> str:
        """active, no_book, invalid, halted, closed or settled. Orders are accepted while it is active."""
        return status_text(self._ctx._status_list()[self.code])

    @property
    def seconds_to_close(self) -> float | None:
        """Until the market's close time, 0 after it; None when the episode does not say it."""
        return None if self.close_ns is None else max(0, self.close_ns - self._ctx.now_ns) / SECOND

    def __repr__(self) -> str:
        return f"Market({self.ticker!r}, yes_bid={self.yes_bid}, yes_ask={self.yes_ask}, {self.status})"


@dataclass(frozen=True, slots=True)
class Book:
    """The book of a market to a depth: (price, lots) pairs, best first. Asks are the other side's bids."""

    ticker: str
    yes_bids: tuple[tuple[Mills, Lots], ...]
    no_bids: tuple[tuple[Mills, Lots], ...]

    @property
    def yes_asks(self) -> tuple[tuple[Mills, Lots], ...]:
        """Asks of YES, cheapest first."""
        return _opposite(self.no_bids)

    @property
    def no_asks(self) -> tuple[tuple[Mills, Lots], ...]:
        """Asks of NO, cheapest first."""
        return _opposite(self.yes_bids)


def _opposite(bids: tuple[tuple[Mills, Lots], ...]) -> tuple[tuple[Mills, Lots], ...]:
    """Asks of one side, derived from the other side's bids."""
    asks: Any = tuple((DOLLAR - price, lots) for price, lots in bids)
    return asks


class Order:
    """Present state of a sent order. Accepted wherever an id is expected.

    One that the venue did not even record has the id -1: it is rejected, and of nothing.
    """

    __slots__ = ("_ctx", "_row", "_version", "id")

    def __init__(self, ctx: Observations, number: int) -> None:
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
    def price(self) -> Mills | None:
        """Limit on the side as sent; None for a market order."""
        return self._amount(gateway.PRICE) or None

    @property
    def lots(self) -> Lots:
        """Size asked for; an amendment changes it."""
        return self._amount(gateway.LOTS)

    @property
    def filled(self) -> Lots:
        """Lots filled so far."""
        return self._amount(gateway.FILLED)

    @property
    def remaining(self) -> Lots:
        """Lots not filled yet; 0 once it has ended."""
        remaining: Any = self.lots - self.filled if self.status in ("pending", "resting") else 0
        return remaining

    @property
    def status(self) -> str:
        """Pending (on its way), resting, filled, cancelled, rejected or expired."""
        return _STATUS[self._get(gateway.STATUS)] if self.id >= 0 else "rejected"

    @property
    def reason(self) -> str | None:
        """Why it was rejected or cancelled, in a word such as insufficient_cash; None otherwise."""
        return reason_text(self._reason)

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

    def __repr__(self) -> str:
        if self.id < 0:
            return f"Order(rejected: {self.reason})"
        text = f"Order({self.id}, {self.action} {self.lots} {self.side} {self.ticker!r} at {self.price or 'market'}: {self.status}"
        return f"{text}, {self.reason})" if self.reason else f"{text})"


class Quotes:
    """Best prices of all markets at once: int64[T], mills, in the order of `AgentContext.tickers`. A missing bid is 0, a missing ask 1000.

    Each array says how the market is when it is read, and stays as it is; all are read-only.
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Observations) -> None:
        self._ctx = ctx

    @property
    def bids(self) -> np.ndarray:
        """int64[T, 2]: best bids for YES and for NO."""
        return self._ctx._best()

    @property
    def yes_bid(self) -> np.ndarray:
        """Best bids for YES."""
        return self._ctx._best()[:, YES]

    @property
    def no_bid(self) -> np.ndarray:
        """Best bids for NO."""
        return self._ctx._best()[:, NO]

    @property
    def yes_ask(self) -> np.ndarray:
        """Best prices at which YES can be bought."""
        return DOLLAR - self.no_bid

    @property
    def no_ask(self) -> np.ndarray:
        """Best prices at which NO can be bought."""
        return DOLLAR - self.yes_bid

    @property
    def yes_bid_lots(self) -> np.ndarray:
        """Sizes at the best YES bids; 0 without one."""
        return self._ctx._best_sizes()[:, YES]

    @property
    def no_bid_lots(self) -> np.ndarray:
        """Sizes at the best NO bids; 0 without one."""
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


def status_text(bits: int) -> str:
    """The status of a market in a word, of the bits that the engine keeps; the most final one where several are set."""
    return next((text for bit, text in _MARKET_STATUS if bits & bit), "active")


def reason_text(reason: int) -> str | None:
    """A reason's code as a word; None for no reason."""
    return codes.Reason(reason).name.lower() if reason else None
