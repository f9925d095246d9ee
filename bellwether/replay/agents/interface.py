"""Interface between agents and the simulator, defined once for this process, isolated processes and compiled code.

`Simulator` lists every observation and request with its units. `SimulatorProxy` exposes them to an agent in this process,
`isolation.wire_protocol` derives its messages from them, and the compiled functions of `engine.kernel` have the same names and arguments.
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


#: Maximum length of an order's tag, characters.
LONGEST_TAG = 64


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Shape and dtype of an array. columns: number of columns; None for an array of one dimension."""

    columns: int | None = None
    dtype: type = np.int64


#: Columns of requests, trades and fills; all int64.
REQUEST_COLUMNS = ("ticker", "side", "action", "price", "lots", "tif", "expires")
TRADE_COLUMNS = ("time_ns", "ticker", "yes_price", "lots", "taker")
FILL_COLUMNS = ("order", "ticker", "side", "action", "price", "lots", "fee", "role", "time_ns")
#: Maximum rows returned by one call of `trades` or `fills`.
MOST_ROWS = 100_000
#: Maximum pending timers.
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
#: Order as a tuple of the gateway's `ORDER_COLUMNS`.
Row = tuple[int, ...]


def _state(method: Method) -> Method:
    """Mark a method of `Simulator` as state: an isolated process receives the result at the start of each phase and after each change,
    without asking.
    """
    method.kind = "state"  # type: ignore[attr-defined]
    return method


def _change(method: Method) -> Method:
    """Mark a method of `Simulator` as change: a request that can change the books or the account."""
    method.kind = "change"  # type: ignore[attr-defined]
    return method


class Simulator(Protocol):
    """Everything that an agent can observe and request in a run. Prices are in $0.0001, sizes in lots of 0.01 contract, money in
    micro-dollars, times in ns UTC.

    ticker: number of the market. side: YES 0, NO 1. action: BUY 0, SELL 1. Arguments are integers, strings or int64 arrays; results are integers or
    copies. A result of None means that the call had no effect: it exceeded the budget or its arguments are unknown.
    """

    # Without cost.

    @_state
    def now(self) -> int:
        """Return the time of the decision, ns UTC."""
        ...

    @_state
    def status(self) -> Vector:
        """Return the status of each market as bits of `codes.TickerStatus`, int64[T]."""
        ...

    @_state
    def sent(self) -> int:
        """Return the number of orders that the agent has sent."""
        ...

    @_state
    def cash(self) -> MicroDollars:
        """Return the cash, micro-dollars."""
        ...

    @_state
    def available(self) -> MicroDollars:
        """Return the cash that is not reserved by resting orders, micro-dollars."""
        ...

    @_state
    def bids(self) -> BySide:
        """Return the best bids for YES and NO, int64[T, 2], $0.0001; 0 without a bid."""
        ...

    @_state
    def positions(self) -> BySide:
        """Return the positions in YES and NO, int64[T, 2], lots."""
        ...

    def equity(self) -> MicroDollars:
        """Return cash plus the value of all positions at their present sale prices, micro-dollars."""
        ...

    def sizes(self) -> BySide:
        """Return the sizes at the best bids for YES and NO, int64[T, 2], lots; 0 without a bid."""
        ...

    def order(self, order: int) -> Row | None:
        """Return the values of the columns `ORDER_COLUMNS` for the order with this number; None for an unknown number."""
        ...

    # At a cost of one call each.

    def book(self, ticker: int, depth: int) -> BookSides | None:
        """Return the bids for YES and for NO, best first. depth: maximum levels per side; -1 for all levels that the episode shows."""
        ...

    def resting(self, ticker: int) -> list[int] | None:
        """Return the numbers of the resting orders of one market (-1: all markets), in price-time priority."""
        ...

    def are_resting(self, orders: Vector) -> Flags | None:
        """Return for each order whether it is resting, bool[n]; False for unknown numbers."""
        ...

    def points(self, series: int, after: int) -> BySide | None:
        """Return the points of an exogenous series that are known now, from index `after` on, int64[n, 2]: time (ns UTC) and value (bits of
        a float64). series: number of the series.
        """
        ...

    def trades(self, ticker: int, after: int) -> Trades | None:
        """Return the recorded trades of one market (-1: all markets) since the previous decision: at most `MOST_ROWS` rows, from row `after` on."""
        ...

    def fills(self, ticker: int, whole: int, after: int) -> Fills | None:
        """Return the agent's fills since the previous decision, or of the whole run if `whole` is 1. ticker, after: as in `trades`."""
        ...

    def ledger(self, ticker: int) -> list[list[int]] | None:
        """Return a row for one market (-1: a row for every market) with lots of YES and NO, their costs, realised P&L, fees and unrealised P&L."""
        ...

    def at(self, time: int) -> int | None:
        """Set a timer that calls `on_timer` at `time`, ns UTC. Returns `TIMER_SET`, `TIMER_PAST`, `TIMER_WITHOUT_CALLBACK`, or
        `TIMERS_USED_UP` if `MOST_TIMERS` are pending.
        """
        ...

    @_change
    def place(  # noqa: PLR0917
        self, ticker: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int, expires: int, tag: Tag
    ) -> int | None:
        """Send an order, and return the order's number; -1 if the venue does not record the order. price: 0 for a market order. tif: time
        in force. tag: the agent's label for the order.
        """
        ...

    @_change
    def place_many(self, requests: Requests, tag: Tag) -> Vector | None:
        """Send orders at a cost of one call each, and return their numbers; -1 for an order that the venue does not record."""
        ...

    @_change
    def cancel(self, order: int) -> int | None:
        """Cancel an order. Returns 1 if it was resting, else 0."""
        ...

    @_change
    def cancel_many(self, orders: Vector) -> Flags | None:
        """Cancel orders at a cost of one call each. Returns for each whether it was resting, bool[n]."""
        ...

    @_change
    def cancel_all(self, ticker: int) -> int | None:
        """Cancel the resting orders of one market (-1: all markets), and return their number."""
        ...

    @_change
    def amend(self, order: int, price: CentiCents, lots: Lots) -> int | None:
        """Change the price and the remaining size of an order. Returns 0, or the code of the reason for which the change was refused."""
        ...

    @_change
    def quote(  # noqa: PLR0917
        self, ticker: int, yes_price: CentiCents, no_price: CentiCents, lots: Lots, calls: int, tag: Tag
    ) -> tuple[int, int, int] | None:
        """Keep a post-only bid for YES and one for NO in a market. A price of 0 cancels the bid of that side, -1 leaves it unchanged. Each
        order placed or cancelled costs one call. calls: maximum number of calls. Returns the remaining calls (-1 if they did not suffice)
        and the numbers of the quotes for YES and NO (-1 without one).
        """
        ...

    @_change
    def quote_many(self, prices: BySide, lots: Lots, calls: int, tag: Tag) -> tuple[int, list[int]] | None:
        """Keep a post-only bid for YES and one for NO in every market, as `quote` does. prices: by market and side. Returns the remaining
        calls, and the order numbers by market and side.
        """
        ...


@dataclass(frozen=True, slots=True)
class MethodSignature:
    """Signature of a method of `Simulator`. kind: state or change, as marked above; empty for other methods."""

    arguments: tuple[Any, ...]
    result: Any
    kind: str

    @classmethod
    def of(cls, method: Any) -> MethodSignature:
        """Build the signature of a method from its annotations."""
        hints = get_type_hints(method, include_extras=True)
        result = hints.pop("return")
        return cls(tuple(hints.values()), result, getattr(method, "kind", ""))

    @property
    def shape(self) -> ArrayShape | None:
        """Shape of the array that the method returns; None if the method returns no array."""
        arrays = (part for part in (self.result, *get_args(self.result)) if get_origin(part) is Annotated)
        return next((get_args(part)[1] for part in arrays), None)


#: Methods of `Simulator` by name, in their order.
CALLS = {name: MethodSignature.of(method) for name, method in vars(Simulator).items() if callable(method) and name[0] != "_"}
STATE = tuple(name for name, call in CALLS.items() if call.kind == "state")


def hide_function(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a function so that an agent cannot reach the function through attributes of the wrapper.

    The closure of a Python wrapper can be read. `lru_cache(maxsize=0)` returns a C object, which has no reference to the function after
    `__wrapped__` is removed.
    """
    wrapper: Any = lru_cache(maxsize=0)(function)
    vars(wrapper).clear()
    return wrapper


class SimulatorProxy:
    """Proxy that gives an agent in this process the methods of `Simulator`, and `conditions`, but no way to the simulator itself; see
    `hide_function`.
    """

    __slots__ = (*CALLS, "conditions")

    def __init__(self, simulator: Any) -> None:
        for name in self.__slots__:
            setattr(self, name, hide_function(getattr(simulator, name)))
