"""Codes of the engine: times in force, statuses, reasons, and columns of its arrays."""

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

#: Columns of `orders`, the fields of `state.ORDER`.
O_TICKER, O_SIDE, O_ACTION, O_PRICE, O_TIF, O_COUNT, O_FILLED, O_TAKEN = range(8)
O_STATUS, O_REASON, O_SENT, O_ARRIVED, O_QUEUED, O_ENDED, O_COST, O_FEES, O_MID2, O_EXPIRES, O_TAG = range(8, 19)
O_COLS = 28

#: Columns of `fills`, the fields of `state.FILL`.
F_ORDER, F_TICKER, F_SIDE, F_ACTION, F_PRICE, F_LOTS, F_FEE, F_ROLE, F_TS, F_WAIT = range(10)
F_COLS = 10

#: Columns of `updates`, the fields of `state.UPDATE`.
U_TIME, U_ORDER, U_STATUS, U_REASON, U_PRICE, U_COUNT, U_FILLED = range(7)
U_COLS = 7

#: Columns of `samples`, micro-dollars but for TS.
S_TS, S_CASH, S_EQUITY, S_MID_EQUITY = range(4)
S_COLS = 4

#: Arguments of a command.
R_COLS = 7

#: Commands of the engine.
STEP, PLACE, CANCEL, AMEND, CANCEL_ALL, QUOTE, QUOTE_BATCH, VALUE, NEWS = range(9)
#: Prices of a quote that is cancelled, and of one that stays unchanged.
NO_QUOTE, AS_IT_IS = 0, -1
