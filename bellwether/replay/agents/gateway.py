"""The simulator's side of what an agent sees and sends: it knows the session, counts the budget, and gives out copies.

An agent's context calls it through `door.hidden`, which has no attribute that leads back here, or from another process. Everything that goes in is an
integer or an int64 array, everything that comes out an integer, a tuple of integers or a new array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bellwether.replay.agents.records import FILL_COLUMNS, MOST_ROWS, TRADE_COLUMNS, Callbacks, News
from bellwether.replay.engine import codes
from bellwether.replay.engine.marks import unrealised
from bellwether.replay.units import DOLLAR
from bellwether.units import Lots, MicroDollars, Mills

if TYPE_CHECKING:
    from bellwether.replay.engine import Session
    from bellwether.replay.engine import Settings as EngineSettings
    from bellwether.replay.rules import RuleSet

_RESTING, _FILLED = int(codes.Status.RESTING), int(codes.Status.FILLED)

#: What an agent may know of its order: columns of the engine's row, in this order. Its place in the queue is not among them.
ORDER_COLUMNS = (
    codes.O_TICKER,
    codes.O_SIDE,
    codes.O_ACTION,
    codes.O_PRICE,
    codes.O_COUNT,
    codes.O_FILLED,
    codes.O_STATUS,
    codes.O_REASON,
    codes.O_COST,
    codes.O_FEES,
)
TICKER, SIDE, ACTION, PRICE, LOTS, FILLED, STATUS, REASON, COST, FEES = range(len(ORDER_COLUMNS))

#: An order as an agent sees it, by `ORDER_COLUMNS`.
Row = tuple[int, ...]


#: What `UPDATE_COLUMNS` say of an order besides the columns of the engine's updates.
_SENT_AS = [codes.O_TICKER, codes.O_SIDE, codes.O_ACTION]
#: `FILL_COLUMNS` are the first columns of the engine's fills.
_FILL_WIDTH = len(FILL_COLUMNS)


def _no_trades() -> np.ndarray:
    return np.zeros((0, len(TRADE_COLUMNS)), np.int64)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what an episode is traded. fees: int64[T, 7], rows of `fee_terms`. grid: uint8[T, 1001], prices (mills) that orders may have.

    units: of a portfolio, int64[T, 6], as `Tape.units`. tape_digest: SHA-256 of the tape's content. calls_per_step: tool calls of a decision.
    """

    rules: RuleSet
    settings: EngineSettings
    fees: np.ndarray
    grid: np.ndarray
    units: np.ndarray
    tape_digest: str
    calls_per_step: int


class Gateway:
    """Observations and orders of one run. A call that costs more than is left of the budget does nothing and returns None.

    frozen: cash, equity and resting orders are shown as the decision found them. data_latency: ns until the agent sees an event. observation_depth:
    levels of a book that are shown, -1 for all. series: name -> (ts, values) of the whole episode; trades: gives those of the whole episode, int64[n, 5],
    columns `TRADE_COLUMNS`, by time; what lies beyond now is never given out.
    """

    def __init__(
        self,
        session: Session,
        *,
        frozen: bool = False,
        calls_per_step: int = 100,
        data_latency: int = 0,
        observation_depth: int = -1,
        series: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        trades: Callable[[], np.ndarray] = _no_trades,
    ) -> None:
        self._session, self._frozen, self._limit, self._left = session, frozen, calls_per_step, 0
        self._delay, self._shown, self._series = data_latency, observation_depth, list((series or {}).values())
        self._tickers = len(session.positions)
        self._every = np.arange(self._tickers)
        #: int64[T, 2], as arrays and as lists: best bids for YES and NO in mills, 0 for none; lots held of YES and NO. int64[T]: bits of
        #: `codes.TickerStatus`. Methods of arrays that stay where they are: no frame of Python for what is read most.
        self.bids, self.bid_rows = session.best.copy, session.best.tolist
        self.positions, self.position_rows = session.positions.copy, session.positions.tolist
        self.statuses, self.status_list = session.status.copy, session.status.tolist
        self._cash, self._equity, self._known_orders = session.cash, session.cash, 0
        self._dropped: set[int] = set()
        self._cancelled: set[int] = set()
        self._read_trades = trades
        self._fill_count = session.fill_count
        #: Whether this is a call between decisions, and all of its instant has happened.
        self._between = self._is_over = False
        #: Fills, trades and best prices that the agent was told of between decisions; None where it is told of none. Whether it is of its orders.
        self._told: int | None = None
        self._tells_orders = False
        self._heard: int | None = None
        self._seen_bids: np.ndarray | None = None

    def begin(self) -> None:
        """A decision point was reached: the budget is whole again."""
        self._left = self._limit
        self._between = self._is_over = False
        if self._frozen:
            self._freeze()

    def wake(self, *, stopped: bool) -> None:
        """The agent is called between two decisions: the budget is whole again. stopped: the session is at a stop that is no decision."""
        self._left, self._between, self._is_over = self._limit, True, self._is_over or stopped
        if self._frozen:
            self._freeze()

    def _freeze(self) -> None:
        """Rules with frozen observations: show the present money and orders until the next call."""
        self._cash, self._equity, self._known_orders = self._session.cash, self._session.equity(), len(self._session.orders)
        self._dropped |= self._cancelled
        self._cancelled.clear()

    def end(self) -> None:
        """The agent has answered: nothing that costs can be called until the next decision."""
        self._left = 0

    # Notifications of an agent between decisions.

    def watch(self, callbacks: Callbacks) -> None:
        """Stop the session for the agent's notifications. Called before its first step."""
        times = []
        self._tells_orders = callbacks.on_order
        if callbacks.on_fill:
            self._told = 0
        if callbacks.on_trade:
            self._heard = int(np.searchsorted(self._trade_times, self._session.tape.start - self._delay, side="right"))
            times.append(self._trade_times)
        if callbacks.on_book:
            self._seen_bids = self.bids()
            times.append(self._quote_times())
        self._session.stop_at_news(np.concatenate(times) if times else None, fills=callbacks.on_fill, orders=callbacks.on_order)

    def news(self) -> News | None:
        """New fills, order updates, trades and changes of best prices; None without any."""
        fills: list[list[int]] = []
        orders = self._updates() if self._tells_orders else []
        trades: list[list[int]] = []
        books: list[int] = []
        if self._told is not None and self._told < self._fill_count():
            fills = self._session.known_fills[self._told :, :_FILL_WIDTH].tolist()
            self._told = self._session.told()
        if self._heard is not None:
            until = self._trades_until()
            if until > self._heard:
                trades, self._heard = self._trades[self._heard : until].tolist(), until
        if self._seen_bids is not None:
            bids = self.bids()
            books, self._seen_bids = np.flatnonzero((bids != self._seen_bids).any(axis=1)).tolist(), bids
        return (fills, orders, trades, books) if fills or orders or trades or books else None

    def _updates(self) -> list[list[int]]:
        """Rows of `UPDATE_COLUMNS`."""
        rows = self._session.updates()
        return (
            np.hstack([rows[:, : codes.U_FILLED + 1], self._session.orders[rows[:, codes.U_ORDER]][:, _SENT_AS]]).tolist()
            if len(rows)
            else []
        )

    # What costs nothing.

    def now(self) -> int:
        """Time of the decision, ns UTC."""
        return self._session.now

    def sizes(self) -> np.ndarray:
        """int64[T, 2]: lots at the best bids for YES and NO."""
        best = self._session.best
        return np.stack([np.where(best[:, side] > 0, self._session.book[self._every, side, best[:, side]], 0) for side in (0, 1)], axis=1)

    def cash(self) -> MicroDollars:
        """Micro-dollars."""
        return self._cash if self._frozen else self._session.cash

    def available(self) -> MicroDollars:
        """Cash that nothing is reserved from, micro-dollars."""
        return self._session.available

    def equity(self) -> MicroDollars:
        """Cash and positions at the prices at which they could be sold now, micro-dollars."""
        return self._equity if self._frozen else self._session.equity()

    def sent(self) -> int:
        """Number of orders sent so far."""
        return len(self._session.orders)

    def order(self, number: int) -> Row | None:
        """Return an order by its id; None for an unknown id."""
        orders = self._session.known_orders
        if not 0 <= number < len(orders):
            return None
        row = orders[number].tolist()
        return tuple([row[column] for column in ORDER_COLUMNS])

    def conditions(self) -> Conditions:
        """Under what the episode is traded, as copies."""
        session = self._session
        return Conditions(
            replace(session.rules),
            replace(session.settings),
            session.tape.fees.copy(),
            session.tape.grid.copy(),
            session.tape.units.copy(),
            session.tape.digest,
            self._limit,
        )

    # What costs calls.

    def book(self, code: int, depth: int) -> tuple[tuple[tuple[Mills, Lots], ...], ...] | None:
        """The bids for YES and for NO as (price, lots), best first; depth: most levels of a side, -1 for all."""
        if not self._known(code) or not self._spend(1):
            return None
        depths = [levels for levels in (depth, self._shown) if levels >= 0]
        sides = []
        for side in (0, 1):
            sizes = self._session.book[code, side]
            prices = np.flatnonzero(sizes)[::-1][: min(depths) if depths else None]
            sides.append(tuple(zip(prices.tolist(), sizes[prices].tolist(), strict=True)))
        return tuple(sides)

    def resting(self, code: int) -> list[int] | None:
        """Ids of the orders in the book, of one market or of all for -1, in price-time priority."""
        if not (code == -1 or self._known(code)) or not self._spend(1):
            return None
        numbers = self._listed(code) if self._frozen else self._session.resting(code)
        return numbers.tolist()

    def are_resting(self, numbers: np.ndarray) -> np.ndarray | None:
        """bool[n]: which orders are in the book's queue now; False for ids of no order."""
        if not self._spend(1):
            return None
        orders = self._session.known_orders
        known = (numbers >= 0) & (numbers < len(orders))
        found = np.zeros(len(numbers), bool)
        found[known] = orders[numbers[known], codes.O_STATUS] == _RESTING
        return found

    def points(self, series: int, after: int) -> tuple[np.ndarray, np.ndarray] | None:
        """(ts, values) of a series from the point `after` on that are known now."""
        if not 0 <= series < len(self._series) or not self._spend(1):
            return None
        ts, values = self._series[series]
        known = int(np.searchsorted(ts, self._session.now - self._delay, side="right"))
        first = max(after, 0)
        return ts[first:known].copy(), values[first:known].copy()

    def trades(self, code: int, after: int) -> np.ndarray | None:
        """int64[n, 5], columns `TRADE_COLUMNS`: trades since the decision before, of one market or of all for -1; at most `MOST_ROWS` from the row
        `after` on.
        """
        if not (code == -1 or self._known(code)) or after < 0 or not self._spend(1):
            return None
        last = self._session.step_index - (0 if self._between else 1)
        since = int(np.searchsorted(self._trade_times, self._session.decisions[last], side=self._bound)) if last >= 0 else 0
        rows = self._trades[since : self._trades_until()]
        return (rows if code < 0 else rows[rows[:, 1] == code])[after : after + MOST_ROWS].copy()

    def fills(self, code: int, whole: int, after: int) -> np.ndarray | None:
        """int64[n, 9], columns `FILL_COLUMNS`: own fills since the decision before, or all for `whole`; otherwise as `trades`."""
        if not (code == -1 or self._known(code)) or after < 0 or not self._spend(1):
            return None
        first = 0 if whole else self._session.fills_before[self._between]
        rows = self._session.known_fills[first:, :_FILL_WIDTH]
        return (rows if code < 0 else rows[rows[:, codes.F_TICKER] == code])[after : after + MOST_ROWS].copy()

    def ledger(self, code: int) -> list[list[Any]] | None:
        """Of one market, or of each for -1: lots of YES and NO, their costs, realised P&L, fees, unrealised P&L."""
        if not (code == -1 or self._known(code)) or not self._spend(1):
            return None
        session = self._session
        chosen = slice(None) if code < 0 else slice(code, code + 1)
        missing = Mills(DOLLAR // 2 if session.rules.mark_missing == "fifty" else 0)
        columns = (session.positions[chosen].tolist(), session.ledger[chosen].tolist(), session.best[chosen].tolist())
        return [[*held, *money, unrealised(held, money[:2], bids, missing)] for held, money, bids in zip(*columns, strict=True)]

    @cached_property
    def _trades(self) -> np.ndarray:
        return self._read_trades()

    @cached_property
    def _trade_times(self) -> np.ndarray:
        return np.ascontiguousarray(self._trades[:, 0])

    def _quote_times(self) -> np.ndarray:
        """Times of changes of best prices on the tape, int64, ns."""
        from bellwether.replay.results.markouts import tops_of

        return np.unique(tops_of(self._session.tape).ts)

    @property
    def _bound(self) -> Literal["left", "right"]:
        """Where decisions stand before the prints of their instant, these are not known yet."""
        return "left" if self._session.rules.decisions == "book_rows" else "right"

    def _trades_until(self) -> int:
        """Number of trades known now."""
        side: Literal["left", "right"] = "right" if self._is_over else self._bound
        return int(np.searchsorted(self._trade_times, self._session.now - self._delay, side=side))

    # Orders.

    def place(self, code: int, side: int, action: int, price: Mills, lots: Lots, tif: int, expires: int) -> int | None:  # noqa: PLR0917
        """Send an order; its id, or -1 for one of which the venue has no record."""
        if not self._spend(1):
            return None
        return self._session.place(code, side, action, price, lots, tif, expires)

    def place_many(self, requests: np.ndarray) -> np.ndarray | None:
        """Send orders, int64[n, 7]; int64[n], as `place` for each."""
        if not self._spend(len(requests)):
            return None
        return self._session.place_many(requests)

    def cancel(self, number: int) -> bool | None:
        """Cancel an order; whether it rested."""
        if not self._spend(1):
            return None
        done = self._session.cancel(number)
        if done and self._frozen:
            self._cancelled.add(number)
        return done

    def cancel_many(self, numbers: np.ndarray) -> np.ndarray | None:
        """Cancel orders; bool[n], as `cancel` for each."""
        if not self._spend(len(numbers)):
            return None
        if self._frozen:
            self._cancelled.update(numbers[(numbers >= 0) & (numbers < self.sent())].tolist())
        return self._session.cancel_many(numbers)

    def cancel_all(self, code: int) -> int | None:
        """Cancel every order of a market, or of all for -1; how many rested."""
        if not (code == -1 or self._known(code)) or not self._spend(1):
            return None
        if self._frozen:
            self._cancelled.update(self._listed(code).tolist())
        return self._session.cancel_all(code)

    def amend(self, number: int, price: Mills, lots: Lots) -> int | None:
        """Change an order's price or remaining size: 0, or the code of the reason why not."""
        if not self._spend(1):
            return None
        return self._session.amend(number, price, lots)

    def quote(self, code: int, yes_price: Mills, no_price: Mills, lots: Lots, calls: int) -> int | None:
        """Keep two post-only bids in the book for at most `calls`; how many of them are left, -1 if they did not suffice."""
        if not self._known(code):
            return None
        most, before = max(0, min(calls, self._left)), self._before()
        return self._quoted(most, self._session.quote(code, yes_price, no_price, lots, most), before)

    def quote_many(self, prices: np.ndarray, lots: Lots, calls: int) -> int | None:
        """`quote` for all markets, int64[T, 2]."""
        if prices.shape != (self._tickers, 2):
            return None
        most, before = max(0, min(calls, self._left)), self._before()
        return self._quoted(most, self._session.quote_many(prices, lots, most), before)

    def _before(self) -> np.ndarray | None:
        return self._session.quoted if self._frozen else None

    def _quoted(self, most: int, left: int, before: np.ndarray | None) -> int:
        """Spend what a quote cost, and note which of the quotes before it cancelled."""
        self._left -= most - left if left > 0 else most
        if before is not None:
            gone = before[(before >= 0) & (before != self._session.quoted)]
            rows = self._session.orders[gone]
            taken_back = (rows[:, codes.O_STATUS] <= _RESTING) | (rows[:, codes.O_REASON] == codes.Reason.AGENT)
            self._cancelled.update(gone[taken_back].tolist())
        return left

    def _known(self, code: int) -> bool:
        return 0 <= code < self._tickers

    def _spend(self, calls: int) -> bool:
        if calls > self._left:
            return False
        self._left -= calls
        return True

    def _listed(self, code: int) -> np.ndarray:
        """Frozen observations: what rested when the step began, and what has filled since it rested and was not cancelled."""
        orders = self._session.orders[: self._known_orders]
        status = orders[:, codes.O_STATUS]
        maker_filled = (status == _FILLED) & (orders[:, codes.O_TAKEN] < orders[:, codes.O_COUNT])
        listed = (status == _RESTING) | maker_filled
        listed[[number for number in self._cancelled if number < len(listed)]] = True
        listed[[number for number in self._dropped if number < len(listed)]] = False
        if code >= 0:
            listed &= orders[:, codes.O_TICKER] == code
        return np.flatnonzero(listed)
