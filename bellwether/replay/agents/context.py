"""Interface of an agent at a decision point: observations and orders.

A method costs one tool call (`place_many` and `cancel_many` one per order); attributes cost nothing. Prices are mills (45 * CENT), sizes lots
(10 * CONTRACT), money micro-dollars, times ns UTC; all integers.

The simulator is behind the calls of `gateway`: in this process hidden from attributes, or in another one. What is kept here are copies, so that
changing them changes nothing but what the agent itself sees.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from bellwether.replay.agents.arguments import (
    ACTIONS,
    EPOCH,
    REQUEST_COLUMNS,
    SIDES,
    TIFS,
    choice,
    ids_of,
    instant,
    integer,
    lots_of,
    price_of,
)
from bellwether.replay.agents.limits import BudgetError, OrderError, RunawayAgent
from bellwether.replay.agents.records import MOST_ROWS, EpisodeInfo, Fill, Position, Trade, fills_of, trades_of
from bellwether.replay.agents.views import Book, Market, Order, Quotes, Series, reason_text
from bellwether.replay.engine.codes import Tif
from bellwether.replay.units import BUY, DOLLAR, NO, SELL, YES
from bellwether.units import Lots, MicroDollars, Mills

if TYPE_CHECKING:
    from bellwether.replay.agents.gateway import Gateway, Row

#: Plain integers: an enumeration's member costs compiled code a microsecond.
_IOC, _GTC, _POST_ONLY, _GTD = (int(tif) for tif in (Tif.IOC, Tif.GTC, Tif.POST_ONLY, Tif.GTD))

Side = int | str
Action = int | str
TimeInForce = int | str

#: Calls beyond the budget of a step after which its agent is given up, whatever it catches.
_MOST_BEYOND = 1000
#: The price of a market order, and of no quote.
_NO_PRICE = Mills(0)


class AgentContext:
    """The market and the account as an agent may know them now, and the orders it may send.

    Positions, cash and equity are live: an order that fills changes them within the step. (Rules with frozen observations show cash, equity and
    resting orders as the step found them.) Raises `OrderError` for what is no order, `BudgetError` for a call too many; what the venue would
    refuse comes back as an order with status rejected and a reason.

    tickers: the markets; a ticker's place is its code. quotes: best prices of all markets as arrays. seed: 256 bits, stable per episode, agent and
    seed of the run.
    """

    __slots__ = (
        "_beyond",
        "_bids",
        "_code",
        "_door",
        "_held",
        "_held_rows",
        "_left",
        "_limit",
        "_markets",
        "_max_orders",
        "_now",
        "_random",
        "_series",
        "_sizes",
        "_states",
        "_states_list",
        "_step",
        "_touch",
        "_version",
        "info",
        "quotes",
        "seed",
        "tickers",
    )

    def __init__(
        self,
        door: Gateway,
        info: EpisodeInfo,
        *,
        seed: int = 0,
        calls_per_step: int = 100,
        max_orders: int = 1_000_000,
        series: Sequence[str] = (),
    ) -> None:
        self._door, self.info, self.tickers = door, info, info.tickers
        self.quotes = Quotes(self)
        self._code = {ticker: code for code, ticker in enumerate(self.tickers)}
        self._markets = tuple(Market(self, code, market.ticker, market.title, market.close_ns) for code, market in enumerate(info.markets))
        self.seed = seed
        self._random: random.Random | None = None
        self._limit, self._max_orders, self._version = calls_per_step, max_orders, 0
        self._bids: np.ndarray | None
        self._sizes: np.ndarray | None
        self._held: np.ndarray | None
        self._touch: list[list[Mills]] | None
        self._held_rows: list[list[Lots]] | None
        self._series = {name: Series(number) for number, name in enumerate(series)}
        self._begin(-1, 0)

    def _begin(self, step: int, calls: int) -> None:
        """A decision point was reached: what was read before is to be read again. The simulator counts the calls itself."""
        self._step, self._left, self._beyond = step, calls, 0
        self._now: int | None = None
        self._states: np.ndarray | None = None
        self._states_list: list[int] | None = None
        self._version += 1
        self._bids = self._touch = self._sizes = self._held = self._held_rows = None

    # Observations.

    @property
    def now_ns(self) -> int:
        """The time of this decision, ns UTC."""
        if self._now is None:
            self._now = self._door.now()
        return self._now

    @property
    def now(self) -> datetime:
        """The time of this decision, aware UTC, to the microsecond below."""
        return EPOCH + timedelta(microseconds=self.now_ns // 1000)

    @property
    def step(self) -> int:
        """Number of this decision, from 0."""
        return self._step

    @property
    def calls_left(self) -> int:
        """Tool calls left in this step."""
        return self._left

    @property
    def cash(self) -> MicroDollars:
        """Cash, micro-dollars."""
        return self._door.cash()

    @property
    def available(self) -> MicroDollars:
        """Cash less what resting orders reserve, micro-dollars: what a new order may cost."""
        return self._door.available()

    @property
    def equity(self) -> MicroDollars:
        """Cash and positions at the prices at which they could be sold now, micro-dollars."""
        return self._door.equity()

    @property
    def positions(self) -> np.ndarray:
        """int64[T, 2]: lots held of YES and NO when it is read; read-only."""
        if self._held is None:
            self._held = _fixed(self._door.positions())
        return self._held

    @property
    def random(self) -> random.Random:
        """A generator of random numbers, seeded with `seed`."""
        if self._random is None:
            self._random = random.Random(self.seed)
        return self._random

    def markets(self) -> tuple[Market, ...]:
        """All markets, in the order of `tickers`."""
        self._spend(1)
        return self._markets

    def market(self, ticker: str) -> Market:
        """One market."""
        self._spend(1)
        return self._markets[self._code_of(ticker)]

    def book(self, ticker: str, depth: int | None = None) -> Book:
        """The book of a market; depth: most levels of a side; all that the episode shows when left out."""
        self._spend(1)
        if depth is not None and integer(depth, "depth") < 0:
            raise OrderError(f"reading a book: depth is {depth}; it is 0 or more")
        sides = self._door.book(self._code_of(ticker), -1 if depth is None else integer(depth, "depth"))
        if sides is None:
            self._refuse(0)
        return Book(ticker, sides[YES], sides[NO])

    def resting(self, ticker: str | None = None) -> list[Order]:
        """Own orders in the book, of one market or of all, in price-time priority."""
        self._spend(1)
        numbers = self._door.resting(-1 if ticker is None else self._code_of(ticker))
        if numbers is None:
            self._refuse(0)
        return [Order(self, number) for number in numbers]

    def order(self, number: SupportsIndex) -> Order:
        """An order that was sent before, by its id."""
        self._spend(1)
        return Order(self, self._id_of(number))

    def is_resting(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """bool[n]: true for orders in the book's queue now; an id below 0 is invalid."""
        self._spend(1)
        numbers = ids_of(orders)
        if len(numbers) and 0 < self._door.sent() <= numbers.max():
            raise OrderError(f"there is no order {numbers.max()}; ids come from `place`")
        found = self._door.are_resting(numbers)
        if found is None:
            self._refuse(0)
        return found

    def exogenous(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(ts, values) of an exogenous series as far as it is known now: int64 ns UTC and float64, read-only."""
        self._spend(1)
        if name not in self._series:
            raise OrderError(f"reading an exogenous series: there is no {name!r:.60}; there are {', '.join(self._series) or 'none'}")
        series = self._series[name]
        fresh = self._door.points(series.number, series.known)
        if fresh is None:
            self._refuse(0)
        return series.extended(*fresh)

    def trades(self, ticker: str | None = None) -> list[Trade]:
        """Trades of one market or of all since the decision before this one (before the first: all so far), as far as they are known now, by time.

        Between decisions: since the last one. Costs one more call for every 100,000.
        """
        code = -1 if ticker is None else self._code_of(ticker)
        return trades_of(self._pages(lambda after: self._door.trades(code, after)), self.tickers)

    def fills(self, ticker: str | None = None, *, whole_run: bool = False) -> list[Fill]:
        """Own fills of one market or of all since the decision before this one began, or of the whole run, in the order of booking.

        Called first at each decision, it gives each fill once: those of orders that traded at once are among those of the next decision. Between
        decisions: since the last one began. Costs one more call for every 100,000.
        """
        code = -1 if ticker is None else self._code_of(ticker)
        return fills_of(self._pages(lambda after: self._door.fills(code, int(whole_run), after)), self.tickers)

    def position(self, ticker: str) -> Position:
        """Return the position in a market, its average cost, and its P&L."""
        return self._ledger(self._code_of(ticker))[0]

    def portfolio(self) -> list[Position]:
        """`position` of each market, in the order of `tickers`."""
        return self._ledger(-1)

    # Orders.

    def place(  # noqa: PLR0917
        self,
        ticker: str,
        side: Side,
        action: Action,
        price: int | None,
        lots: int,
        tif: TimeInForce | None = None,
        expires: int | datetime | None = None,
    ) -> Order:
        """Send an order and return it.

        side: YES or NO. action: BUY or SELL. price: limit on that side in mills; None for a market order. lots: size. tif: GTC when left out, IOC
        for a market order; IOC, FOK, POST_ONLY, or GTD with `expires`. With zero latency its status tells at once what happened.
        """
        code, side, action = self._code_of(ticker), choice(side, SIDES, "side"), choice(action, ACTIONS, "action")
        if price is None:
            limit, tif = _NO_PRICE, _IOC if tif is None else choice(tif, TIFS, "tif")
        else:
            limit, tif = price_of(price), _GTC if tif is None else choice(tif, TIFS, "tif")
        if (tif == _GTD) != (expires is not None):
            raise OrderError("placing an order: GTD, and no other, comes with the time at which it expires")
        size, until = lots_of(lots), instant(expires)
        self._spend(1)
        return self._place(code, side, action, limit, size, tif, until)

    def buy(self, ticker: str, side: Side, lots: int, price: int | None = None, tif: TimeInForce | None = None) -> Order:
        """Buy contracts of a side; at the market when there is no price."""
        return self.place(ticker, side, BUY, price, lots, tif)

    def sell(self, ticker: str, side: Side, lots: int, price: int | None = None, tif: TimeInForce | None = None) -> Order:
        """Sell contracts of a side; at the market when there is no price."""
        return self.place(ticker, side, SELL, price, lots, tif)

    def quote(self, ticker: str, bid: int | None, ask: int | None, lots: int) -> None:
        """Keep a bid for YES and an offer of YES in the book, both post-only; None for a side takes that quote away.

        A quote that rests at its price stays and keeps its place in the queue. The offer is sent as a bid for NO at a dollar less `ask`, which is
        the same. Costs a call for each order placed or cancelled.
        """
        code, size = self._code_of(ticker), lots_of(lots)
        yes_price = _NO_PRICE if bid is None else price_of(bid)
        no_price = _NO_PRICE if ask is None else Mills(DOLLAR - integer(ask, "ask"))
        self._quoted(self._door.quote(code, max(yes_price, _NO_PRICE), max(no_price, _NO_PRICE), size, self._left))
        for side, price in ((YES, yes_price), (NO, no_price)):
            if price < 0 or (side == NO and price == 0 and ask is not None):
                # Not a valid price: sent nevertheless, so that its row records the rejection.
                self._spend(1)
                self._place(code, side, BUY, price, size, _POST_ONLY, 0)

    def quote_many(self, prices: np.ndarray, lots: int) -> None:
        """`quote` for all markets in one go: int64[T, 2], the bids for YES and for NO to keep in the book, in mills.

        0 takes a quote away, -1 leaves it as it is. Costs a call for each order placed or cancelled.
        """
        shape = (len(self.tickers), 2)
        if not isinstance(prices, np.ndarray) or prices.dtype != np.int64 or prices.shape != shape:
            raise OrderError(f"quoting: found {_found(prices)}; prices are int64{list(shape)}: by market, for YES and NO")
        self._quoted(self._door.quote_many(prices, lots_of(lots), self._left))

    def place_many(self, requests: np.ndarray) -> np.ndarray:
        """Send many orders in one go: int64[n, 7], columns `REQUEST_COLUMNS`, codes as numbers; price 0 is a market order. Returns int64[n] ids."""
        width = len(REQUEST_COLUMNS)
        if not isinstance(requests, np.ndarray) or requests.dtype != np.int64 or requests.ndim != 2 or requests.shape[1] != width:
            raise OrderError(f"placing orders: found {_found(requests)}; requests are int64[n, 7]: {', '.join(REQUEST_COLUMNS)}")
        self._spend(len(requests))
        self._changed()
        numbers = self._door.place_many(np.ascontiguousarray(requests))
        if numbers is None:
            self._refuse(0)
        return numbers

    def cancel(self, order: SupportsIndex) -> bool:
        """Take an order out of the book; False when it was not in it any more. (With latency: when it cannot be in it on arrival.)."""
        self._spend(1)
        number = order.id if type(order) is Order else integer(order, "order")
        self._changed()
        done = self._door.cancel(number)
        if done is None:
            self._refuse(0)
        if not done:
            self._id_of(number)
        return done

    def cancel_many(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """Take several orders out of the book: bool[n], False for those that are not in it any more or never were."""
        numbers = ids_of(orders)
        self._spend(len(numbers))
        self._changed()
        done = self._door.cancel_many(numbers)
        if done is None:
            self._refuse(0)
        return done

    def cancel_all(self, ticker: str | None = None) -> int:
        """Take all own orders out of the book, of one market or of all; how many there were."""
        self._spend(1)
        code = -1 if ticker is None else self._code_of(ticker)
        self._changed()
        count = self._door.cancel_all(code)
        if count is None:
            self._refuse(0)
        return count

    def amend(self, order: SupportsIndex, price: int, lots: int) -> str | None:
        """Change price or remaining size of a resting order; None when done, else the reason why not. Only a smaller size keeps its queue place."""
        self._spend(1)
        number = self._id_of(order)
        self._changed()
        reason = self._door.amend(number, price_of(price), lots_of(lots))
        if reason is None:
            self._refuse(0)
        return reason_text(reason)

    # Inside.

    def _pages(self, page: Callable[[int], np.ndarray | None]) -> list[list[int]]:
        """All rows of what is read in pages, a call each."""
        rows: list[list[int]] = []
        while True:
            self._spend(1)
            found = page(len(rows))
            if found is None:
                self._refuse(0)
            rows += found.tolist()
            if len(found) < MOST_ROWS:
                return rows

    def _ledger(self, code: int) -> list[Position]:
        self._spend(1)
        rows = self._door.ledger(code)
        if rows is None:
            self._refuse(0)
        tickers = self.tickers if code < 0 else (self.tickers[code],)
        return [Position(ticker, *row) for ticker, row in zip(tickers, rows, strict=True)]

    def _spend(self, calls: int) -> None:
        self._left -= calls
        if self._left < 0:
            self._refuse(calls)

    def _refuse(self, calls: int) -> NoReturn:
        self._left += calls
        self._beyond += 1
        if self._beyond > _MOST_BEYOND:
            raise RunawayAgent(f"a decision made more than {_MOST_BEYOND} calls beyond the {self._limit} that it may make")
        raise BudgetError(
            f"a decision may make {self._limit} calls; `start` may send no order, and `end` may make no call; this one made more. "
            "Use attributes, `markets()` or `place_many`, or raise calls_per_step"
        )

    def _place(self, code: int, side: int, action: int, price: Mills, lots: Lots, tif: int, until: int) -> Order:  # noqa: PLR0917
        self._changed()
        number = self._door.place(code, side, action, price, lots, tif, until)
        if number is None:
            self._refuse(0)
        return Order(self, number)

    def _quoted(self, left: int | None) -> None:
        """Quotes were sent: what is left of the calls, -1 where they did not suffice."""
        if left == self._left:
            # The resting quote is already the requested one.
            return
        self._changed()
        self._left = 0 if left is None else max(left, 0)
        if left is None or left < 0:
            self._refuse(0)

    def _changed(self) -> None:
        """Orders were sent or taken back, or time has passed: what was read of books and account is to be read again."""
        self._version += 1
        self._bids = self._touch = self._sizes = self._held = self._held_rows = None

    def _best(self) -> np.ndarray:
        if self._bids is None:
            self._bids = _fixed(self._door.bids())
        return self._bids

    def _best_sizes(self) -> np.ndarray:
        if self._sizes is None:
            self._sizes = _fixed(self._door.sizes())
        return self._sizes

    def _status(self) -> np.ndarray:
        if self._states is None:
            self._states = _fixed(self._door.statuses())
        return self._states

    def _best_list(self) -> list[list[Mills]]:
        if self._touch is None:
            self._touch = self._door.bid_rows()
        return self._touch

    def _held_list(self) -> list[list[Lots]]:
        if self._held_rows is None:
            self._held_rows = self._door.position_rows()
        return self._held_rows

    def _status_list(self) -> list[int]:
        if self._states_list is None:
            self._states_list = self._door.status_list()
        return self._states_list

    def _code_of(self, ticker: str) -> int:
        try:
            return self._code[ticker]
        except (KeyError, TypeError):
            raise OrderError(f"there is no market {ticker!r:.60}; there are {', '.join(self.tickers[:10])}") from None

    def _id_of(self, order: SupportsIndex) -> int:
        number = order.id if isinstance(order, Order) else integer(order, "order")
        if not -1 <= number < self._door.sent():
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return number

    def _row(self, number: int) -> Row:
        row = self._door.order(number)
        if row is None:
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return row

    @property
    def _orders_used_up(self) -> bool:
        return self._door.sent() >= self._max_orders


def _fixed(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _found(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
