"""Codes of the engine: times in force, statuses and reasons; and the records of its tables."""

from __future__ import annotations

from collections import namedtuple
from enum import IntEnum
from typing import Any

import numpy as np

from bellwether.replay.units import BUY, NO, SELL, YES

__all__ = ["BUY", "NO", "SELL", "YES", "Queue", "Reason", "Role", "Status", "TickerStatus", "Tif"]

#: Incremented whenever results of the same run may change; stored in every result.
ENGINE_VERSION = "4"

#: Missing value of an int64 column, such as the end of a resting order.
NONE = -1
#: The largest size of an order, in lots.
MAX_ORDER_LOTS = 1_000_000_000


class Tif(IntEnum):
    """Time in force of an order. An order at price 0 is a market order and must be IOC or FOK."""

    IOC = 0
    GTC = 1
    POST_ONLY = 2
    FOK = 3
    GTD = 4


class Status(IntEnum):
    """State of an order. PENDING: in transit, because of latency."""

    PENDING = 0
    RESTING = 1
    FILLED = 2
    CANCELLED = 3
    REJECTED = 4
    EXPIRED = 5


class Role(IntEnum):
    """Role of the agent in a fill."""

    TAKER = 0
    MAKER = 1


class Queue(IntEnum):
    """Queue models: how a reduction of a level shortens the queue ahead of an order."""

    TRADE_ONLY = 0
    PROPORTIONAL = 1
    OPTIMISTIC = 2
    SAMPLED = 3


class TickerStatus(IntEnum):
    """Bits of a ticker's status; 0 means open with a book. SETTLED: positions have been paid out."""

    HALTED = 1
    CLOSED = 2
    SETTLED = 4
    NO_BOOK = 8
    INVALID = 16


class Reason(IntEnum):
    """Reason why an order was rejected, cancelled or not changed."""

    NONE = 0
    ORDER_LIMIT = 1
    BAD_TICKER = 2
    BAD_SIZE = 3
    BAD_PRICE = 4
    EXPIRED = 5
    SETTLED = 6
    CLOSED = 7
    HALTED = 8
    NO_BOOK = 9
    INVALID_BOOK = 10
    RESTING_LIMIT = 11
    WOULD_NOT_CROSS = 12
    WOULD_CROSS = 13
    INSUFFICIENT_CASH = 14
    FOK_UNFILLED = 15
    REMAINDER = 16
    SELF_TRADE = 17
    AGENT = 18
    NOT_RESTING = 19
    BAD_REQUEST = 20

    @property
    def text(self) -> str:
        """English clause that states the reason."""
        return _TEXTS[self]


_TEXTS = {
    Reason.NONE: "",
    Reason.ORDER_LIMIT: "the run's limit of orders is used up",
    Reason.BAD_TICKER: "there is no such ticker",
    Reason.BAD_SIZE: "the size is not above 0, too large, or no size that the rules allow",
    Reason.BAD_PRICE: "the price is off the market's grid, or a market order is neither IOC nor FOK",
    Reason.EXPIRED: "its time in force was over",
    Reason.SETTLED: "the market is settled",
    Reason.CLOSED: "the market is closed",
    Reason.HALTED: "trading is halted",
    Reason.NO_BOOK: "the market has had no book yet",
    Reason.INVALID_BOOK: "the book cannot be trusted after a gap",
    Reason.RESTING_LIMIT: "too many orders rest on this side of the market",
    Reason.WOULD_NOT_CROSS: "the order does not cross, and only takers may trade",
    Reason.WOULD_CROSS: "a post-only order would cross",
    Reason.INSUFFICIENT_CASH: "there is not enough cash",
    Reason.FOK_UNFILLED: "a fill-or-kill order cannot be filled whole",
    Reason.REMAINDER: "the rest could not be filled at once",
    Reason.SELF_TRADE: "the order would trade with an own one",
    Reason.AGENT: "the agent cancelled it",
    Reason.NOT_RESTING: "the order does not rest",
    Reason.BAD_REQUEST: "side, action or time in force is no known code",
}


def _constants(kind: type[IntEnum]) -> Any:
    """Return the members of an enumeration as a named tuple of np.int64, which compiled code can read."""
    constants: Any = namedtuple(kind.__name__, kind.__members__)  # type: ignore[misc]
    return constants(*map(np.int64, kind))


TIF, STATUS, ROLE, QUEUE, TICKER_STATUS, REASON = map(_constants, (Tif, Status, Role, Queue, TickerStatus, Reason))


def record(*groups: str) -> np.dtype:
    """Create a record type of int64 fields. groups: names of fields, separated by spaces."""
    return np.dtype([(name, np.int64) for group in groups for name in group.split()])


def _packed_record(**groups: str) -> np.dtype:
    """Create a record type of integer fields of several types. groups: names of fields by type, the widest type first."""
    return np.dtype([(name, kind) for kind, names in groups.items() for name in names.split()], align=True)


#: An order. As sent: market, side, action, price (0: market order), tif, count, expires, tag. filled, taken: lots filled, and of these as taker. sent,
#: arrived, queued, ended: ns, -1 for not yet. cost: price x lots of the fills, at prices of the side as sent. mid2: best bid + best ask
#: of that side at arrival, -1 without both. The rest is the engine's: the canonical bid (side, level, price), neighbours in the list of its side, lots
#: ahead, rounding accumulator, maker fee reserved, and amendments in transit.
ORDER = _packed_record(
    int64="sent arrived queued ended expires cost fees tag rounding reserved_fee",
    int32="price count filled taken mid2 next prev ahead amends",
    int16="market level bid_price",
    int8="side action tif status reason bid_side",
)
#: Fields of an order that its agent sees.
SHOWN = ("market", "side", "action", "price", "count", "filled", "status", "reason", "cost", "fees")
#: A fill. side, action as sent, price of that side; wait: ns in the queue, 0 for a taker.
FILL = record("order market side action price lots fee role ts wait")
#: State of an order after a change, and how it was sent.
UPDATE = record("time order status reason price count filled market side action")
#: Cash and equity at a time, ns.
SAMPLE = record("ts cash equity mid_equity")
#: A trade of the recorded market. price: of YES. taker_side: the side that the taker bought.
TRADE = record("ts market price lots taker_side")

#: Arguments of a command.
R_COLS = 7

#: Commands of the engine.
STEP, PLACE, CANCEL, AMEND, CANCEL_ALL, QUOTE, QUOTE_BATCH, VALUE, NEWS, COLLECT = range(10)
#: Prices of a quote that is cancelled, and of one that stays unchanged.
NO_QUOTE, AS_IT_IS = 0, -1
