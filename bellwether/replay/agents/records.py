"""Records that agents read. Prices are in $0.0001 of the named side, sizes in lots of 0.01 contract, money in micro-dollars, times in ns UTC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bellwether.replay.engine.codes import Reason, Role, Status
from bellwether.replay.units import DOLLAR, cost
from bellwether.units import CentiCents, Lots, MicroDollars

#: Names of codes, by code.
SIDES, ACTIONS = ("yes", "no"), ("buy", "sell")
STATUSES = tuple(status.name.lower() for status in Status)
REASONS = (None, *(reason.name.lower() for reason in Reason if reason))
ROLES = tuple(role.name.lower() for role in Role)


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
    """Description of the episodes of a run, without their outcome.

    The ids, venues and rules of several episodes are joined with `+`.

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


Levels = tuple[tuple[CentiCents, Lots], ...]


@dataclass(frozen=True, slots=True)
class Book:
    """Levels of a market's book.

    Each side is a tuple of (price, lots) pairs, best first: price in $0.0001, size in lots of 0.01 contract. The asks of a side are the
    bids for the other side at a dollar less their price.

    Attributes:
        ticker: Ticker of the market.
        yes_bids: Bids for YES.
        no_bids: Bids for NO.
        yes_asks: Asks for YES.
        no_asks: Asks for NO.
    """

    ticker: str
    yes_bids: Levels
    no_bids: Levels
    yes_asks: Levels
    no_asks: Levels


def to_trades(tickers: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Trade]:
    """Convert records `codes.TRADE` to trades."""
    return [Trade(ts, tickers[code], price, CentiCents(DOLLAR - price), lots, SIDES[taker]) for ts, code, price, lots, taker in rows]


def to_fills(tickers: Sequence[str], tags: Mapping[int, str], rows: Iterable[Sequence[Any]]) -> list[Fill]:
    """Convert records `codes.FILL` to fills. tags: labels by order id."""
    return [
        Fill(
            ts,
            order,
            tickers[code],
            SIDES[side],
            ACTIONS[action],
            price,
            lots,
            fee,
            ROLES[role],
            MicroDollars(cost(price, lots) * (1 - 2 * action)),
            tags.get(order, ""),
        )
        for order, code, side, action, price, lots, fee, role, ts, _ in rows
    ]


def to_updates(tickers: Sequence[str], tags: Mapping[int, str], rows: Iterable[Sequence[Any]]) -> list[OrderUpdate]:
    """Convert records `codes.UPDATE` to order updates. tags: labels by order id."""
    return [
        OrderUpdate(
            ts,
            order,
            tickers[code] if code >= 0 else "",
            SIDES[side] if side in (0, 1) else "",
            ACTIONS[action] if action in (0, 1) else "",
            STATUSES[status],
            REASONS[reason],
            price,
            lots,
            filled,
            tags.get(order, ""),
        )
        for ts, order, status, reason, price, lots, filled, code, side, action in rows
    ]


def to_positions(tickers: Iterable[str], rows: Iterable[Sequence[Any]]) -> list[Position]:
    """Convert rows of the port's `ledger`, one per ticker, to positions."""
    return [
        Position(ticker, *row, *(row[2 + side] / row[side] if row[side] else None for side in (0, 1)))
        for ticker, row in zip(tickers, rows, strict=True)
    ]
