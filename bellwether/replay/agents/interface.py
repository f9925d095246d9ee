"""Interface between agents and the simulator, defined once for this process, for isolated processes and for compiled code.

`Simulator` lists every observation and request with its units. `SimulatorProxy` exposes them to an agent of this process, `isolation.wire_protocol` derives its messages
from them, and the compiled functions of `engine.kernel` have the same names and arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from bellwether.units import CentiCents, Lots, MicroDollars

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])


#: Longest tag of an order, characters.
LONGEST_TAG = 64


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Columns of an array, None for one dimension, and the type of its values."""

    columns: int | None = None
    dtype: type = np.int64


#: Columns of requests, trades and fills, int64.
REQUEST_COLUMNS = ("ticker", "side", "action", "price", "lots", "tif", "expires")
TRADE_COLUMNS = ("time_ns", "ticker", "yes_price", "lots", "taker")
FILL_COLUMNS = ("order", "ticker", "side", "action", "price", "lots", "fee", "role", "time_ns")
#: Rows of one call that returns trades or fills, at most.
MOST_ROWS = 100_000
#: Timers that may be set at once.
MOST_TIMERS = 10_000
#: Results of `Simulator.at`.
TIMER_SET, TIMER_PAST, TIMER_WITHOUT_CALLBACK, TIMERS_USED_UP = range(4)

Tag = Annotated[str, LONGEST_TAG]
Vector = Annotated[np.ndarray, ArrayShape()]
Flags = Annotated[np.ndarray, ArrayShape(None, bool)]
BySide = Annotated[np.ndarray, ArrayShape(2)]
Requests = Annotated[np.ndarray, ArrayShape(len(REQUEST_COLUMNS))]
Trades = Annotated[np.ndarray, ArrayShape(len(TRADE_COLUMNS))]
Fills = Annotated[np.ndarray, ArrayShape(len(FILL_COLUMNS))]
#: Price and lots per level, best first, of the bids for YES and of those for NO.
BookSides = tuple[tuple[tuple[CentiCents, Lots], ...], ...]
#: An order by `ORDER_COLUMNS` of the gateway.
Row = tuple[int, ...]


def _state(method: Method) -> Method:
    """Mark an observation that an isolated process receives with every message."""
    method.kind = "state"  # type: ignore[attr-defined]
    return method


def _change(method: Method) -> Method:
    """Mark a request that can change books and account."""
    method.kind = "change"  # type: ignore[attr-defined]
    return method


class Simulator(Protocol):
    """Observations and requests of one run. Prices are $0.0001, sizes lots (0.01 contract), money micro-dollars, times ns UTC.

    ticker: the market's number. side: YES 0, NO 1. action: BUY 0, SELL 1. Everything passed in is an integer, a text or an int64 array, everything
    returned an integer or a copy. A call that returns None had no effect: it was beyond the budget, or its arguments name nothing.
    """

    # Free.

    @_state
    def now(self) -> int:
        """Time of the decision, ns."""
        ...

    @_state
    def status(self) -> Vector:
        """int64[T]: bits of `codes.TickerStatus` by market."""
        ...

    @_state
    def sent(self) -> int:
        """Number of orders sent so far."""
        ...

    @_state
    def cash(self) -> MicroDollars:
        """Cash, micro-dollars."""
        ...

    @_state
    def available(self) -> MicroDollars:
        """Cash that no resting order reserves, micro-dollars."""
        ...

    @_state
    def bids(self) -> BySide:
        """int64[T, 2]: best bids for YES and NO, $0.0001; 0 for none."""
        ...

    @_state
    def positions(self) -> BySide:
        """int64[T, 2]: lots held of YES and NO."""
        ...

    def equity(self) -> MicroDollars:
        """Cash and positions at the prices at which they could be sold now, micro-dollars."""
        ...

    def sizes(self) -> BySide:
        """int64[T, 2]: lots at the best bids for YES and NO; 0 for none."""
        ...

    def order(self, order: int) -> Row | None:
        """State of an order; None for an unknown number."""
        ...

    # One call each.

    def book(self, ticker: int, depth: int) -> BookSides | None:
        """Bids for YES and for NO, best first. depth: levels per side, -1 for all that the episode shows."""
        ...

    def resting(self, ticker: int) -> list[int] | None:
        """Numbers of the orders in the book of one market, or of all for -1, in price-time priority."""
        ...

    def are_resting(self, orders: Vector) -> Flags | None:
        """bool[n]: orders that are in the book; False for unknown numbers."""
        ...

    def points(self, series: int, after: int) -> BySide | None:
        """int64[n, 2]: time, ns, and the bits of a float64, of the known points of a series from number `after` on."""
        ...

    def trades(self, ticker: int, after: int) -> Trades | None:
        """Trades since the previous decision, of one market or of all for -1, at most `MOST_ROWS` from row `after` on."""
        ...

    def fills(self, ticker: int, whole: int, after: int) -> Fills | None:
        """Own fills since the previous decision, or of the whole run; otherwise as `trades`."""
        ...

    def ledger(self, ticker: int) -> list[list[int]] | None:
        """Lots of YES and NO, their costs, realised P&L, fees and unrealised P&L, of one market or of each for -1."""
        ...

    def at(self, time: int) -> int | None:
        """Set a timer that calls `on_timer` at a time, ns; return one of `TIMER_SET`, `TIMER_PAST`, `TIMER_WITHOUT_CALLBACK`, `TIMERS_USED_UP`."""
        ...

    @_change
    def place(  # noqa: PLR0917
        self, ticker: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int, expires: int, tag: Tag
    ) -> int | None:
        """Send an order; its number, or -1 if the venue keeps no record of it. Price 0 is a market order. tag: text of the agent's own."""
        ...

    @_change
    def place_many(self, requests: Requests, tag: Tag) -> Vector | None:
        """Send orders, a call each; the numbers, as `place` returns them."""
        ...

    @_change
    def cancel(self, order: int) -> int | None:
        """Cancel an order; 1 if it rested, else 0."""
        ...

    @_change
    def cancel_many(self, orders: Vector) -> Flags | None:
        """Cancel orders, a call each; bool[n], as `cancel`."""
        ...

    @_change
    def cancel_all(self, ticker: int) -> int | None:
        """Cancel the orders of one market, or all for -1; their number."""
        ...

    @_change
    def amend(self, order: int, price: CentiCents, lots: Lots) -> int | None:
        """Change an order's price or remaining size: 0, or the code of the reason for the refusal."""
        ...

    @_change
    def quote(  # noqa: PLR0917
        self, ticker: int, yes_price: CentiCents, no_price: CentiCents, lots: Lots, calls: int, tag: Tag
    ) -> tuple[int, int, int] | None:
        """Keep a post-only bid per side with at most `calls`, a call per order sent or cancelled. A price of 0 cancels a quote, -1 leaves it.

        Returns the calls left, -1 if they did not suffice, and the numbers of the quotes for YES and NO, -1 for none.
        """
        ...

    @_change
    def quote_many(self, prices: BySide, lots: Lots, calls: int, tag: Tag) -> tuple[int, list[int]] | None:
        """`quote` for all markets: the calls left, and the numbers by market and side."""
        ...


@dataclass(frozen=True, slots=True)
class MethodSignature:
    """Signature of a method of `Simulator`: types of its arguments and of its result, and whether its result is sent with every message or changes."""

    arguments: tuple[Any, ...]
    result: Any
    kind: str

    @classmethod
    def of(cls, method: Any) -> MethodSignature:
        """Read the annotations of a method."""
        hints = get_type_hints(method, include_extras=True)
        result = hints.pop("return")
        return cls(tuple(hints.values()), result, getattr(method, "kind", ""))

    @property
    def shape(self) -> ArrayShape | None:
        """Shape of the array that is returned; None for another result."""
        arrays = (part for part in (self.result, *get_args(self.result)) if get_origin(part) is Annotated)
        return next((get_args(part)[1] for part in arrays), None)


#: Methods of `Simulator` by name, in their order.
CALLS = {name: MethodSignature.of(method) for name, method in vars(Simulator).items() if callable(method) and name[0] != "_"}
STATE = tuple(name for name, call in CALLS.items() if call.kind == "state")


def hide_function(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same function as a C object without an attribute that leads to it, and so to what it can reach.

    `lru_cache` that keeps nothing is such an object once `__wrapped__` is gone; the closure of a Python function can be read.
    """
    wrapper: Any = lru_cache(maxsize=0)(function)
    vars(wrapper).clear()
    return wrapper


class SimulatorProxy:
    """Calls of a simulator, hidden, and `conditions`, under which an agent of this process trades."""

    __slots__ = (*CALLS, "conditions")

    def __init__(self, simulator: Any) -> None:
        for name in self.__slots__:
            setattr(self, name, hide_function(getattr(simulator, name)))
