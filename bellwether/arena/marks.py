"""Marks: values of positions at an instant, from which the values of portfolios follow. Only changes are stored.

Prices are stored by market and outcome, for binary markets for YES only, whenever price or source changes. A position is worth its shares
times the price of its side, before the first price times the midpoint at which it was opened. Prices and ledger together give the value of
every portfolio at any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from bellwether.arena.account import Position, PositionStatus
from bellwether.arena.ledger import Ledger, LedgerEntry
from bellwether.arena.market import YES, complement, fold_case
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import share_value
from bellwether.units import MicroDollars, MicroShares, SharePrice

#: Market and outcome.
PriceKey = tuple[str, str]


class PriceSource(StrEnum):
    """Source of the price that values a position. LIVE: the current quote. PRIOR: the last known price."""

    LIVE = "live"
    PRIOR = "prior"


class HeldPrice(NamedTuple):
    """Stored price of an outcome that agents hold.

    outcome: YES of a binary market, else the case-folded outcome. at: interval of the mark. price: micro-dollars per share. other: price of a
    second source. disagrees: whether the two differ more than the methodology allows. reconstructed: whether it comes from past prices.
    known_at: time of the mark; None means `at`.
    """

    market_id: str
    outcome: str
    at: datetime
    price: SharePrice
    source: PriceSource
    observed_at: datetime | None = None
    other: SharePrice | None = None
    disagrees: bool = False
    reconstructed: bool = False
    known_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PriceObservation:
    """Observed midpoint of an outcome, its time, and the price of a second source for comparison, in micro-dollars per share; None if missing."""

    mid: SharePrice | None
    at: datetime | None = None
    other: SharePrice | None = None


class Mark(NamedTuple):
    """Value of one position. price: micro-dollars per share. value: micro-dollars."""

    price: SharePrice
    value: MicroDollars
    source: PriceSource


class Valuation(NamedTuple):
    """Value of a portfolio from `at` until the next valuation, in micro-dollars. fallbacks: number of positions that are not valued at a current
    quote.
    """

    agent_id: str
    at: datetime
    cash: MicroDollars
    invested: MicroDollars
    positions: MicroDollars
    total: MicroDollars
    profit: MicroDollars
    fallbacks: int


def interval_start(at: datetime, minutes: int = 10) -> datetime:
    """Return the start (UTC) of the interval of `minutes` (a divisor of an hour) that contains an aware instant."""
    utc = at.astimezone(UTC)
    return utc - timedelta(minutes=utc.minute % minutes, seconds=utc.second, microseconds=utc.microsecond)


def price_key(position: Position) -> PriceKey:
    """Return the (market, outcome) whose price values a position: YES in a binary market, else the position's side."""
    return position.market_id, YES if position.binary else fold_case(position.side)


def opening_price(position: Position) -> HeldPrice:
    """Return the midpoint at which a position was opened, as the last known price of its `price_key`."""
    market_id, outcome = price_key(position)
    price = complement(position.mid) if position.binary and fold_case(position.side) == "no" else position.mid
    return HeldPrice(market_id, outcome, position.opened_at, price, PriceSource.PRIOR, position.opened_at)


def select_tick_prices(
    last: Mapping[PriceKey, HeldPrice],
    keys: Iterable[PriceKey],
    observations: Mapping[PriceKey, PriceObservation],
    at: datetime,
    methodology: Methodology,
) -> list[HeldPrice]:
    """Return the prices to store at a tick (a scheduled mark): those whose value or source changed. Outcomes that were never quoted are omitted.

    A stored price of the same interval is kept; a later change is stored in the next interval. last: latest stored price by key. keys:
    requested prices. observations: current ones. at: time of the mark.
    """
    stamp = interval_start(at, methodology.mark_minutes)
    rows = []
    for key in keys:
        stored, observed = last.get(key), observations.get(key)
        row = _tick_price(key, stored, observed, stamp, methodology.source_gap)
        if stored is not None and stored.at >= stamp:
            continue
        if row is not None and (
            stored is None or (row.price, row.source, row.disagrees) != (stored.price, stored.source, stored.disagrees)
        ):
            rows.append(row)
    return rows


def _tick_price(key: PriceKey, stored: HeldPrice | None, observed: PriceObservation | None, at: datetime, gap: Decimal) -> HeldPrice | None:
    if observed is not None and observed.mid is not None and 0 <= observed.mid <= 1_000_000:
        return HeldPrice(
            *key, at, observed.mid, PriceSource.LIVE, observed.at, observed.other, prices_disagree(observed.mid, observed.other, gap)
        )
    return None if stored is None else HeldPrice(*key, at, stored.price, PriceSource.PRIOR, stored.observed_at)


def merge_prices(stored: Iterable[HeldPrice], rows: Iterable[HeldPrice]) -> list[HeldPrice]:
    """Merge prices, sorted by time, market and outcome. A price in `rows` replaces a stored one of the same market, outcome and time."""
    merged = {row[:3]: row for row in (*stored, *rows)}
    return sorted(merged.values(), key=lambda row: (row.at, row.market_id, row.outcome))


def prices_disagree(price: SharePrice | None, other: SharePrice | None, gap: Decimal) -> bool:
    """Return whether two prices differ by more than `gap` dollars; a missing price never disagrees."""
    return price is not None and other is not None and Decimal(abs(price - other)).scaleb(-6) > gap


def mark_position(position: Position, prices: Mapping[PriceKey, HeldPrice]) -> Mark:
    """Return the value of a position at the latest prices; 0 if the position is closed or settled."""
    if position.status is not PositionStatus.OPEN:
        return Mark(SharePrice(0), MicroDollars(0), PriceSource.LIVE)
    return _mark_shares(position, position.shares, prices)


def _mark_shares(position: Position, shares: MicroShares, prices: Mapping[PriceKey, HeldPrice]) -> Mark:
    row = prices.get(price_key(position)) or opening_price(position)
    price = complement(row.price) if position.binary and fold_case(position.side) == "no" else row.price
    return Mark(price, share_value(shares, price), row.source)


@dataclass(slots=True)
class _Portfolio:
    """Portfolio of an agent while changes are applied in order of time. held: shares, cost and mark by position. newest: latest prices."""

    agent_id: str
    initial: MicroDollars
    cash: MicroDollars
    held: dict[str, tuple[MicroShares, MicroDollars, Mark]]
    newest: dict[PriceKey, HeldPrice]
    last: Valuation | None = None

    def valuation(self, at: datetime) -> Valuation:
        # Any avoids a call of `MicroDollars` for each row.
        value: Any = sum(mark.value for _, _, mark in self.held.values())
        invested: Any = sum(cost for _, cost, _ in self.held.values())
        fallbacks = sum(mark.source is not PriceSource.LIVE for _, _, mark in self.held.values())
        total: Any = self.cash + value
        return Valuation(self.agent_id, at, self.cash, invested, value, total, total - self.initial, fallbacks)


def compute_portfolio_curves(ledger: Ledger, prices: Iterable[HeldPrice], *, live: Collection[str] = ()) -> list[Valuation]:
    """Return the value of each agent's portfolio over time: a row per change, sorted by time and agent. Before the first row an agent has its
    initial cash. live: agents that reconstructed prices do not value.

    All changes at one instant form one row.
    """
    seen: dict[PriceKey, HeldPrice] = {}
    newest: dict[PriceKey, HeldPrice] = {}
    positions = {position.position_id: position for account in ledger.accounts.values() for position in account.positions.values()}
    portfolios = {
        agent_id: _Portfolio(agent_id, account.agent.initial_cash, account.agent.initial_cash, {}, seen if agent_id in live else newest)
        for agent_id, account in ledger.accounts.items()
    }
    holders: dict[PriceKey, dict[str, Position]] = defaultdict(dict)
    rows: list[Valuation] = []
    happened: list[LedgerEntry | HeldPrice] = [*ledger.entries, *prices]
    for at, events in groupby(
        sorted(happened, key=_event_order), key=lambda event: event.known_at if isinstance(event, LedgerEntry) else event.at
    ):
        touched: dict[str, None] = {}
        for event in events:
            if isinstance(event, LedgerEntry):
                _update_holding(portfolios[event.agent_id], positions[event.position_id], event, holders)
                touched[event.agent_id] = None
                continue
            newest[event.market_id, event.outcome] = event
            if not event.reconstructed:
                seen[event.market_id, event.outcome] = event
            for position in holders[event.market_id, event.outcome].values():
                portfolio = portfolios[position.agent_id]
                if event.reconstructed and portfolio.newest is seen:
                    continue
                shares, cost, _ = portfolio.held[position.position_id]
                portfolio.held[position.position_id] = shares, cost, _mark_shares(position, shares, portfolio.newest)
                touched[position.agent_id] = None
        rows += _changed_valuations((portfolios[agent_id] for agent_id in sorted(touched)), at)
    return rows


def drawdown(curve: Sequence[int]) -> float | None:
    """Return the largest relative fall from an earlier peak; None for an empty curve. curve: values in order of time."""
    worst, peak = 0.0, None
    for value in curve:
        peak = value if peak is None or value > peak else peak
        if peak > 0:
            worst = max(worst, (peak - value) / peak)
    return None if peak is None else worst


def _update_holding(portfolio: _Portfolio, position: Position, entry: LedgerEntry, holders: dict[PriceKey, dict[str, Position]]) -> None:
    portfolio.cash = entry.cash
    if entry.shares:
        portfolio.held[entry.position_id] = entry.shares, entry.cost, _mark_shares(position, entry.shares, portfolio.newest)
        holders[price_key(position)][entry.position_id] = position
    else:
        portfolio.held.pop(entry.position_id, None)
        holders[price_key(position)].pop(entry.position_id, None)


def _changed_valuations(portfolios: Iterable[_Portfolio], at: datetime) -> Iterable[Valuation]:
    for portfolio in portfolios:
        row = portfolio.valuation(at)
        if portfolio.last is None or row[2:] != portfolio.last[2:]:
            portfolio.last = row
            yield row


def _event_order(event: LedgerEntry | HeldPrice) -> tuple[datetime, int, str, int]:
    if isinstance(event, LedgerEntry):
        return event.known_at, 0, event.agent_id, event.number
    return event.at, 1, f"{event.market_id}\x00{event.outcome}", 0
