"""What an agent sees and can do at a decision point.

A method costs one tool call (`place_many` and `cancel_many` one per order); attributes cost nothing. Prices are mills (45 * CENT), sizes lots
(10 * CONTRACT), money micro-dollars, times ns UTC; all integers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from bellwether.replay.agents.agent import EpisodeInfo
from bellwether.replay.agents.limits import BudgetError, OrderError, RunawayAgent
from bellwether.replay.agents.views import Book, Market, Order, Quotes, Series, book_of, reason_text, sealed
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Status, Tif
from bellwether.replay.units import BUY, DOLLAR, NO, SELL, YES

if TYPE_CHECKING:
    from bellwether.replay.engine import Session

#: Columns of the requests of `place_many`.
REQUEST_COLUMNS = ("ticker", "side", "action", "price", "lots", "tif", "expires")

_SIDES = {"yes": YES, "no": NO}
_ACTIONS = {"buy": BUY, "sell": SELL}
_TIFS = {tif.name.lower(): int(tif) for tif in Tif}
#: Plain integers: an enumeration's member costs compiled code a microsecond.
_IOC, _GTC, _POST_ONLY, _GTD = (int(tif) for tif in (Tif.IOC, Tif.GTC, Tif.POST_ONLY, Tif.GTD))
_RESTING, _FILLED = int(Status.RESTING), int(Status.FILLED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**62

Side = int | str
Action = int | str
TimeInForce = int | str


#: Calls beyond the budget of a step after which its agent is given up, whatever it catches.
_MOST_BEYOND = 1000


class AgentContext:
    """The market and the account as an agent may know them now, and the orders it may send.

    Positions, cash and equity are live: an order that fills changes them within the step. (Rules with frozen observations show cash, equity and
    resting orders as the step found them.) Raises `OrderError` for what is no order, `BudgetError` for a call too many; what the venue would
    refuse comes back as an order with status rejected and a reason.

    tickers: the markets; a ticker's place is its code. quotes: best prices of all markets as arrays. positions: int64[T, 2], lots held of YES and
    NO, read-only and live. seed: 256 bits, stable per episode, agent and seed of the run. calls_left: tool calls left in this step.
    """

    __slots__ = (
        "_best",
        "_beyond",
        "_book",
        "_cancelled",
        "_cash",
        "_code",
        "_delay",
        "_dropped",
        "_equity",
        "_frozen",
        "_holdings",
        "_known_orders",
        "_limit",
        "_market_status",
        "_markets",
        "_random",
        "_series",
        "_session",
        "_status",
        "_top",
        "calls_left",
        "info",
        "positions",
        "quotes",
        "seed",
        "tickers",
    )

    def __init__(
        self,
        session: Session,
        info: EpisodeInfo,
        *,
        frozen: bool = False,
        seed: int = 0,
        calls_per_step: int = 100,
        data_latency: int = 0,
        series: Mapping[str, Series] | None = None,
    ) -> None:
        self._session, self.info, self.tickers = session, info, info.tickers
        self._best, self._book, self._status = sealed(session.best), sealed(session.book), sealed(session.status)
        self.positions = sealed(session.positions)
        self.quotes = Quotes(self._best, self._book, self._status)
        self._code = {ticker: code for code, ticker in enumerate(self.tickers)}
        self._markets = tuple(Market(self, code, market.ticker, market.title, market.close_ns) for code, market in enumerate(info.markets))
        self.seed = seed
        self._random: random.Random | None = None
        self._limit, self.calls_left, self._beyond = calls_per_step, 0, 0
        self._delay, self._series = data_latency, dict(series or {})
        self._top: list[list[int]] | None = None
        self._holdings: list[list[int]] | None = None
        self._market_status: list[int] | None = None
        self._frozen, self._cash, self._equity, self._known_orders = frozen, session.cash, session.cash, 0
        self._dropped: set[int] = set()
        self._cancelled: set[int] = set()

    # What the run calls.

    def begin_step(self) -> None:
        """A decision point was reached: the budget is whole again."""
        self.calls_left, self._top, self._holdings, self._market_status = self._limit, None, None, None
        self._beyond = 0
        if self._frozen:
            self._cash, self._equity, self._known_orders = self._session.cash, self._session.equity(), len(self._session.orders)
            self._dropped |= self._cancelled
            self._cancelled.clear()

    def end_step(self) -> None:
        """The agent has answered: nothing can be called until the next decision."""
        self.calls_left = 0

    # Observations.

    @property
    def now_ns(self) -> int:
        """The time of this decision, ns UTC."""
        return self._session.now

    @property
    def now(self) -> datetime:
        """The time of this decision, aware UTC, to the microsecond below."""
        return _EPOCH + timedelta(microseconds=self._session.now // 1000)

    @property
    def step(self) -> int:
        """Number of this decision, from 0."""
        return self._session.step_index

    @property
    def cash(self) -> int:
        """Cash, micro-dollars."""
        return self._cash if self._frozen else self._session.cash

    @property
    def available(self) -> int:
        """Cash less what resting orders reserve, micro-dollars: what a new order may cost."""
        return self._session.available

    @property
    def equity(self) -> int:
        """Cash and positions at the prices at which they could be sold now, micro-dollars."""
        return self._equity if self._frozen else self._session.equity()

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
        if depth is not None and _integer(depth, "depth") < 0:
            raise OrderError(f"reading a book: depth is {depth}; it is 0 or more")
        shown = self.info.observation_depth
        if shown >= 0:
            depth = shown if depth is None else min(depth, shown)
        return book_of(ticker, self._book[self._code_of(ticker)], depth)

    def resting(self, ticker: str | None = None) -> list[Order]:
        """Own orders in the book, of one market or of all, in price-time priority."""
        self._spend(1)
        code = -1 if ticker is None else self._code_of(ticker)
        numbers = self._listed(code) if self._frozen else self._session.resting(code)
        return [self._order(number) for number in numbers.tolist()]

    def order(self, number: SupportsIndex) -> Order:
        """An order that was sent before, by its id."""
        self._spend(1)
        return self._order(self._id_of(number))

    def is_resting(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """bool[n]: which orders are in the book's queue now; an id below 0 is none."""
        self._spend(1)
        numbers, rows = _ids(orders), self._session.orders
        if not len(rows):
            return np.zeros(len(numbers), bool)
        try:
            return (rows[numbers, codes.O_STATUS] == _RESTING) & (numbers >= 0)
        except IndexError:
            raise OrderError(f"there is no order {numbers.max()}; ids come from `place`") from None

    def exogenous(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(ts, values) of an exogenous series as far as it is known now: int64 ns UTC and float64, read-only."""
        self._spend(1)
        if name not in self._series:
            raise OrderError(f"reading an exogenous series: there is no {name!r:.60}; there are {', '.join(self._series) or 'none'}")
        return self._series[name].until(self._session.now - self._delay)

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
        code, side, action = self._code_of(ticker), _choice(side, _SIDES, "side"), _choice(action, _ACTIONS, "action")
        if price is None:
            price, tif = 0, _IOC if tif is None else _choice(tif, _TIFS, "tif")
        else:
            price, tif = _price(price), _GTC if tif is None else _choice(tif, _TIFS, "tif")
        if (tif == _GTD) != (expires is not None):
            raise OrderError("placing an order: GTD, and no other, comes with the time at which it expires")
        lots, until = _lots(lots), _instant(expires)
        self._spend(1)
        self._changed()
        return self._order(self._session.place(code, side, action, price, lots, tif, until))

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
        code, lots = self._code_of(ticker), _lots(lots)
        yes_price = 0 if bid is None else _price(bid)
        no_price = 0 if ask is None else DOLLAR - _integer(ask, "ask")
        before = self._session.quoted if self._frozen else None
        self._quoted(self._session.quote(code, max(yes_price, 0), max(no_price, 0), lots, self.calls_left), before)
        for side, price in ((YES, yes_price), (NO, no_price)):
            if price < 0 or (side == NO and price == 0 and ask is not None):
                # No price of an order: sent all the same, so that its row says so.
                self._spend(1)
                self._session.place(code, side, BUY, price, lots, _POST_ONLY, 0)

    def quote_many(self, prices: np.ndarray, lots: int) -> None:
        """`quote` for all markets in one go: int64[T, 2], the bids for YES and for NO to keep in the book, in mills.

        0 takes a quote away, -1 leaves it as it is. Costs a call for each order placed or cancelled.
        """
        if not isinstance(prices, np.ndarray) or prices.dtype != np.int64 or prices.shape != self._best.shape:
            found = f"{prices.dtype}{list(prices.shape)}" if isinstance(prices, np.ndarray) else type(prices).__name__
            raise OrderError(f"quoting: found {found}; prices are int64{list(self._best.shape)}: by market, for YES and NO")
        before = self._session.quoted if self._frozen else None
        self._quoted(self._session.quote_many(prices, _lots(lots), self.calls_left), before)

    def place_many(self, requests: np.ndarray) -> np.ndarray:
        """Send many orders in one go: int64[n, 7], columns `REQUEST_COLUMNS`, codes as numbers; price 0 is a market order. Returns int64[n] ids."""
        if (
            not isinstance(requests, np.ndarray)
            or requests.dtype != np.int64
            or requests.ndim != 2
            or requests.shape[1] != len(REQUEST_COLUMNS)
        ):
            found = f"{requests.dtype}{list(requests.shape)}" if isinstance(requests, np.ndarray) else type(requests).__name__
            raise OrderError(f"placing orders: found {found}; requests are int64[n, 7]: {', '.join(REQUEST_COLUMNS)}")
        self._spend(len(requests))
        self._changed()
        return self._session.place_many(np.ascontiguousarray(requests))

    def cancel(self, order: SupportsIndex) -> bool:
        """Take an order out of the book; False when it was not in it any more. (With latency: when it cannot be in it on arrival.)"""
        self._spend(1)
        number = order.id if type(order) is Order else _integer(order, "order")
        self._changed()
        done = self._session.cancel(number)
        if not done:
            self._id_of(number)
        elif self._frozen:
            self._cancelled.add(number)
        return done

    def cancel_many(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """Take several orders out of the book: bool[n], False for those that are not in it any more or never were."""
        numbers = _ids(orders)
        self._spend(len(numbers))
        self._changed()
        if self._frozen:
            self._cancelled.update(numbers[numbers >= 0].tolist())
        return self._session.cancel_many(numbers)

    def cancel_all(self, ticker: str | None = None) -> int:
        """Take all own orders out of the book, of one market or of all; how many there were."""
        self._spend(1)
        code = -1 if ticker is None else self._code_of(ticker)
        if self._frozen:
            self._cancelled.update(self._listed(code).tolist())
        self._changed()
        return self._session.cancel_all(code)

    def amend(self, order: SupportsIndex, price: int, lots: int) -> str | None:
        """Change price or remaining size of a resting order; None when done, else the reason why not. Only a smaller size keeps its queue place."""
        self._spend(1)
        number = self._id_of(order)
        self._changed()
        return reason_text(self._session.amend(number, _price(price), _lots(lots)))

    # Inside.

    def _spend(self, calls: int) -> None:
        self.calls_left -= calls
        if self.calls_left < 0:
            self._refuse(calls)

    def _refuse(self, calls: int) -> None:
        self.calls_left += calls
        self._beyond += 1
        if self._beyond > _MOST_BEYOND:
            raise RunawayAgent(f"a decision made more than {_MOST_BEYOND} calls beyond the {self._limit} that it may make")
        raise BudgetError(
            f"a decision may make {self._limit} calls, and only within `act`; this one made more. "
            "Use attributes, `markets()` or `place_many`, or raise calls_per_step"
        )

    def _touch(self) -> list[list[int]]:
        if self._top is None:
            self._top = self._best.tolist()
        return self._top

    def _held(self) -> list[list[int]]:
        if self._holdings is None:
            self._holdings = self.positions.tolist()
        return self._holdings

    def _states(self) -> list[int]:
        if self._market_status is None:
            self._market_status = self._status.tolist()
        return self._market_status

    def _code_of(self, ticker: str) -> int:
        try:
            return self._code[ticker]
        except (KeyError, TypeError):
            raise OrderError(f"there is no market {ticker!r:.60}; there are {', '.join(self.tickers[:10])}") from None

    def _id_of(self, order: SupportsIndex) -> int:
        number = order.id if isinstance(order, Order) else _integer(order, "order")
        if not -1 <= number < len(self._session.orders):
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return number

    def _order(self, number: int) -> Order:
        return Order(self._session, self.tickers, number)

    def _quoted(self, calls_left: int, before: np.ndarray | None) -> None:
        """Quotes were sent: what they cost, and which of those `before` were cancelled for them."""
        self._changed()
        if before is not None:
            gone = before[(before >= 0) & (before != self._session.quoted)]
            rows = self._session.orders[gone]
            taken_back = (rows[:, codes.O_STATUS] <= _RESTING) | (rows[:, codes.O_REASON] == codes.Reason.AGENT)
            self._cancelled.update(gone[taken_back].tolist())
        self.calls_left = max(calls_left, 0)
        if calls_left < 0:
            self._refuse(0)

    def _changed(self) -> None:
        """Orders were sent or taken back: what was read in this step is to be read again."""
        self._top = self._holdings = None

    def _listed(self, code: int) -> np.ndarray:
        """Frozen observations: what rested when the step began, and what has filled since it rested and was not cancelled."""
        orders = self._session.orders[: self._known_orders]
        status = orders[:, codes.O_STATUS]
        maker_filled = (status == _FILLED) & (orders[:, codes.O_TAKEN] < orders[:, codes.O_COUNT])
        listed = (status == _RESTING) | maker_filled
        listed[list(self._cancelled)] = True
        listed[list(self._dropped)] = False
        if code >= 0:
            listed &= orders[:, codes.O_TICKER] == code
        return np.flatnonzero(listed)


def requests(ticker: Any, side: Any, action: Any, price: Any, lots: Any, tif: Any = _GTC, expires: Any = 0) -> np.ndarray:  # noqa: PLR0917
    """Requests for `AgentContext.place_many`, int64[n, 7], of integers and integer arrays of one length. Raises `OrderError` for other types."""
    values = (ticker, side, action, price, lots, tif, expires)
    lengths = {len(value) for value in values if isinstance(value, np.ndarray)}
    if len(lengths) > 1:
        raise OrderError(
            f"placing orders: the columns have {' and '.join(map(str, sorted(lengths)))} rows; they have the same number, or are one value"
        )
    rows = np.empty((lengths.pop() if lengths else 1, len(values)), np.int64)
    for column, value in enumerate(values):
        if not isinstance(value, np.ndarray):
            rows[:, column] = _integer(value, REQUEST_COLUMNS[column])
            continue
        if value.dtype.kind not in "iu":
            raise OrderError(f"placing orders: {REQUEST_COLUMNS[column]} is {value.dtype}; it is an integer")
        rows[:, column] = value
    return rows


def _integer(value: Any, name: str) -> int:
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, bool | np.bool_):
        raise OrderError(f"{name} is {value!r}; it is an integer")
    try:
        whole = index(value)
    except TypeError:
        raise OrderError(f"{name} is {value!r:.60}; it is an integer: prices in mills (45 * CENT), sizes in lots (10 * CONTRACT)") from None
    if not -_LARGEST < whole < _LARGEST:
        raise OrderError(f"{name} is {str(whole)[:20]}…; that is too large")
    return whole


def _price(value: Any) -> int:
    price = _integer(value, "price")
    if price == 0:
        raise OrderError("price is 0; a market order has the price None")
    return price


def _lots(value: Any) -> int:
    lots = _integer(value, "lots")
    if lots < 1:
        raise OrderError(f"lots is {lots}; it is 1 or more")
    return lots


def _choice(value: int | str, words: Mapping[str, int], name: str) -> int:
    if type(value) is int and 0 <= value < len(words):
        return value
    if isinstance(value, str) and (found := words.get(value.lower())) is not None:
        return found
    if not isinstance(value, str | bool) and hasattr(value, "__index__") and 0 <= index(value) < len(words):
        return index(value)
    raise OrderError(f"{name} is {value!r:.60}; it is one of {', '.join(word.upper() for word in words)}")


def _instant(expires: int | datetime | None) -> int:
    if expires is None:
        return 0
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise OrderError(f"expires is {expires}, which has no zone; give an aware time or ns UTC")
        since = expires - _EPOCH
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    return _integer(expires, "expires")


def _ids(orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
    if isinstance(orders, np.ndarray):
        if orders.dtype != np.int64 or orders.ndim != 1:
            raise OrderError(f"cancelling orders: found {orders.dtype}{list(orders.shape)}; ids are int64[n]")
        return np.ascontiguousarray(orders)
    return np.array([_integer(order, "order") for order in orders], np.int64)
