"""Records that an agent reads. Prices are $0.0001 of the side they are named for, sizes lots (0.01 contract), money micro-dollars, times ns UTC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from bellwether.replay.engine.codes import Reason, Role, Status
from bellwether.replay.units import DOLLAR, cost
from bellwether.units import CentiCents, Lots, MicroDollars

SIDES, ACTIONS = ("yes", "no"), ("buy", "sell")
STATUSES = tuple(status.name.lower() for status in Status)
REASONS = (None, *(reason.name.lower() for reason in Reason if reason))
_ROLES = tuple(role.name.lower() for role in Role)

#: Columns of an update of an order.
UPDATE_COLUMNS = ("time_ns", "order", "status", "reason", "price", "lots", "filled", "ticker", "side", "action")


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

    start_ns: start, ns UTC. end_ns: the latest close announced for its markets, None where one announces none. bankroll: micro-dollars. rules: name of
    the rule set. exogenous: names of the series of `AgentContext.exogenous`. Of a portfolio, id, venue and rules are those of its episodes, joined with
    `+`. observation_depth: levels of a book that are shown, -1 for all. Titles are untrusted text.
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
        """The markets' tickers; a ticker's place is its number in arrays."""
        return tuple(market.ticker for market in self.markets)


@dataclass(frozen=True, slots=True)
class Trade:
    """A trade of the recorded market as its public feed had it; own fills are not among them.

    time_ns: ns UTC. yes_price, no_price: $0.0001. lots: 0.01 contract. taker_side: yes or no, the side that the taker bought; buying NO is selling YES.
    """

    time_ns: int
    ticker: str
    yes_price: CentiCents
    no_price: CentiCents
    lots: Lots
    taker_side: str


@dataclass(frozen=True, slots=True)
class Fill:
    """A fill of an own order.

    time_ns: ns UTC. order: its id. side, action, price ($0.0001): of the order as sent. lots: 0.01 contract. fee: micro-dollars. role: maker or taker.
    cost: without fee, micro-dollars; negative for a sale. tag: of the order.
    """

    time_ns: int
    order: int
    ticker: str
    side: str
    action: str
    price: CentiCents
    lots: Lots
    fee: MicroDollars
    role: str
    cost: MicroDollars
    tag: str = ""


@dataclass(frozen=True, slots=True)
class OrderUpdate:
    """State of an own order.

    time_ns: ns UTC. order: its id. ticker: its market; empty for an order of none. side, action: as sent. status: resting (it was accepted, amended or
    filled in part), filled, cancelled, rejected or expired. reason: of a rejection or a cancel, such as insufficient_cash; None otherwise. price
    ($0.0001, 0 for a market order) and lots (0.01 contract): after amendments. filled: lots so far. tag: of the order.
    """

    time_ns: int
    order: int
    ticker: str
    side: str
    action: str
    status: str
    reason: str | None
    price: CentiCents
    lots: Lots
    filled: Lots
    tag: str = ""

    @property
    def remaining(self) -> Lots:
        """Lots that still rest; 0 once it has ended."""
        return Lots(self.lots - self.filled if self.status == "resting" else 0)


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a market and its result so far.

    yes_lots, no_lots: 0.01 contract; below 0 for a short, which only some rules know. yes_cost, no_cost: cost of these lots without fees,
    micro-dollars. yes_average, no_average: cost per contract, $0.0001; None without a position. realised: P&L of lots sold, paired with the other side
    or settled, without fees. unrealised: value of the lots held at the prices at which they can be sold, less their cost. fees: of all fills. All three
    micro-dollars.
    """

    ticker: str
    yes_lots: Lots
    no_lots: Lots
    yes_cost: MicroDollars
    no_cost: MicroDollars
    realised: MicroDollars
    fees: MicroDollars
    unrealised: MicroDollars
    yes_average: float | None = None
    no_average: float | None = None

    @property
    def pnl(self) -> MicroDollars:
        """Realised and unrealised P&L less fees, micro-dollars: over all markets, `ctx.equity` less the bankroll."""
        return MicroDollars(self.realised + self.unrealised - self.fees)


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Conversion of rows of integers to records. unit: $0.0001 per integer of a price that the agent sees. tags: texts by order."""

    tickers: Sequence[str]
    tags: Mapping[int, str]
    unit: int = 1

    def trades(self, rows: Iterable[Sequence[Any]]) -> list[Trade]:
        """Trades of rows of `TRADE_COLUMNS`."""
        return [
            Trade(ts, self.tickers[code], self._price(price), self._price(DOLLAR - price), lots, SIDES[taker])
            for ts, code, price, lots, taker in rows
        ]

    def fills(self, rows: Iterable[Sequence[Any]]) -> list[Fill]:
        """Fills of rows of `FILL_COLUMNS`."""
        return [
            Fill(
                ts,
                order,
                self.tickers[code],
                SIDES[side],
                ACTIONS[action],
                self._price(price),
                lots,
                fee,
                _ROLES[role],
                MicroDollars(cost(price, lots) * (1 - 2 * action)),
                self.tags.get(order, ""),
            )
            for order, code, side, action, price, lots, fee, role, ts in rows
        ]

    def updates(self, rows: Iterable[Sequence[Any]]) -> list[OrderUpdate]:
        """Updates of orders, of rows of `UPDATE_COLUMNS`."""
        return [
            OrderUpdate(
                ts,
                order,
                self.tickers[code] if code >= 0 else "",
                SIDES[side] if side in (0, 1) else "",
                ACTIONS[action] if action in (0, 1) else "",
                STATUSES[status],
                REASONS[reason],
                self._price(price),
                lots,
                filled,
                self.tags.get(order, ""),
            )
            for ts, order, status, reason, price, lots, filled, code, side, action in rows
        ]

    def positions(self, tickers: Iterable[str], rows: Iterable[Sequence[Any]]) -> list[Position]:
        """Positions of rows of `Simulator.ledger`."""
        return [
            Position(ticker, *row, *(self._average(row[2 + side], row[side]) for side in (0, 1)))
            for ticker, row in zip(tickers, rows, strict=True)
        ]

    def _price(self, price: int) -> Any:
        return price if self.unit == 1 else price // self.unit

    def _average(self, money: int, lots: int) -> float | None:
        return money / (cost(CentiCents(self.unit), Lots(lots))) if lots else None


Rows = list[list[int]]
#: Rows of fills, of updates of orders and of trades, numbers of the markets whose best prices changed, and times of due timers.
News = tuple[Rows, Rows, Rows, list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Callbacks that an agent defines, in the order of their calls."""

    on_fill: bool = False
    on_order: bool = False
    on_trade: bool = False
    on_book: bool = False
    on_timer: bool = False

    @property
    def needs_news(self) -> bool:
        """Return whether the replay must stop for any but timers."""
        return any(astuple(self)[:-1])

    @property
    def react(self) -> bool:
        """Return whether one of them depends on fills."""
        return self.on_fill or self.on_order

    def functions(self, agent: type) -> dict[str, Any]:
        """The callbacks of a class by their names."""
        return {name: getattr(agent, name) for name in CALLBACKS if getattr(self, name)}

    @classmethod
    def named(cls, text: str) -> Callbacks:
        """Parse a text of names; the reverse of `str`."""
        words = text.split()
        return cls(**{name: name in words for name in CALLBACKS})

    def __str__(self) -> str:
        return " ".join(name for name in CALLBACKS if getattr(self, name))

    def __bool__(self) -> bool:
        return any(astuple(self))


CALLBACKS = tuple(field.name for field in fields(Callbacks))
