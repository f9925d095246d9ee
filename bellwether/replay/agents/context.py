"""Context of an agent at a decision: observations and orders.

All amounts are integers: prices in $0.0001 (`45 * CENT`), sizes in lots of 0.01 contract (`10 * CONTRACT`), money in micro-dollars, times in
ns UTC.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any, SupportsIndex

import numpy as np

from bellwether.errors import OrderError
from bellwether.replay.agents.arguments import (
    EPOCH,
    SIDES,
    TIFS,
    check_tag,
    to_code,
    to_integer,
    to_lots,
    to_ns,
    to_price,
)
from bellwether.replay.agents.limits import BudgetError
from bellwether.replay.agents.port import Port, Row
from bellwether.replay.agents.records import REASONS, Book, EpisodeInfo, Fill, Position, Trade, to_fills, to_positions, to_trades
from bellwether.replay.agents.views import BLOCKING, Market, Order
from bellwether.replay.engine.codes import Tif
from bellwether.replay.units import BUY, DOLLAR, SELL
from bellwether.units import CentiCents, MicroDollars

#: Plain integers: passing an enum member to compiled code takes a microsecond longer.
_IOC, _GTC, _GTD = (int(tif) for tif in (Tif.IOC, Tif.GTC, Tif.GTD))

Side = int | str
TimeInForce = int | str


class AgentContext:
    """Observations and orders available to an agent at a decision.

    Prices are in $0.0001, sizes in lots of 0.01 contract, money in micro-dollars, times in ns UTC. Cash, equity, positions and orders are
    live: a fill changes them within the decision.

    Every method raises `OrderError` for invalid arguments. An order that the venue refuses is no error: it is returned with the status
    `rejected` and a reason. `start` and `end` can read everything and send nothing.

    Args:
        port: Connection to the simulator.
        info: Description of the episode.
        seed: Seed of 256 bits.
        calls: Tool calls per decision; None for any number. A method is a call, an attribute is not.

    Attributes:
        tickers: Tickers of the markets. The index of a ticker is the number of its market in arrays.
        seed: Seed of 256 bits; equal for the same episode, agent name and seed of the run.
        info: Description of the episode.
        step: Number of this decision, from 0; -1 in `start`. In a callback, that of the previous decision.
        calls_left: Remaining tool calls of this decision; None without a budget. Each method then costs a call, and raises
            `BudgetError` if none is left.
    """

    __slots__ = (
        "_cache", "_calls", "_code", "_markets", "_order_rows", "_port", "_random", "_sends", "calls_left", "info", "seed", "step", "tickers",
    )  # fmt: skip

    def __init__(self, port: Port, info: EpisodeInfo, *, seed: int = 0, calls: int | None = None) -> None:
        self.info, self.tickers, self.seed = info, info.tickers, seed
        self._port, self._calls = port, calls
        self._random: random.Random | None = None
        self._code = {ticker: code for code, ticker in enumerate(self.tickers)}
        self._markets = tuple(Market(self, code, market.ticker, market.title, market.close_ns) for code, market in enumerate(info.markets))
        #: Values that can change only at a new phase or with an order that may trade.
        self._cache: dict[str, Any] = {}
        self._order_rows: dict[int, Row] = {}
        self._begin(-1, sends=False)

    def _begin(self, step: int, *, sends: bool) -> None:
        """Begin a phase (a decision or callback). step: number of the decision. sends: whether orders may be sent."""
        self.step, self._sends, self.calls_left = step, sends, self._calls
        self._discard_values()

    # Observations.

    @property
    def now_ns(self) -> int:
        """Time of this decision, ns UTC."""
        return self._read("now")

    @property
    def now(self) -> datetime:
        """Time of this decision, timezone-aware UTC, rounded down to the microsecond."""
        return EPOCH + timedelta(microseconds=self.now_ns // 1000)

    @property
    def cash(self) -> MicroDollars:
        """Cash, micro-dollars."""
        return self._read("cash")

    @property
    def available(self) -> MicroDollars:
        """Cash available for new orders, micro-dollars: cash less the reserves of resting orders."""
        return self._port.read("available")

    @property
    def equity(self) -> MicroDollars:
        """Cash plus the value of all positions at their present sale prices, micro-dollars."""
        return self._read("equity")

    @property
    def positions(self) -> np.ndarray:
        """Positions in YES and NO, int64[T, 2], lots of 0.01 contract; a read-only copy."""
        return self._array("positions")

    @property
    def bids(self) -> np.ndarray:
        """Best bids for YES and NO, int64[T, 2], $0.0001, 0 without a bid; a read-only copy. A side's ask is a dollar less the other's bid."""
        return self._array("bids")

    @property
    def sizes(self) -> np.ndarray:
        """Sizes at the best bids for YES and NO, int64[T, 2], lots of 0.01 contract, 0 without a bid; a read-only copy."""
        return self._array("sizes")

    @property
    def active(self) -> np.ndarray:
        """Markets that accept orders, bool[T]."""
        return (self._array("status") & BLOCKING) == 0

    @property
    def random(self) -> random.Random:
        """Random number generator, seeded with `seed`."""
        if self._random is None:
            self._random = random.Random(self.seed)
        return self._random

    def markets(self) -> tuple[Market, ...]:
        """Return all markets, in the order of `tickers`."""
        self._spend()
        return self._markets

    def market(self, ticker: str) -> Market:
        """Return the market of a ticker. Raises `OrderError` for an unknown ticker."""
        self._spend()
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
        self._spend()
        levels = -1 if depth is None else to_integer(depth, "depth")
        if depth is not None and levels < 0:
            raise OrderError(f"reading a book: depth is {depth}; give 0 or more")
        yes, no = self._port.read("book", self._code_of(ticker), levels)
        asks: list[Any] = [tuple((DOLLAR - price, lots) for price, lots in bids) for bids in (no, yes)]
        return Book(ticker, yes, no, *asks)

    def resting(self, ticker: str | None = None) -> list[Order]:
        """Return the agent's resting orders of one market, or of all markets, in price-time priority."""
        self._spend()
        return [Order(self, number) for number in self._port.read("resting", self._code_or_all(ticker))]

    def order(self, number: SupportsIndex) -> Order:
        """Return an order of this run by its id. Raises `OrderError` for an unknown id."""
        self._spend()
        return Order(self, self._id_of(number))

    def exogenous(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return all points that are known now of an exogenous series: data from outside the markets, such as a spot price, stored in the
        episode.

        Args:
            name: Name of the series, one of `info.exogenous`.

        Returns:
            Times, int64, ns UTC, ascending, and values, float64.

        Raises:
            OrderError: The series is unknown.
        """
        self._spend()
        names = self.info.exogenous
        if name not in names:
            raise OrderError(f"reading an exogenous series: {name!r:.60} does not exist; available series: {', '.join(names) or 'none'}")
        return self._port.read("points", names.index(name), 0)

    def trades(self, ticker: str | None = None) -> list[Trade]:
        """Return the recorded trades of one market, or of all markets, since the previous decision, ordered by time.

        The first decision returns all trades so far; a callback returns those since the last decision. Only trades known now are returned.
        """
        self._spend()
        return to_trades(self.tickers, self._port.read("trades", self._code_or_all(ticker)).tolist())

    def fills(self, ticker: str | None = None, *, whole_run: bool = False) -> list[Fill]:
        """Return the agent's fills in one market, or in all markets, since the previous decision began (or in the whole run), in the order
        of booking.

        If every decision first reads its fills, each fill is returned exactly once: an order that trades at once is among the fills of the
        next decision. A callback returns the fills since the last decision began.

        Args:
            whole_run: Return all fills of the run instead.
        """
        self._spend()
        return to_fills(self.tickers, self._port.tags, self._port.read("fills", self._code_or_all(ticker), int(whole_run)).tolist())

    def position(self, ticker: str) -> Position:
        """Return the position in a market, with its average cost and P&L."""
        self._spend()
        return to_positions((ticker,), self._port.read("ledger", self._code_of(ticker)))[0]

    def portfolio(self) -> list[Position]:
        """Return the position in every market, in the order of `tickers`."""
        self._spend()
        return to_positions(self.tickers, self._port.read("ledger", -1))

    def at(self, time: int | datetime) -> None:
        """Set a timer that calls `on_timer` once, at `time`.

        At most 10,000 timers can be pending at once.

        Args:
            time: Time of the call, ns UTC or timezone-aware datetime, later than now.

        Raises:
            OrderError: The time is not later than now or has no time zone, the agent has no `on_timer`, or 10,000 timers are pending.
        """
        self._spend()
        problem = self._port.send("timer", to_ns(time, "time"))
        if problem:
            raise OrderError(f"setting a timer: {problem}")

    # Orders.

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
        """Send an order to buy contracts of a side, and return it.

        With zero latency the returned order already shows whether it was filled, rests or was rejected.

        Args:
            side: YES or NO.
            lots: Size, lots of 0.01 contract, 1 or more.
            price: Limit price of `side`, $0.0001; None for a market order.
            tif: Time in force: GTC, IOC, FOK, POST_ONLY or GTD. Default: GTC, or IOC for a market order.
            expires: Expiry of a GTD order, ns UTC or timezone-aware datetime.
            tag: Label of at most 64 printable characters, stored with the order, its fills and its updates.

        Raises:
            OrderError: An argument is invalid, such as an unknown ticker, a float, or a GTD order without `expires`.
        """
        return self._place(BUY, ticker, side, lots, price, tif, expires, tag)

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
        """Send an order to sell contracts of a side, and return it. Arguments as in `buy`."""
        return self._place(SELL, ticker, side, lots, price, tif, expires, tag)

    def quote(self, ticker: str, bid: int | None, ask: int | None, lots: int, *, tag: str = "") -> tuple[int | None, int | None]:
        """Keep a post-only bid and a post-only ask for YES in the book, and return their order ids.

        A quote that already rests at its price keeps its queue position. The ask is sent as the equivalent bid for NO at a dollar less
        `ask`.

        Args:
            bid: Bid price for YES, $0.0001; None or 0 cancels the bid, -1 leaves it unchanged.
            ask: Ask price for YES, $0.0001; None or 0 cancels the ask, -1 leaves it unchanged.
            lots: Size of each quote, lots of 0.01 contract.
            tag: Label of the orders that are placed, as in `buy`.

        Returns:
            Order ids of the bid and of the ask; None without a quote.

        Raises:
            OrderError: The ticker, a price, the size or the tag is invalid.
        """
        code, size, label = self._code_of(ticker), to_lots(lots), check_tag(tag)
        yes = 0 if bid is None else to_integer(bid, "bid")
        no = 0 if ask is None else to_integer(ask, "ask")
        # The venue refuses bids at a dollar; here they stand for prices that are not in the market at all.
        yes = yes if yes >= -1 else DOLLAR
        no = no if no in (0, -1) else DOLLAR - no if no < DOLLAR else DOLLAR
        bid_id, ask_id = self._send_quotes("quote", code, yes, no, size, label)
        return bid_id if bid_id >= 0 else None, ask_id if ask_id >= 0 else None

    def quote_many(self, prices: np.ndarray, lots: int, *, tag: str = "") -> np.ndarray:
        """Keep a post-only bid for YES and a post-only bid for NO in the book of every market, and return the order ids.

        Args:
            prices: Bid prices for YES and NO of every market, int64[T, 2], $0.0001; 0 cancels a quote, -1 leaves it unchanged.
            lots: Size of each quote, lots of 0.01 contract.
            tag: Label of the orders that are placed, as in `buy`.

        Returns:
            Order ids, int64[T, 2]; -1 without a quote.

        Raises:
            OrderError: `prices` has another dtype or shape, or the size or the tag is invalid.
        """
        shape = (len(self.tickers), 2)
        if not isinstance(prices, np.ndarray) or prices.dtype != np.int64 or prices.shape != shape:
            raise OrderError(f"quoting: prices are {_describe_type(prices)}; give int64{list(shape)}: a row per market, for YES and NO")
        return self._send_quotes("quote_many", prices, to_lots(lots), check_tag(tag))

    def cancel(self, order: SupportsIndex) -> bool:
        """Cancel an order. Returns True if the order was resting; with latency, True if the order may still be resting when the cancel arrives.

        Raises:
            OrderError: The order is unknown.
        """
        return self._send("cancel", self._id_of(order))

    def cancel_all(self, ticker: str | None = None) -> int:
        """Cancel all resting orders of one market, or of all markets, and return their number."""
        return self._send("cancel_all", self._code_or_all(ticker))

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
        return REASONS[self._send("amend", self._id_of(order), to_price(price), to_lots(lots))]

    # Internals.

    def _place(  # noqa: PLR0917
        self,
        action: int,
        ticker: str,
        side: Side,
        lots: int,
        price: int | None,
        tif: TimeInForce | None,
        expires: int | datetime | None,
        tag: str,
    ) -> Order:
        code, side = self._code_of(ticker), to_code(side, SIDES, "side")
        limit = CentiCents(0) if price is None else to_price(price)
        tif = (_IOC if price is None else _GTC) if tif is None else to_code(tif, TIFS, "tif")
        if (tif == _GTD) != (expires is not None):
            raise OrderError("placing an order: expires must be given for GTD, and only for GTD")
        return Order(self, self._send("place", code, side, action, limit, to_lots(lots), tif, to_ns(expires, "expires"), check_tag(tag)))

    def _read(self, name: str) -> Any:
        value = self._cache.get(name)
        if value is None:
            value = self._cache[name] = self._port.read(name)
        return value

    def _array(self, name: str) -> np.ndarray:
        value = self._cache.get(name)
        if value is None:
            value = self._cache[name] = self._port.read(name)
            value.flags.writeable = False
        return value

    def _rows(self, name: str) -> list[Any]:
        """Return the array `name` as lists, which are faster to read singly."""
        key = f"rows of {name}"
        rows = self._cache.get(key)
        if rows is None:
            rows = self._cache[key] = self._array(name).tolist()
        return rows

    def _order_row(self, number: int) -> Row:
        row = self._order_rows.get(number)
        if row is None:
            row = self._port.read("order", number)
            if row is None:
                raise OrderError(f"there is no order {number}; ids come from `buy`")
            self._order_rows[number] = row
        return row

    def _send(self, name: str, *arguments: Any) -> Any:
        self._check_sends()
        self._spend()
        self._discard_values()
        return self._port.send(name, *arguments)

    def _send_quotes(self, name: str, *arguments: Any) -> Any:
        """Send post-only orders and their cancels, which change neither books nor positions."""
        self._check_sends()
        self._spend()
        self._order_rows.clear()
        return self._port.send(name, *arguments)

    def _check_sends(self) -> None:
        if not self._sends:
            raise OrderError("`start` and `end` cannot send orders; send them in `act`")

    def _discard_values(self) -> None:
        self._cache.clear()
        self._order_rows.clear()

    def _spend(self) -> None:
        if self.calls_left is None:
            return
        if not self.calls_left:
            raise BudgetError(f"a decision may make {self._calls} calls, and this one made more; attributes cost none")
        self.calls_left -= 1

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
        if not -1 <= number < self._port.read("sent"):
            raise OrderError(f"there is no order {number}; ids come from `buy`")
        return number


def _describe_type(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
