"""Context of an agent at a decision: observations and orders.

A method costs one tool call (`place_many` and `cancel_many` one per order); attributes are free. Prices are $0.0001 (45 * CENT), sizes lots
(10 * CONTRACT), money micro-dollars, times ns UTC; all integers. An agent without `api = 3` gets and gives prices in mills.

The simulator is behind `Simulator`: hidden from attributes in this process, or in another one. Everything kept here is a copy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, SupportsIndex, TypeVar

import numpy as np

from bellwether.replay.agents.arguments import (
    ACTIONS,
    EPOCH,
    SIDES,
    TIFS,
    check_codes,
    check_tag,
    to_code,
    to_ids,
    to_integer,
    to_lots,
    to_ns,
    to_price,
)
from bellwether.replay.agents.interface import (
    MOST_ROWS,
    MOST_TIMERS,
    REQUEST_COLUMNS,
    TIMER_PAST,
    TIMER_SET,
    TIMER_WITHOUT_CALLBACK,
    Row,
    Simulator,
)
from bellwether.replay.agents.limits import BudgetError, OrderError, RunawayAgent
from bellwether.replay.agents.records import REASONS, EpisodeInfo, Fill, Position, RecordReader, Trade
from bellwether.replay.agents.views import Book, Market, Order, Quotes, Series
from bellwether.replay.engine.codes import Tif
from bellwether.replay.units import BUY, DOLLAR, NO, SELL, YES
from bellwether.units import CentiCents, Lots, MicroDollars

#: Plain integers: an enumeration's member costs compiled code a microsecond.
_IOC, _GTC, _POST_ONLY, _GTD = (int(tif) for tif in (Tif.IOC, Tif.GTC, Tif.POST_ONLY, Tif.GTD))

Side = int | str
Action = int | str
TimeInForce = int | str
Answer = TypeVar("Answer")

#: Calls beyond the budget of a step after which its agent is given up, whatever it catches.
_MOST_BEYOND = 1000
#: Price of a market order.
_NO_PRICE = CentiCents(0)


class QuoteIds(tuple[int | None, int | None]):
    """Order ids of the quotes of a market, for YES and for NO; None without a quote. An agent that reads them reacts to its fills: a filled quote is
    sent again under another id.
    """

    _ctx: AgentContext

    def __new__(cls, ctx: AgentContext, ids: Iterable[int]) -> QuoteIds:  # noqa: D102
        made = super().__new__(cls, (number if number >= 0 else None for number in ids))
        made._ctx = ctx
        return made

    def __iter__(self) -> Iterator[int | None]:
        self._ctx._reacts = True
        return super().__iter__()

    def __getitem__(self, place: Any) -> Any:
        self._ctx._reacts = True
        return super().__getitem__(place)


class AgentContext:
    """Market and account as an agent may know them now, and the orders it may send.

    Positions, cash and equity are live: an order that fills changes them within the step. (Rules with frozen observations show cash, equity and
    resting orders as the step found them.) Raises `OrderError` for what is no order, `BudgetError` for a call too many; what the venue would
    refuse comes back as an order with status rejected and a reason.

    tickers: the markets; a ticker's place is its number. quotes: best prices of all markets as arrays. seed: 256 bits, stable per episode, agent and
    seed of the run. info: the episode.
    """

    __slots__ = (
        "_beyond",
        "_bids",
        "_calls",
        "_code",
        "_dollar",
        "_door",
        "_held",
        "_held_rows",
        "_left",
        "_limit",
        "_markets",
        "_max_orders",
        "_now",
        "_random",
        "_reacts",
        "_reading",
        "_series",
        "_sizes",
        "_states",
        "_states_list",
        "_step",
        "_tags",
        "_touch",
        "_version",
        "info",
        "quotes",
        "seed",
        "tickers",
    )

    def __init__(
        self,
        door: Simulator,
        info: EpisodeInfo,
        *,
        seed: int = 0,
        calls_per_step: int = 100,
        max_orders: int = 1_000_000,
        series: Sequence[str] = (),
        unit: int = 1,
    ) -> None:
        self.info, self.tickers = info, info.tickers
        self._door: Any = door
        self._dollar, self._tags = DOLLAR // unit, dict[int, str]()
        self._reading = RecordReader(self.tickers, self._tags, unit)
        self.quotes = Quotes(self)
        self._code = {ticker: code for code, ticker in enumerate(self.tickers)}
        self._markets = tuple(Market(self, code, market.ticker, market.title, market.close_ns) for code, market in enumerate(info.markets))
        self.seed = seed
        self._random: random.Random | None = None
        self._limit, self._max_orders, self._version = calls_per_step, max_orders, 0
        #: The agent has read what depends on its fills.
        self._reacts = False
        self._bids: np.ndarray | None
        self._sizes: np.ndarray | None
        self._held: np.ndarray | None
        self._touch: list[list[CentiCents]] | None
        self._held_rows: list[list[Lots]] | None
        self._series = {name: Series(number) for number, name in enumerate(series)}
        self._begin(-1, 0)

    def _begin(self, step: int, calls: int) -> None:
        """Forget what was read before this decision. The simulator counts the calls itself."""
        self._step, self._calls, self._left, self._beyond = step, calls, calls, 0
        self._now: int | None = None
        self._states: np.ndarray | None = None
        self._states_list: list[int] | None = None
        self._changed()

    # Observations.

    @property
    def now_ns(self) -> int:
        """Time of this decision, ns UTC."""
        if self._now is None:
            self._now = self._door.now()
        return self._now

    @property
    def now(self) -> datetime:
        """Time of this decision, aware UTC, rounded down to the microsecond."""
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
        self._reacts = True
        return self._door.cash()

    @property
    def available(self) -> MicroDollars:
        """Cash less the reserves of resting orders, micro-dollars: what a new order may cost."""
        self._reacts = True
        return self._door.available()

    @property
    def equity(self) -> MicroDollars:
        """Cash and positions at the prices at which they could be sold now, micro-dollars."""
        self._reacts = True
        return self._door.equity()

    @property
    def positions(self) -> np.ndarray:
        """int64[T, 2]: lots held of YES and NO, 0.01 contract; a read-only copy."""
        self._reacts = True
        if self._held is None:
            self._held = _make_read_only(self._door.positions())
        return self._held

    @property
    def random(self) -> random.Random:
        """Random number generator, seeded with `seed`."""
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
        """The book of a market. depth: levels per side at most; all that the episode shows if omitted."""
        self._spend(1)
        if depth is not None and to_integer(depth, "depth") < 0:
            raise OrderError(f"reading a book: depth is {depth}; it is 0 or more")
        yes, no = self._answered(self._door.book(self._code_of(ticker), -1 if depth is None else to_integer(depth, "depth")))
        asks: list[Any] = [tuple((self._dollar - price, lots) for price, lots in bids) for bids in (no, yes)]
        return Book(ticker, yes, no, *asks)

    def resting(self, ticker: str | None = None) -> list[Order]:
        """Own orders in the book, of one market or of all, in price-time priority."""
        self._reacts = True
        self._spend(1)
        return [Order(self, number) for number in self._answered(self._door.resting(self._code_or_all(ticker)))]

    def order(self, number: SupportsIndex) -> Order:
        """An order that was sent before, by its id."""
        self._spend(1)
        return Order(self, self._id_of(number))

    def is_resting(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """bool[n]: true for orders in the book's queue now; an id below 0 is invalid."""
        self._reacts = True
        self._spend(1)
        numbers = to_ids(orders)
        if len(numbers) and 0 < self._door.sent() <= numbers.max():
            raise OrderError(f"there is no order {numbers.max()}; ids come from `place`")
        return self._answered(self._door.are_resting(numbers))

    def exogenous(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(ts, values) of an exogenous series as far as it is known now: int64 ns UTC and float64, read-only."""
        self._spend(1)
        if name not in self._series:
            raise OrderError(f"reading an exogenous series: there is no {name!r:.60}; there are {', '.join(self._series) or 'none'}")
        series = self._series[name]
        fresh = self._answered(self._door.points(series.number, series.known))
        return series.extended(fresh[:, 0], np.ascontiguousarray(fresh[:, 1]).view(np.float64))

    def trades(self, ticker: str | None = None) -> list[Trade]:
        """Trades of one market or of all since the previous decision (at the first: all so far), as far as they are known now, by time.

        Between decisions: since the last one. Costs one more call for every 100,000.
        """
        code = self._code_or_all(ticker)
        return self._reading.trades(self._pages(lambda after: self._door.trades(code, after)))

    def fills(self, ticker: str | None = None, *, whole_run: bool = False) -> list[Fill]:
        """Own fills of one market or of all since the previous decision began, or of the whole run, in the order of booking.

        Called first at each decision, it gives each fill once: those of orders that traded at once are among those of the next decision. Between
        decisions: since the last one began. Costs one more call for every 100,000.
        """
        self._reacts = True
        code = self._code_or_all(ticker)
        return self._reading.fills(self._pages(lambda after: self._door.fills(code, int(whole_run), after)))

    def position(self, ticker: str) -> Position:
        """Return the position in a market, its average cost, and its P&L."""
        return self._ledger(self._code_of(ticker))[0]

    def portfolio(self) -> list[Position]:
        """`position` of each market, in the order of `tickers`."""
        return self._ledger(-1)

    def at(self, time: int | datetime) -> None:
        """Have `on_timer` called at a time, ns UTC or an aware datetime, which must be later than now. Any number of timers may be set."""
        self._spend(1)
        result = self._answered(self._door.at(to_ns(time, "time")))
        if result != TIMER_SET:
            problems = {
                TIMER_PAST: f"{time} is not later than now ({self.now_ns}); give a later time",
                TIMER_WITHOUT_CALLBACK: "the agent has no on_timer(self, ctx, time_ns); write one",
            }
            raise OrderError(
                f"setting a timer: {problems.get(result, f'{MOST_TIMERS:,} timers are set already; set later ones in on_timer')}"
            )

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
        *,
        tag: str = "",
    ) -> Order:
        """Send an order and return it.

        side: YES or NO. action: BUY or SELL. price: limit on that side, $0.0001; None for a market order. lots: size, 0.01 contract. tif: GTC if omitted,
        IOC for a market order; IOC, FOK, POST_ONLY, or GTD with `expires`. tag: text of your own, at most 64 characters, kept with the order, its fills
        and its updates. With zero latency its status tells at once what happened.
        """
        code, side, action = self._code_of(ticker), to_code(side, SIDES, "side"), to_code(action, ACTIONS, "action")
        limit = _NO_PRICE if price is None else to_price(price)
        tif = (_IOC if price is None else _GTC) if tif is None else to_code(tif, TIFS, "tif")
        if (tif == _GTD) != (expires is not None):
            raise OrderError("placing an order: GTD, and no other, comes with the time at which it expires")
        size, until, tag = to_lots(lots), to_ns(expires, "expires"), check_tag(tag)
        self._spend(1)
        return self._place(code, side, action, limit, size, tif, until, tag)

    def buy(  # noqa: PLR0917
        self,
        ticker: str,
        side: Side,
        lots: int,
        price: int | None = None,
        tif: TimeInForce | None = None,
        expires: int | datetime | None = None,
        *,
        tag: str = "",
    ) -> Order:
        """Buy contracts of a side; at the market without a price. Units and tag as of `place`."""
        return self.place(ticker, side, BUY, price, lots, tif, expires, tag=tag)

    def sell(  # noqa: PLR0917
        self,
        ticker: str,
        side: Side,
        lots: int,
        price: int | None = None,
        tif: TimeInForce | None = None,
        expires: int | datetime | None = None,
        *,
        tag: str = "",
    ) -> Order:
        """Sell contracts of a side; at the market without a price. Units and tag as of `place`."""
        return self.place(ticker, side, SELL, price, lots, tif, expires, tag=tag)

    def quote(self, ticker: str, bid: int | None, ask: int | None, lots: int, *, tag: str = "") -> QuoteIds:
        """Keep a bid for YES and an offer of YES in the book, both post-only, and return their order ids.

        bid, ask: $0.0001 of YES; None or 0 cancels that quote, -1 leaves it. lots: 0.01 contract. A quote that rests at its price keeps its place in the
        queue. The offer is sent as a bid for NO at a dollar less `ask`, which is the same. An id is None without a quote. Costs a call for each order
        placed or cancelled. tag: of the orders that are placed.
        """
        code, size = self._code_of(ticker), to_lots(lots)
        yes: Any = 0 if bid is None else to_integer(bid, "bid")
        offer = 0 if ask is None else to_integer(ask, "ask")
        no: Any = self._dollar - offer if offer not in (0, -1) else offer
        wrong = yes < -1, offer > 0 >= no
        answer = self._door.quote(
            code, 0 if wrong[YES] else yes, 0 if wrong[NO] else no, size, self._left, check_tag(tag) if tag != "" else tag
        )
        self._quoted(None if answer is None else answer[0])
        _, *ids = answer
        if tag:
            for number in ids:
                self._tagged(number, tag)
        for side, price in ((YES, yes), (NO, no)):
            if wrong[side]:
                # Sent as an order of its own, so that its row records the rejection.
                self._spend(1)
                ids[side] = self._place(code, side, BUY, price, size, _POST_ONLY, 0, tag).id
        return QuoteIds(self, ids)

    def quote_many(self, prices: np.ndarray, lots: int, *, tag: str = "") -> np.ndarray:
        """`quote` for all markets at once; int64[T, 2] of order ids, -1 without a quote.

        prices: int64[T, 2], the bids for YES and for NO to keep in the book, $0.0001; 0 cancels a quote, -1 leaves it. Costs a call for each order
        placed or cancelled.
        """
        shape = (len(self.tickers), 2)
        if not isinstance(prices, np.ndarray) or prices.dtype != np.int64 or prices.shape != shape:
            raise OrderError(f"quoting: found {_describe_type(prices)}; prices are int64{list(shape)}: by market, for YES and NO")
        self._reacts = True
        answer = self._door.quote_many(prices, to_lots(lots), self._left, check_tag(tag))
        self._quoted(None if answer is None else answer[0])
        return np.array([self._tagged(number, tag) for number in answer[1]], np.int64).reshape(shape)

    def place_many(self, requests: np.ndarray, *, tag: str = "") -> np.ndarray:
        """Send many orders at once: int64[n, 7], columns `REQUEST_COLUMNS`, codes as numbers; price 0 is a market order. Returns int64[n] ids."""
        width = len(REQUEST_COLUMNS)
        if not isinstance(requests, np.ndarray) or requests.dtype != np.int64 or requests.ndim != 2 or requests.shape[1] != width:
            raise OrderError(f"placing orders: found {_describe_type(requests)}; requests are int64[n, 7]: {', '.join(REQUEST_COLUMNS)}")
        check_codes(requests)
        self._spend(len(requests))
        self._changed()
        numbers = self._answered(self._door.place_many(np.ascontiguousarray(requests), check_tag(tag)))
        if tag:
            for number in numbers.tolist():
                self._tagged(number, tag)
        return numbers

    def cancel(self, order: SupportsIndex) -> bool:
        """Cancel an order; False if it was not in the book any more. (With latency: if it cannot be in it on arrival.)."""
        self._reacts = True
        self._spend(1)
        number = order.id if type(order) is Order else to_integer(order, "order")
        self._changed()
        if self._answered(self._door.cancel(number)):
            return True
        self._id_of(number)
        return False

    def cancel_many(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """Cancel several orders: bool[n], False for those that are not in the book any more or never were."""
        self._reacts = True
        numbers = to_ids(orders)
        self._spend(len(numbers))
        self._changed()
        return self._answered(self._door.cancel_many(numbers))

    def cancel_all(self, ticker: str | None = None) -> int:
        """Cancel all own orders of one market or of all; their number."""
        self._reacts = True
        self._spend(1)
        code = self._code_or_all(ticker)
        self._changed()
        return self._answered(self._door.cancel_all(code))

    def amend(self, order: SupportsIndex, price: int, lots: int) -> str | None:
        """Change price or remaining size of a resting order; None if done, else the reason. Only a smaller size keeps its place in the queue."""
        self._reacts = True
        self._spend(1)
        number = self._id_of(order)
        self._changed()
        return REASONS[self._answered(self._door.amend(number, to_price(price), to_lots(lots)))]

    # Inside.

    def _pages(self, page: Callable[[int], np.ndarray | None]) -> list[list[int]]:
        """All rows of what is read in pages, a call each."""
        rows: list[list[int]] = []
        while True:
            self._spend(1)
            found = self._answered(page(len(rows)))
            rows += found.tolist()
            if len(found) < MOST_ROWS:
                return rows

    def _ledger(self, code: int) -> list[Position]:
        self._reacts = True
        self._spend(1)
        rows = self._answered(self._door.ledger(code))
        return self._reading.positions(self.tickers if code < 0 else (self.tickers[code],), rows)

    def _spend(self, calls: int) -> None:
        self._left -= calls
        if self._left < 0:
            self._refuse(calls)

    def _answered(self, answer: Answer | None) -> Answer:
        """The answer of the simulator. Raises `BudgetError` where it refused to give one."""
        if answer is None:
            self._refuse(0)
        return answer

    def _refuse(self, calls: int) -> NoReturn:
        self._left += calls
        self._beyond += 1
        if self._beyond > _MOST_BEYOND:
            raise RunawayAgent(f"a decision made more than {_MOST_BEYOND} calls beyond the {self._limit} that it may make")
        if not self._calls:
            raise BudgetError("`end` may make no call; use attributes, or make the call in `act`")
        if self._step < 0 and not calls:
            raise BudgetError("`start` may send no order; send it in `act`")
        raise BudgetError(
            f"a decision may make {self._limit} calls, and this one made more; use attributes, `markets()` or `place_many`, or raise calls_per_step"
        )

    def _place(  # noqa: PLR0917
        self, code: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int, until: int, tag: str
    ) -> Order:
        self._changed()
        return Order(self, self._tagged(self._answered(self._door.place(code, side, action, price, lots, tif, until, tag)), tag))

    def _tagged(self, number: int, tag: str) -> int:
        if tag and number >= 0:
            self._tags.setdefault(number, tag)
        return number

    def _quoted(self, left: int | None) -> None:
        """Quotes were sent: the calls left, -1 if they did not suffice."""
        if left is None:
            self._refuse(0)
        if left == self._left:
            # The resting quote is already the requested one.
            return
        # Post-only orders and cancels change neither books nor positions.
        self._version += 1
        self._left = max(left, 0)
        if left < 0:
            self._refuse(0)

    def _changed(self) -> None:
        """Books and account may have changed."""
        self._version += 1
        self._bids = self._touch = self._sizes = self._held = self._held_rows = None

    def _best(self) -> np.ndarray:
        if self._bids is None:
            self._bids = _make_read_only(self._door.bids())
        return self._bids

    def _best_sizes(self) -> np.ndarray:
        if self._sizes is None:
            self._sizes = _make_read_only(self._door.sizes())
        return self._sizes

    def _status(self) -> np.ndarray:
        if self._states is None:
            self._states = _make_read_only(self._door.status())
        return self._states

    def _best_list(self) -> list[list[CentiCents]]:
        if self._touch is None:
            self._touch = self._door.bids().tolist()
        return self._touch

    def _held_list(self) -> list[list[Lots]]:
        self._reacts = True
        if self._held_rows is None:
            self._held_rows = self._door.positions().tolist()
        return self._held_rows

    def _status_list(self) -> list[int]:
        if self._states_list is None:
            self._states_list = self._door.status().tolist()
        return self._states_list

    def _code_of(self, ticker: str) -> int:
        try:
            return self._code[ticker]
        except (KeyError, TypeError):
            raise OrderError(f"there is no market {ticker!r:.60}; there are {', '.join(self.tickers[:10])}") from None

    def _code_or_all(self, ticker: str | None) -> int:
        """The number of a market, -1 for all."""
        return -1 if ticker is None else self._code_of(ticker)

    def _id_of(self, order: SupportsIndex) -> int:
        number = order.id if isinstance(order, Order) else to_integer(order, "order")
        if not -1 <= number < self._door.sent():
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return number

    def _row(self, number: int) -> Row:
        self._reacts = True
        row: Row | None = self._door.order(number)
        if row is None:
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return row

    @property
    def _orders_used_up(self) -> bool:
        return self._door.sent() >= self._max_orders


def _make_read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _describe_type(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
