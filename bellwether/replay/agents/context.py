"""Context of an agent at a decision: observations and orders.

A method costs one tool call (`place_many` and `cancel_many`: one per order), an attribute none. All amounts are integers: prices in $0.0001
(`45 * CENT`), sizes in lots of 0.01 contract (`10 * CONTRACT`), money in micro-dollars, times in ns UTC.

The context reaches the simulator only through the methods of `Simulator`, so that the agent can run in another process, and stores copies of
what it reads.
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

#: Plain integers: passing an enum member to compiled code takes a microsecond longer.
_IOC, _GTC, _POST_ONLY, _GTD = (int(tif) for tif in (Tif.IOC, Tif.GTC, Tif.POST_ONLY, Tif.GTD))

Side = int | str
Action = int | str
TimeInForce = int | str
Result = TypeVar("Result")

#: Calls beyond the budget of a step after which the agent is stopped, even if it catches `BudgetError`.
_MAX_EXCESS_CALLS = 1000
#: Price of a market order.
_NO_PRICE = CentiCents(0)


class QuoteIds(tuple[int | None, int | None]):
    """Order ids of the two quotes of a market: the bid for YES, and the ask for YES, which is sent as a bid for NO; None for a missing quote.

    Reading an id marks the agent as reacting to its fills, because a filled quote is replaced under a new id.
    """

    _ctx: AgentContext

    def __new__(cls, ctx: AgentContext, ids: Iterable[int]) -> QuoteIds:  # noqa: D102
        pair = super().__new__(cls, (number if number >= 0 else None for number in ids))
        pair._ctx = ctx
        return pair

    def __iter__(self) -> Iterator[int | None]:
        self._ctx._reacts = True
        return super().__iter__()

    def __getitem__(self, place: Any) -> Any:
        self._ctx._reacts = True
        return super().__getitem__(place)


class AgentContext:
    """Observations and orders available to an agent at a decision.

    A method costs one tool call, an attribute none. Prices are in $0.0001, sizes in lots of 0.01 contract, money in micro-dollars, times in ns UTC.
    Cash, equity, positions and orders are live: a fill changes them within the decision. Under rules with frozen observations, cash, equity
    and resting orders keep their values from the start of the decision.

    Every method raises `OrderError` for invalid arguments and `BudgetError` for a call beyond the budget. An order that the venue refuses is
    no error: it is returned with the status `rejected` and a reason.

    Attributes:
        tickers: Tickers of the markets. The index of a ticker is the number of its market in arrays.
        quotes: Best prices of all markets, as arrays.
        seed: Seed of 256 bits; equal for the same episode, agent name and seed of the run.
        info: Description of the episode.
    """

    __slots__ = (
        "_bids", "_calls", "_code", "_excess_calls", "_held", "_left", "_limit", "_markets", "_max_orders", "_now", "_random", "_reacts",
        "_record_reader", "_series", "_simulator", "_sizes", "_states", "_states_list", "_step", "_stored_bid_rows", "_stored_position_rows",
        "_tags", "_version", "info", "quotes", "seed", "tickers",
    )  # fmt: skip

    def __init__(
        self,
        simulator: Simulator,
        info: EpisodeInfo,
        *,
        seed: int = 0,
        calls_per_step: int = 100,
        max_orders: int = 1_000_000,
        series: Sequence[str] = (),
    ) -> None:
        self.info, self.tickers = info, info.tickers
        self._simulator: Any = simulator
        self._tags = dict[int, str]()
        self._record_reader = RecordReader(self.tickers, self._tags)
        self.quotes = Quotes(self)
        self._code = {ticker: code for code, ticker in enumerate(self.tickers)}
        self._markets = tuple(Market(self, code, market.ticker, market.title, market.close_ns) for code, market in enumerate(info.markets))
        self.seed = seed
        self._random: random.Random | None = None
        self._limit, self._max_orders, self._version = calls_per_step, max_orders, 0
        #: The agent has read values that depend on its fills.
        self._reacts = False
        self._bids: np.ndarray | None
        self._sizes: np.ndarray | None
        self._held: np.ndarray | None
        self._stored_bid_rows: list[list[CentiCents]] | None
        self._stored_position_rows: list[list[Lots]] | None
        self._series = {name: Series(number) for number, name in enumerate(series)}
        self._begin(-1, 0)

    def _begin(self, step: int, calls: int) -> None:
        """Begin decision number `step` with a budget of `calls` tool calls, and discard the values read in the previous decision. The
        simulator keeps its own count of calls.
        """
        self._step, self._calls, self._left, self._excess_calls = step, calls, calls, 0
        self._now: int | None = None
        self._states: np.ndarray | None = None
        self._states_list: list[int] | None = None
        self._discard_values()

    # Observations.

    @property
    def now_ns(self) -> int:
        """Time of this decision, ns UTC."""
        if self._now is None:
            self._now = self._simulator.now()
        return self._now

    @property
    def now(self) -> datetime:
        """Time of this decision, timezone-aware UTC, rounded down to the microsecond."""
        return EPOCH + timedelta(microseconds=self.now_ns // 1000)

    @property
    def step(self) -> int:
        """Number of this decision, from 0; -1 in `start`."""
        return self._step

    @property
    def calls_left(self) -> int:
        """Remaining tool calls of this decision."""
        return self._left

    @property
    def cash(self) -> MicroDollars:
        """Cash, micro-dollars."""
        self._reacts = True
        return self._simulator.cash()

    @property
    def available(self) -> MicroDollars:
        """Cash available for new orders, micro-dollars: cash less the reserves of resting orders."""
        self._reacts = True
        return self._simulator.available()

    @property
    def equity(self) -> MicroDollars:
        """Cash plus the value of all positions at their present sale prices, micro-dollars."""
        self._reacts = True
        return self._simulator.equity()

    @property
    def positions(self) -> np.ndarray:
        """Positions in YES and NO, int64[T, 2], lots of 0.01 contract; a read-only copy."""
        self._reacts = True
        if self._held is None:
            self._held = _make_read_only(self._simulator.positions())
        return self._held

    @property
    def random(self) -> random.Random:
        """Random number generator, seeded with `seed`."""
        if self._random is None:
            self._random = random.Random(self.seed)
        return self._random

    def markets(self) -> tuple[Market, ...]:
        """Return all markets, in the order of `tickers`."""
        self._spend(1)
        return self._markets

    def market(self, ticker: str) -> Market:
        """Return the market of a ticker. Raises `OrderError` for an unknown ticker."""
        self._spend(1)
        return self._markets[self._code_of(ticker)]

    def book(self, ticker: str, depth: int | None = None) -> Book:
        """Return the book of a market.

        Args:
            depth: Maximum number of levels per side. Default: all levels that the episode shows.

        Returns:
            Bids and asks for YES and NO: pairs of price ($0.0001) and size (lots of 0.01 contract), best first.

        Raises:
            OrderError: The ticker is unknown, or `depth` is negative or not an integer.
        """
        self._spend(1)
        if depth is not None and to_integer(depth, "depth") < 0:
            raise OrderError(f"reading a book: depth is {depth}; give 0 or more")
        yes, no = self._require_result(self._simulator.book(self._code_of(ticker), -1 if depth is None else to_integer(depth, "depth")))
        asks: list[Any] = [tuple((DOLLAR - price, lots) for price, lots in bids) for bids in (no, yes)]
        return Book(ticker, yes, no, *asks)

    def resting(self, ticker: str | None = None) -> list[Order]:
        """Return the agent's resting orders of one market, or of all markets, in price-time priority."""
        self._reacts = True
        self._spend(1)
        return [Order(self, number) for number in self._require_result(self._simulator.resting(self._code_or_all(ticker)))]

    def order(self, number: SupportsIndex) -> Order:
        """Return an order of this run by its id. Raises `OrderError` for an unknown id."""
        self._spend(1)
        return Order(self, self._id_of(number))

    def is_resting(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """Return for each order whether it rests in the book now, bool[n].

        Args:
            orders: Orders, or ids as int64[n]. The result is False for ids below 0.

        Raises:
            OrderError: An id is unknown, or the array is not int64[n].
        """
        self._reacts = True
        self._spend(1)
        numbers = to_ids(orders)
        if len(numbers) and 0 < self._simulator.sent() <= numbers.max():
            raise OrderError(f"there is no order {numbers.max()}; ids come from `place`")
        return self._require_result(self._simulator.are_resting(numbers))

    def exogenous(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return all points that are known now of an exogenous series: data from outside the markets, such as a spot price, stored in the
        episode.

        Args:
            name: Name of the series, one of `info.exogenous`.

        Returns:
            Times, int64, ns UTC, ascending, and values, float64. Both arrays are read-only.

        Raises:
            OrderError: The series is unknown.
        """
        self._spend(1)
        if name not in self._series:
            raise OrderError(
                f"reading an exogenous series: {name!r:.60} does not exist; available series: {', '.join(self._series) or 'none'}"
            )
        series = self._series[name]
        points = self._require_result(self._simulator.points(series.number, series.known))
        return series.extend(points[:, 0], np.ascontiguousarray(points[:, 1]).view(np.float64))

    def trades(self, ticker: str | None = None) -> list[Trade]:
        """Return the recorded trades of one market, or of all markets, since the previous decision, ordered by time.

        The first decision returns all trades so far; a callback returns those since the last decision. Only trades known now are returned.
        Each 100,000 trades cost one more call.
        """
        code = self._code_or_all(ticker)
        return self._record_reader.trades(self._read_pages(lambda after: self._simulator.trades(code, after)))

    def fills(self, ticker: str | None = None, *, whole_run: bool = False) -> list[Fill]:
        """Return the agent's fills in one market, or in all markets, since the previous decision began (or in the whole run), in the order
        of booking.

        If every decision first reads its fills, each fill is returned exactly once: an order that trades at once is among the fills of the
        next decision. A callback returns the fills since the last decision began. Each 100,000 fills cost one more call.

        Args:
            whole_run: Return all fills of the run instead.
        """
        self._reacts = True
        code = self._code_or_all(ticker)
        return self._record_reader.fills(self._read_pages(lambda after: self._simulator.fills(code, int(whole_run), after)))

    def position(self, ticker: str) -> Position:
        """Return the position in a market, with its average cost and P&L."""
        return self._positions(self._code_of(ticker))[0]

    def portfolio(self) -> list[Position]:
        """Return the position in every market, in the order of `tickers`."""
        return self._positions(-1)

    def at(self, time: int | datetime) -> None:
        """Set a timer that calls `on_timer` once, at `time`.

        At most 10,000 timers can be pending at once.

        Args:
            time: Time of the call, ns UTC or timezone-aware datetime, later than now.

        Raises:
            OrderError: The time is not later than now or has no time zone, the agent has no `on_timer`, or 10,000 timers are pending.
        """
        self._spend(1)
        result = self._require_result(self._simulator.at(to_ns(time, "time")))
        if result != TIMER_SET:
            problems = {
                TIMER_PAST: f"{time} is not later than now ({self.now_ns}); give a later time",
                TIMER_WITHOUT_CALLBACK: "the agent has no on_timer(self, ctx, time_ns); write one",
            }
            raise OrderError(
                f"setting a timer: {problems.get(result, f'{MOST_TIMERS:,} timers are already pending; set later ones in on_timer')}"
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

        With zero latency the returned order already shows whether it was filled, rests or was rejected.

        Args:
            side: YES or NO.
            action: BUY or SELL.
            price: Limit price of `side`, $0.0001; None for a market order.
            lots: Size, lots of 0.01 contract, 1 or more.
            tif: Time in force: GTC, IOC, FOK, POST_ONLY or GTD. Default: GTC, or IOC for a market order.
            expires: Expiry of a GTD order, ns UTC or timezone-aware datetime.
            tag: Label of at most 64 printable characters, stored with the order, its fills and its updates.

        Raises:
            OrderError: An argument is invalid, such as an unknown ticker, a float, or a GTD order without `expires`.
        """
        code, side, action = self._code_of(ticker), to_code(side, SIDES, "side"), to_code(action, ACTIONS, "action")
        limit = _NO_PRICE if price is None else to_price(price)
        tif = (_IOC if price is None else _GTC) if tif is None else to_code(tif, TIFS, "tif")
        if (tif == _GTD) != (expires is not None):
            raise OrderError("placing an order: expires must be given for GTD, and only for GTD")
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
        """Buy contracts of a side. Without a price, send a market order. Arguments as in `place`."""
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
        """Sell contracts of a side. Without a price, send a market order. Arguments as in `place`."""
        return self.place(ticker, side, SELL, price, lots, tif, expires, tag=tag)

    def quote(self, ticker: str, bid: int | None, ask: int | None, lots: int, *, tag: str = "") -> QuoteIds:
        """Keep a post-only bid and a post-only ask for YES in the book, and return their order ids.

        A quote that already rests at its price keeps its queue position. The ask is sent as the equivalent bid for NO at a dollar less
        `ask`. Each order that is placed or cancelled costs one call.

        Args:
            bid: Bid price for YES, $0.0001; None or 0 cancels the bid, -1 leaves it unchanged.
            ask: Ask price for YES, $0.0001; None or 0 cancels the ask, -1 leaves it unchanged.
            lots: Size of each quote, lots of 0.01 contract.
            tag: Label of the orders that are placed, as in `place`.

        Returns:
            Order ids of the bid and of the ask; None without a quote.

        Raises:
            OrderError: The ticker, a price, the size or the tag is invalid.
        """
        code, size = self._code_of(ticker), to_lots(lots)
        yes: Any = 0 if bid is None else to_integer(bid, "bid")
        offer = 0 if ask is None else to_integer(ask, "ask")
        no: Any = DOLLAR - offer if offer not in (0, -1) else offer
        wrong = yes < -1, offer > 0 >= no
        result = self._simulator.quote(
            code, 0 if wrong[YES] else yes, 0 if wrong[NO] else no, size, self._left, check_tag(tag) if tag != "" else tag
        )
        self._record_quotes(None if result is None else result[0])
        _, *ids = result
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
        """Keep a post-only bid for YES and a post-only bid for NO in the book of every market, and return the order ids.

        As with `quote`, each order that is placed or cancelled costs one call.

        Args:
            prices: Bid prices for YES and NO of every market, int64[T, 2], $0.0001; 0 cancels a quote, -1 leaves it unchanged.
            lots: Size of each quote, lots of 0.01 contract.
            tag: Label of the orders that are placed, as in `place`.

        Returns:
            Order ids, int64[T, 2]; -1 without a quote.

        Raises:
            OrderError: `prices` has another dtype or shape, or the size or the tag is invalid.
        """
        shape = (len(self.tickers), 2)
        if not isinstance(prices, np.ndarray) or prices.dtype != np.int64 or prices.shape != shape:
            raise OrderError(f"quoting: prices are {_describe_type(prices)}; give int64{list(shape)}: a row per market, for YES and NO")
        self._reacts = True
        result = self._simulator.quote_many(prices, to_lots(lots), self._left, check_tag(tag))
        self._record_quotes(None if result is None else result[0])
        return np.array([self._tagged(number, tag) for number in result[1]], np.int64).reshape(shape)

    def place_many(self, requests: np.ndarray, *, tag: str = "") -> np.ndarray:
        """Send several orders and return their ids, int64[n]; -1 for an order that the venue does not record.

        Each order costs one call.

        Args:
            requests: Orders, int64[n, 7], with the columns ticker, side, action, price ($0.0001, 0 for a market order), lots (0.01
                contract), tif and expires (ns UTC, 0 for never). Ticker, side, action and tif are integer codes; the function `requests`
                builds the array.
            tag: Label of the orders, as in `place`.

        Raises:
            OrderError: `requests` has another dtype or shape, or a code is invalid.
        """
        width = len(REQUEST_COLUMNS)
        if not isinstance(requests, np.ndarray) or requests.dtype != np.int64 or requests.ndim != 2 or requests.shape[1] != width:
            raise OrderError(f"placing orders: requests are {_describe_type(requests)}; give int64[n, 7]: {', '.join(REQUEST_COLUMNS)}")
        check_codes(requests)
        self._spend(len(requests))
        self._discard_values()
        numbers = self._require_result(self._simulator.place_many(np.ascontiguousarray(requests), check_tag(tag)))
        if tag:
            for number in numbers.tolist():
                self._tagged(number, tag)
        return numbers

    def cancel(self, order: SupportsIndex) -> bool:
        """Cancel an order. Returns True if the order was resting; with latency, True if the order may still be resting when the cancel arrives.

        Raises:
            OrderError: The order is unknown.
        """
        self._reacts = True
        self._spend(1)
        number = order.id if type(order) is Order else to_integer(order, "order")
        self._discard_values()
        if self._require_result(self._simulator.cancel(number)):
            return True
        self._id_of(number)
        return False

    def cancel_many(self, orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
        """Cancel several orders at a cost of one call each. Returns for each order whether it was resting, bool[n]; False for unknown ids."""
        self._reacts = True
        numbers = to_ids(orders)
        self._spend(len(numbers))
        self._discard_values()
        return self._require_result(self._simulator.cancel_many(numbers))

    def cancel_all(self, ticker: str | None = None) -> int:
        """Cancel all resting orders of one market, or of all markets, and return their number."""
        self._reacts = True
        self._spend(1)
        code = self._code_or_all(ticker)
        self._discard_values()
        return self._require_result(self._simulator.cancel_all(code))

    def amend(self, order: SupportsIndex, price: int, lots: int) -> str | None:
        """Change the price and the remaining size of a resting order. Returns the reason if the change is refused, else None.

        The order keeps its queue position only if the price is unchanged and the size is reduced.

        Args:
            order: The order or its id.
            price: New limit price of the order's side, $0.0001.
            lots: New remaining size, lots of 0.01 contract.

        Returns:
            None if the order was amended; otherwise the name of the reason of the refusal.

        Raises:
            OrderError: The order is unknown, or the price or size is invalid.
        """
        self._reacts = True
        self._spend(1)
        number = self._id_of(order)
        self._discard_values()
        return REASONS[self._require_result(self._simulator.amend(number, to_price(price), to_lots(lots)))]

    # Internals.

    def _read_pages(self, read: Callable[[int], np.ndarray | None]) -> list[list[int]]:
        """Return all rows of an observation that arrives in pages. read: function that returns the page from a row index on; each page
        costs one call.
        """
        rows: list[list[int]] = []
        while True:
            self._spend(1)
            page = self._require_result(read(len(rows)))
            rows += page.tolist()
            if len(page) < MOST_ROWS:
                return rows

    def _positions(self, code: int) -> list[Position]:
        """Return the position in the market with number `code`; for -1, the position in every market."""
        self._reacts = True
        self._spend(1)
        rows = self._require_result(self._simulator.ledger(code))
        return self._record_reader.positions(self.tickers if code < 0 else (self.tickers[code],), rows)

    def _spend(self, calls: int) -> None:
        self._left -= calls
        if self._left < 0:
            self._refuse(calls)

    def _require_result(self, result: Result | None) -> Result:
        """Return the result of a call of the simulator. Raises `BudgetError` for None, with which the simulator refuses a call."""
        if result is None:
            self._refuse(0)
        return result

    def _refuse(self, calls: int) -> NoReturn:
        self._left += calls
        self._excess_calls += 1
        if self._excess_calls > _MAX_EXCESS_CALLS:
            raise RunawayAgent(f"a decision exceeded its budget of {self._limit} calls by more than {_MAX_EXCESS_CALLS}")
        if not self._calls:
            raise BudgetError("`end` cannot make tool calls; use attributes, or make the call in `act`")
        if self._step < 0 and not calls:
            raise BudgetError("`start` cannot send orders; send them in `act`")
        raise BudgetError(
            f"a decision may make {self._limit} calls, and this one made more; use attributes, `markets()` or `place_many`, or raise calls_per_step"
        )

    def _place(  # noqa: PLR0917
        self, code: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int, until: int, tag: str
    ) -> Order:
        self._discard_values()
        return Order(self, self._tagged(self._require_result(self._simulator.place(code, side, action, price, lots, tif, until, tag)), tag))

    def _tagged(self, number: int, tag: str) -> int:
        """Store `tag` as the label of order `number`, unless the tag is empty or the order has no record, and return the number."""
        if tag and number >= 0:
            self._tags.setdefault(number, tag)
        return number

    def _record_quotes(self, calls_left: int | None) -> None:
        """Set the remaining calls to `calls_left`, the result of sending quotes. Raises `BudgetError` for -1 (the budget did not suffice)
        and for None (the simulator refused the call).
        """
        if calls_left is None:
            self._refuse(0)
        if calls_left == self._left:
            # The resting quote is already the requested one.
            return
        # Post-only orders and cancels change neither books nor positions.
        self._version += 1
        self._left = max(calls_left, 0)
        if calls_left < 0:
            self._refuse(0)

    def _discard_values(self) -> None:
        """Discard the stored books and account values, so that they are read again on next use."""
        self._version += 1
        self._bids = self._stored_bid_rows = self._sizes = self._held = self._stored_position_rows = None

    def _best(self) -> np.ndarray:
        if self._bids is None:
            self._bids = _make_read_only(self._simulator.bids())
        return self._bids

    def _best_sizes(self) -> np.ndarray:
        if self._sizes is None:
            self._sizes = _make_read_only(self._simulator.sizes())
        return self._sizes

    def _status(self) -> np.ndarray:
        if self._states is None:
            self._states = _make_read_only(self._simulator.status())
        return self._states

    def _bid_rows(self) -> list[list[CentiCents]]:
        if self._stored_bid_rows is None:
            self._stored_bid_rows = self._simulator.bids().tolist()
        return self._stored_bid_rows

    def _position_rows(self) -> list[list[Lots]]:
        self._reacts = True
        if self._stored_position_rows is None:
            self._stored_position_rows = self._simulator.positions().tolist()
        return self._stored_position_rows

    def _status_rows(self) -> list[int]:
        if self._states_list is None:
            self._states_list = self._simulator.status().tolist()
        return self._states_list

    def _code_of(self, ticker: str) -> int:
        try:
            return self._code[ticker]
        except (KeyError, TypeError):
            raise OrderError(f"the market {ticker!r:.60} does not exist; available markets: {', '.join(self.tickers[:10])}") from None

    def _code_or_all(self, ticker: str | None) -> int:
        """Return the number of the market `ticker`; -1, meaning all markets, if `ticker` is None."""
        return -1 if ticker is None else self._code_of(ticker)

    def _id_of(self, order: SupportsIndex) -> int:
        number = order.id if isinstance(order, Order) else to_integer(order, "order")
        if not -1 <= number < self._simulator.sent():
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return number

    def _row(self, number: int) -> Row:
        self._reacts = True
        row: Row | None = self._simulator.order(number)
        if row is None:
            raise OrderError(f"there is no order {number}; ids come from `place`")
        return row

    @property
    def _orders_used_up(self) -> bool:
        return self._simulator.sent() >= self._max_orders


def _make_read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _describe_type(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
