"""What an agent looks at: markets, books, orders and series as light views that read the simulator and cannot change it.

Prices are mills of the side they are named for, sizes lots, money micro-dollars, times ns UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bellwether.replay.agents.limits import OrderError
from bellwether.replay.engine import codes
from bellwether.replay.units import DOLLAR, NO, SECOND, SELL, YES

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext
    from bellwether.replay.engine import Session

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


def sealed(array: np.ndarray) -> np.ndarray:
    """A view of the same memory that cannot be written to nor made writable again."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    flat = np.frombuffer(owner.reshape(-1).data.toreadonly(), owner.dtype)
    return np.ndarray(array.shape, array.dtype, flat, offset, array.strides)


class Market:
    """One market as it is now; read again after the next step it says what is then. None where a side of the book is empty."""

    __slots__ = ("_ctx", "close_ns", "code", "ticker", "title")

    def __init__(self, ctx: AgentContext, code: int, ticker: str, title: str, close_ns: int | None) -> None:
        self._ctx, self.code, self.ticker, self.title, self.close_ns = ctx, code, ticker, title, close_ns

    @property
    def yes_bid(self) -> int | None:
        """Best bid for YES."""
        return self._ctx._touch()[self.code][YES] or None

    @property
    def no_bid(self) -> int | None:
        """Best bid for NO."""
        return self._ctx._touch()[self.code][NO] or None

    @property
    def yes_ask(self) -> int | None:
        """Best price at which YES can be bought: a dollar less the best bid for NO."""
        bid = self._ctx._touch()[self.code][NO]
        return DOLLAR - bid if bid else None

    @property
    def no_ask(self) -> int | None:
        """Best price at which NO can be bought."""
        bid = self._ctx._touch()[self.code][YES]
        return DOLLAR - bid if bid else None

    @property
    def mid(self) -> float | None:
        """Middle of the best YES bid and ask; None unless there are both."""
        yes, no = self._ctx._touch()[self.code]
        return (yes + DOLLAR - no) / 2 if yes and no else None

    @property
    def spread(self) -> int | None:
        """Best YES ask less best YES bid; None unless there are both."""
        yes, no = self._ctx._touch()[self.code]
        return DOLLAR - no - yes if yes and no else None

    def _size(self, side: int) -> int:
        price = self._ctx._touch()[self.code][side]
        return int(self._ctx._book[self.code, side, price]) if price else 0

    @property
    def yes_bid_lots(self) -> int:
        """Size at the best bid for YES, which is the size offered at `no_ask`."""
        return self._size(YES)

    @property
    def no_bid_lots(self) -> int:
        """Size at the best bid for NO, which is the size offered at `yes_ask`."""
        return self._size(NO)

    @property
    def yes_position(self) -> int:
        """YES contracts held, lots."""
        return self._ctx._held()[self.code][YES]

    @property
    def no_position(self) -> int:
        """NO contracts held, lots."""
        return self._ctx._held()[self.code][NO]

    @property
    def is_active(self) -> bool:
        """Whether orders are accepted now."""
        return not self._ctx._states()[self.code] & BLOCKING

    @property
    def status(self) -> str:
        """active, no_book, invalid, halted, closed or settled. Orders are accepted while it is active."""
        return status_text(self._ctx._states()[self.code])

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
    yes_bids: tuple[tuple[int, int], ...]
    no_bids: tuple[tuple[int, int], ...]

    @property
    def yes_asks(self) -> tuple[tuple[int, int], ...]:
        """What YES can be bought at, cheapest first."""
        return tuple((DOLLAR - price, lots) for price, lots in self.no_bids)

    @property
    def no_asks(self) -> tuple[tuple[int, int], ...]:
        """What NO can be bought at, cheapest first."""
        return tuple((DOLLAR - price, lots) for price, lots in self.yes_bids)


def book_of(ticker: str, sizes: np.ndarray, depth: int | None) -> Book:
    """The book in `sizes`, int64[2, 1001], lots by side and price; depth: most levels of a side."""
    sides = []
    for side in (YES, NO):
        prices = np.flatnonzero(sizes[side])[::-1][:depth]
        sides.append(tuple(zip(prices.tolist(), sizes[side, prices].tolist(), strict=True)))
    return Book(ticker, sides[YES], sides[NO])


class Order:
    """An order that was sent, as it is now. It can stand wherever an id is asked for.

    One that the venue did not even record has the id -1: it is rejected, and of nothing.
    """

    __slots__ = ("_session", "_tickers", "id")

    def __init__(self, session: Session, tickers: tuple[str, ...], number: int) -> None:
        self._session, self._tickers, self.id = session, tickers, number

    def __index__(self) -> int:
        return self.id

    def _get(self, column: int) -> int:
        if self.id < 0:
            raise OrderError("reading an order: the venue has no record of it; look at its status and reason first")
        return int(self._session.orders[self.id, column])

    def _amount(self, column: int) -> int:
        return self._get(column) if self.id >= 0 else 0

    @property
    def ticker(self) -> str:
        """The market."""
        return self._tickers[self._get(codes.O_TICKER)]

    @property
    def side(self) -> str:
        """yes or no, as sent."""
        return SIDES[self._get(codes.O_SIDE)]

    @property
    def action(self) -> str:
        """buy or sell."""
        return ACTIONS[self._get(codes.O_ACTION)]

    @property
    def price(self) -> int | None:
        """Limit on the side as sent; None for a market order."""
        return self._amount(codes.O_PRICE) or None

    @property
    def lots(self) -> int:
        """Size asked for; an amendment changes it."""
        return self._amount(codes.O_COUNT)

    @property
    def filled(self) -> int:
        """Lots filled so far."""
        return self._amount(codes.O_FILLED)

    @property
    def remaining(self) -> int:
        """Lots not filled yet; 0 once it has ended."""
        return self.lots - self.filled if self.status in ("pending", "resting") else 0

    @property
    def status(self) -> str:
        """pending (on its way), resting, filled, cancelled, rejected or expired."""
        return _STATUS[self._get(codes.O_STATUS)] if self.id >= 0 else "rejected"

    @property
    def reason(self) -> str | None:
        """Why it was rejected or cancelled, in a word such as insufficient_cash; None otherwise."""
        return reason_text(self._reason)

    @property
    def explanation(self) -> str:
        """The same as a clause for people; empty where there is no reason."""
        return codes.Reason(self._reason).text

    @property
    def _reason(self) -> int:
        if self.id >= 0:
            return self._get(codes.O_REASON)
        used_up = len(self._session.orders) >= self._session.settings.max_orders
        return codes.Reason.ORDER_LIMIT if used_up else codes.Reason.NO_BOOK

    @property
    def is_resting(self) -> bool:
        """In the book's queue now."""
        return self.id >= 0 and self._get(codes.O_STATUS) == _RESTING

    @property
    def cost(self) -> int:
        """What its fills cost so far without fees, micro-dollars; negative where they brought money in."""
        cost = self._amount(codes.O_COST)
        return -cost if cost and self._get(codes.O_ACTION) == SELL else cost

    @property
    def fees(self) -> int:
        """Fees of its fills so far, micro-dollars."""
        return self._amount(codes.O_FEES)

    def __repr__(self) -> str:
        if self.id < 0:
            return f"Order(rejected: {self.reason})"
        text = f"Order({self.id}, {self.action} {self.lots} {self.side} {self.ticker!r} at {self.price or 'market'}: {self.status}"
        return f"{text}, {self.reason})" if self.reason else f"{text})"


class Quotes:
    """Best prices of all markets at once: int64[T], mills, in the order of `AgentContext.tickers`. A missing bid is 0, a missing ask 1000.

    yes_bid, no_bid: live: they change with the market; copy what is to be kept. bids: int64[T, 2], both beside each other.
    """

    __slots__ = ("_book", "_codes", "_status", "bids", "no_bid", "yes_bid")

    def __init__(self, best: np.ndarray, book: np.ndarray, status: np.ndarray) -> None:
        self.bids, self.yes_bid, self.no_bid = best, best[:, YES], best[:, NO]
        self._book, self._status, self._codes = book, status, np.arange(len(best))

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
        """Sizes at the best YES bids; 0 where there is none."""
        return self._book[self._codes, YES, self.yes_bid]

    @property
    def no_bid_lots(self) -> np.ndarray:
        """Sizes at the best NO bids; 0 where there is none."""
        return self._book[self._codes, NO, self.no_bid]

    @property
    def active(self) -> np.ndarray:
        """bool[T]: markets that accept orders."""
        return (self._status & BLOCKING) == 0


class Series:
    """An exogenous series of which only what has been published is shown.

    ts: int64, ns UTC, ascending. values: float64. What the agent gets are views of buffers into which later points have not been copied yet.
    """

    __slots__ = ("_all_ts", "_all_values", "_known", "_ts", "_values")

    def __init__(self, ts: np.ndarray, values: np.ndarray) -> None:
        self._all_ts, self._all_values, self._known = ts, values, 0
        self._ts, self._values = np.zeros_like(ts), np.full_like(values, np.nan)

    def until(self, now: int) -> tuple[np.ndarray, np.ndarray]:
        """(ts, values) of the points at or before `now`, read-only."""
        known = int(np.searchsorted(self._all_ts, now, side="right"))
        if known > self._known:
            fresh = slice(self._known, known)
            self._ts[fresh], self._values[fresh] = self._all_ts[fresh], self._all_values[fresh]
            self._known = known
        return sealed(self._ts)[:known], sealed(self._values)[:known]


def status_text(bits: int) -> str:
    """The status of a market in a word, of the bits that the engine keeps; the most final one where several are set."""
    return next((text for bit, text in _MARKET_STATUS if bits & bit), "active")


def reason_text(reason: int) -> str | None:
    """A reason's code as a word; None for no reason."""
    return codes.Reason(reason).name.lower() if reason else None
