"""Records that an agent reads: its episode, trades, its fills, updates of its orders and positions. Prices are mills, sizes lots, money micro-dollars, times ns UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from bellwether.replay.engine.codes import Reason, Role, Status
from bellwether.replay.units import DOLLAR, MILL_LOT, cost
from bellwether.units import Lots, MicroDollars, Mills

_SIDES, _ACTIONS = ("yes", "no"), ("buy", "sell")
_ROLES = tuple(role.name.lower() for role in Role)
_STATUSES = tuple(status.name.lower() for status in Status)
_REASONS = (None, *(reason.name.lower() for reason in Reason if reason))

#: Columns of a row of trades, of fills, and of updates of orders, as the gateway gives them.
TRADE_COLUMNS = ("time_ns", "ticker", "yes_price", "lots", "taker")
FILL_COLUMNS = ("order", "ticker", "side", "action", "price", "lots", "fee", "role", "time_ns")
UPDATE_COLUMNS = ("time_ns", "order", "status", "reason", "price", "lots", "filled", "ticker", "side", "action")
#: Most rows that one call to the gateway gives.
MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class MarketInfo:
    """Facts of a market known before it trades. Times in ns UTC, None where not stated. The title is untrusted text.

    episode, venue: where it is traded; empty for a tape alone.
    """

    ticker: str
    title: str = ""
    open_ns: int | None = None
    close_ns: int | None = None
    episode: str = ""
    venue: str = ""


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """Description of an episode or portfolio for an agent, without its outcome.

    start_ns: start of the episode, ns UTC. end_ns: the latest close that is announced for its markets, None where one announces none. bankroll: micro-dollars. rules: name of the rule set. exogenous: names of the series that
    `AgentContext.exogenous` has. Of a portfolio, id, venue and rules are those of its episodes, joined with `+`. observation_depth: levels of a book that are shown, -1 for all. Titles are untrusted text.
    """

    id: str
    title: str
    venue: str
    markets: tuple[MarketInfo, ...]
    start_ns: int
    end_ns: int | None
    bankroll: MicroDollars
    rules: str
    exogenous: tuple[str, ...] = ()
    observation_depth: int = -1

    @property
    def tickers(self) -> tuple[str, ...]:
        """The markets' tickers; a ticker's place is its code in the vectorised interface."""
        return tuple(market.ticker for market in self.markets)


@dataclass(frozen=True, slots=True)
class Trade:
    """A trade of the recorded market, as its public feed had it; own fills are not among them.

    time_ns: of the trade, ns UTC. yes_price: mills of YES. lots: size. taker_side: yes or no, the side that the taker bought; buying NO is selling
    YES.
    """

    time_ns: int
    ticker: str
    yes_price: Mills
    lots: Lots
    taker_side: str

    @property
    def no_price(self) -> Mills:
        """Mills of NO."""
        return Mills(DOLLAR - self.yes_price)


@dataclass(frozen=True, slots=True)
class Fill:
    """A fill of an own order.

    time_ns: ns UTC. order: its id. side, action, price (mills): of the order as sent. lots: size. fee: micro-dollars. role: maker or taker.
    """

    time_ns: int
    order: int
    ticker: str
    side: str
    action: str
    price: Mills
    lots: Lots
    fee: MicroDollars
    role: str

    @property
    def cost(self) -> MicroDollars:
        """Cost without fee, micro-dollars; negative for a sale."""
        paid = cost(self.price, self.lots)
        return paid if self.action == "buy" else MicroDollars(-paid)


@dataclass(frozen=True, slots=True)
class OrderUpdate:
    """State of an own order.

    time_ns: when, ns UTC. order: its id. ticker: its market; empty for an order of none. side, action: as sent. status: resting (it was accepted, amended or filled in part),
    filled, cancelled, rejected or expired. reason: why it was rejected or cancelled, in a word such as insufficient_cash; None otherwise. price (mills, 0 for
    a market order) and lots: what it asks for, after amendments. filled: lots so far.
    """

    time_ns: int
    order: int
    ticker: str
    side: str
    action: str
    status: str
    reason: str | None
    price: Mills
    lots: Lots
    filled: Lots

    @property
    def remaining(self) -> Lots:
        """Lots that still rest; 0 once it has ended."""
        return Lots(self.lots - self.filled if self.status == "resting" else 0)


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a market and its result so far. Sizes in lots, money in micro-dollars.

    yes_lots, no_lots: held; below 0 for a short, which only some rules know. yes_cost, no_cost: what these lots cost, without fees. realised: P&L of
    what was sold, paired with the other side or settled, without fees. unrealised: what the lots held would bring now, each at the price at which
    it can be sold, less their cost. fees: of all fills of the market.
    """

    ticker: str
    yes_lots: Lots
    no_lots: Lots
    yes_cost: MicroDollars
    no_cost: MicroDollars
    realised: MicroDollars
    fees: MicroDollars
    unrealised: MicroDollars

    @property
    def yes_average(self) -> float | None:
        """Average cost of the YES held, mills; None where none is held."""
        return self.yes_cost / (MILL_LOT * self.yes_lots) if self.yes_lots else None

    @property
    def no_average(self) -> float | None:
        """Average cost of the NO held, mills; None where none is held."""
        return self.no_cost / (MILL_LOT * self.no_lots) if self.no_lots else None

    @property
    def pnl(self) -> MicroDollars:
        """Realised and unrealised P&L less fees: over all markets, what `ctx.equity` is above the bankroll."""
        return MicroDollars(self.realised + self.unrealised - self.fees)


def trades_of(rows: Iterable[Sequence[Any]], tickers: Sequence[str]) -> list[Trade]:
    """Rows of `TRADE_COLUMNS` as trades."""
    return [Trade(ts, tickers[code], price, lots, _SIDES[taker]) for ts, code, price, lots, taker in rows]


def fills_of(rows: Iterable[Sequence[Any]], tickers: Sequence[str]) -> list[Fill]:
    """Rows of `FILL_COLUMNS` as fills."""
    return [
        Fill(ts, order, tickers[code], _SIDES[side], _ACTIONS[action], price, lots, fee, _ROLES[role])
        for order, code, side, action, price, lots, fee, role, ts in rows
    ]


def updates_of(rows: Iterable[Sequence[Any]], tickers: Sequence[str]) -> list[OrderUpdate]:
    """Rows of `UPDATE_COLUMNS` as updates of orders."""
    return [
        OrderUpdate(
            ts,
            order,
            tickers[code] if code >= 0 else "",
            _SIDES[side] if side in (0, 1) else "",
            _ACTIONS[action] if action in (0, 1) else "",
            _STATUSES[status],
            _REASONS[reason],
            price,
            lots,
            filled,
        )
        for ts, order, status, reason, price, lots, filled, code, side, action in rows
    ]


Rows = list[list[int]]
#: Rows of fills, of updates of orders, of trades, and codes of the markets whose best prices changed.
News = tuple[Rows, Rows, Rows, list[int]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callbacks of an agent."""

    on_fill: bool = False
    on_order: bool = False
    on_trade: bool = False
    on_book: bool = False

    def functions(self, agent: type) -> dict[str, Any]:
        """Those of a class by their names."""
        return {name: getattr(agent, name) for name in CALLBACKS if getattr(self, name)}

    @classmethod
    def named(cls, text: str) -> Callbacks:
        """Of a text of names; the reverse of `str`."""
        words = text.split()
        return cls(**{name: name in words for name in CALLBACKS})

    def __str__(self) -> str:
        return " ".join(name for name in CALLBACKS if getattr(self, name))

    def __bool__(self) -> bool:
        return any(astuple(self))


#: Their names, in the order of calls.
CALLBACKS = tuple(field.name for field in fields(Callbacks))
