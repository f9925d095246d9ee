"""Records that agents read. Prices are in $0.0001 of the named side, sizes in lots of 0.01 contract, money in micro-dollars, times in ns UTC."""

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

#: Columns of an order update.
UPDATE_COLUMNS = ("time_ns", "order", "status", "reason", "price", "lots", "filled", "ticker", "side", "action")


@dataclass(frozen=True, slots=True)
class MarketInfo:
    """Facts of a market that are known before trading starts.

    Attributes:
        ticker: Ticker of the market.
        title: Title; untrusted text.
        open_ns: Open time, ns UTC; None if not announced.
        close_ns: Close time, ns UTC; None if not announced.
        episode: Id of the episode; empty for a tape without an episode.
        venue: Venue of the market; empty for a tape without an episode.
    """

    ticker: str
    title: str = ""
    open_ns: int | None = None
    close_ns: int | None = None
    episode: str = ""
    venue: str = ""


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """Description of an episode or portfolio, without its outcome.

    In a portfolio, the id, venue and rules of its episodes are joined with `+`.

    Attributes:
        id: Id of the episode.
        title: Title; untrusted text.
        venue: Name of the venue.
        markets: Facts of each market, in the order of `AgentContext.tickers`.
        start_ns: Start of the episode, ns UTC.
        end_ns: Latest announced close time of its markets, ns UTC; None without any.
        bankroll: Starting cash, micro-dollars.
        rules: Name of the rule set.
        exogenous: Names of the series of `AgentContext.exogenous`.
        observation_depth: Visible levels of a book per side; -1 for all.
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
        """Tickers of the markets. The index of a ticker is the number of its market in arrays."""
        return tuple(market.ticker for market in self.markets)


@dataclass(frozen=True, slots=True)
class Trade:
    """Trade in the recorded market, as reported by its public feed. The agent's own fills are not included.

    Attributes:
        time_ns: Time of the trade, ns UTC.
        ticker: Ticker of the market.
        yes_price: Price of YES, $0.0001.
        no_price: Price of NO, $0.0001: a dollar less `yes_price`.
        lots: Size, lots of 0.01 contract.
        taker_side: Side that the taker bought: yes or no. Buying NO is selling YES.
    """

    time_ns: int
    ticker: str
    yes_price: CentiCents
    no_price: CentiCents
    lots: Lots
    taker_side: str


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill of one of the agent's orders.

    Attributes:
        time_ns: Time of the fill, ns UTC.
        order: Id of the order.
        ticker: Ticker of the market.
        side: Side of the order as sent: yes or no.
        action: Action of the order as sent: buy or sell.
        price: Price of `side`, $0.0001.
        lots: Filled size, lots of 0.01 contract.
        fee: Fee, micro-dollars.
        role: maker or taker.
        cost: Cost without the fee, micro-dollars; negative for a sale.
        tag: Label of the order.
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
    """State of one of the agent's orders after a change.

    Attributes:
        time_ns: Time of the change, ns UTC.
        order: Id of the order.
        ticker: Ticker of the market; empty if the order named no market.
        side: Side as sent: yes or no.
        action: Action as sent: buy or sell.
        status: resting (accepted, amended or partly filled), filled, cancelled, rejected or expired.
        reason: Reason of a rejection or cancellation, such as insufficient_cash; None otherwise.
        price: Limit price after amendments, $0.0001; 0 for a market order.
        lots: Size after amendments, lots of 0.01 contract.
        filled: Filled size, lots of 0.01 contract.
        tag: Label of the order.
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
        """Unfilled resting size, lots of 0.01 contract; 0 after the order has ended."""
        return Lots(self.lots - self.filled if self.status == "resting" else 0)


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a market and its P&L.

    Attributes:
        ticker: Ticker of the market.
        yes_lots: Position in YES, lots of 0.01 contract; negative for a short, which only some rules allow.
        no_lots: Position in NO, as `yes_lots`.
        yes_cost: Cost of the present position in YES without fees, micro-dollars.
        no_cost: Cost of the present position in NO without fees, micro-dollars.
        realised: P&L without fees of contracts sold, paired with the other side or settled, micro-dollars.
        fees: Fees of all fills, micro-dollars.
        unrealised: Value of the position at its present sale prices less its cost, micro-dollars.
        yes_average: Average cost of a YES contract, $0.0001; None without a position.
        no_average: Average cost of a NO contract, $0.0001; None without a position.
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
        """Realised plus unrealised P&L less fees, micro-dollars. The sum over all markets is `ctx.equity` less the bankroll."""
        return MicroDollars(self.realised + self.unrealised - self.fees)


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Converter of the simulator's integer rows to records such as `Fill`. tags: labels by order id."""

    tickers: Sequence[str]
    tags: Mapping[int, str]

    def trades(self, rows: Iterable[Sequence[Any]]) -> list[Trade]:
        """Convert rows with the columns `TRADE_COLUMNS` to trades."""
        return [
            Trade(ts, self.tickers[code], price, CentiCents(DOLLAR - price), lots, SIDES[taker]) for ts, code, price, lots, taker in rows
        ]

    def fills(self, rows: Iterable[Sequence[Any]]) -> list[Fill]:
        """Convert rows with the columns `FILL_COLUMNS` to fills."""
        return [
            Fill(
                ts,
                order,
                self.tickers[code],
                SIDES[side],
                ACTIONS[action],
                price,
                lots,
                fee,
                _ROLES[role],
                MicroDollars(cost(price, lots) * (1 - 2 * action)),
                self.tags.get(order, ""),
            )
            for order, code, side, action, price, lots, fee, role, ts in rows
        ]

    def updates(self, rows: Iterable[Sequence[Any]]) -> list[OrderUpdate]:
        """Convert rows with the columns `UPDATE_COLUMNS` to order updates."""
        return [
            OrderUpdate(
                ts,
                order,
                self.tickers[code] if code >= 0 else "",
                SIDES[side] if side in (0, 1) else "",
                ACTIONS[action] if action in (0, 1) else "",
                STATUSES[status],
                REASONS[reason],
                price,
                lots,
                filled,
                self.tags.get(order, ""),
            )
            for ts, order, status, reason, price, lots, filled, code, side, action in rows
        ]

    def positions(self, tickers: Iterable[str], rows: Iterable[Sequence[Any]]) -> list[Position]:
        """Convert rows of `Simulator.ledger`, one per ticker, to positions."""
        return [
            Position(ticker, *row, *(row[2 + side] / row[side] if row[side] else None for side in (0, 1)))
            for ticker, row in zip(tickers, rows, strict=True)
        ]


Rows = list[list[int]]
#: Rows of fills, order updates and trades, numbers of the markets whose best prices changed, and times of due timers.
News = tuple[Rows, Rows, Rows, list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Set of the callbacks that an agent defines. At one instant they are called in the order of the fields."""

    on_fill: bool = False
    on_order: bool = False
    on_trade: bool = False
    on_book: bool = False
    on_timer: bool = False

    @property
    def needs_news(self) -> bool:
        """True if the agent has a callback for events other than timers, at which the replay must pause."""
        return any(astuple(self)[:-1])

    @property
    def depend_on_fills(self) -> bool:
        """True if the agent is called for its fills or order updates."""
        return self.on_fill or self.on_order

    def functions(self, agent: type) -> dict[str, Any]:
        """Return the methods of class `agent` for these callbacks, by name."""
        return {name: getattr(agent, name) for name in CALLBACKS if getattr(self, name)}

    @classmethod
    def parse(cls, text: str) -> Callbacks:
        """Build the set of callbacks from their names, separated by spaces; the inverse of `str`."""
        names = text.split()
        return cls(**{name: name in names for name in CALLBACKS})

    def __str__(self) -> str:
        return " ".join(name for name in CALLBACKS if getattr(self, name))

    def __bool__(self) -> bool:
        return any(astuple(self))


CALLBACKS = tuple(field.name for field in fields(Callbacks))
