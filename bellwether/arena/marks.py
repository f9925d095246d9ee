"""Marks: what portfolios are worth between trades, stored only where something changed.

Prices are stored by market and outcome, of binary markets for YES alone; a row when price or source differs from the last one. A position is worth
shares × price of its side; before its first price what it cost. With the ledger that gives every portfolio at every instant.
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

from bellwether.arena.account import Account, Position, PositionStatus
from bellwether.arena.ledger import Book, Entry
from bellwether.arena.market import YES, complement, folded
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import value_of
from bellwether.units import MicroDollars, MicroShares, SharePrice

#: A price by market and outcome.
PriceKey = tuple[str, str]


class Source(StrEnum):
    """Source of the price of a mark: a present quote; the last known price if there is no quote; the entry price if there never was one."""

    LIVE = "live"
    PRIOR = "prior"
    ENTRY = "entry"


class Price(NamedTuple):
    """One stored price.

    outcome: YES of a binary market, else the name of the outcome in lower case. at: the bucket of the mark. price: micro-dollars per share. other: the price
    of a second source; disagrees: it is further away than the methodology allows. reconstructed: from past prices, and not seen then. known_at: when it
    was marked; None: at.
    """

    market_id: str
    outcome: str
    at: datetime
    price: SharePrice
    source: Source
    observed_at: datetime | None = None
    other: SharePrice | None = None
    disagrees: bool = False
    reconstructed: bool = False
    known_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Observation of one outcome in a tick: its midpoint and when, and the price of another source; micro-dollars per share, None without."""

    mid: SharePrice | None
    at: datetime | None = None
    other: SharePrice | None = None


class Mark(NamedTuple):
    """The value of one position. price: micro-dollars per share. value: micro-dollars."""

    price: SharePrice
    value: MicroDollars
    source: Source


class Valuation(NamedTuple):
    """A portfolio from `at` on, until the next one. Micro-dollars. fallbacks: positions whose price is not live."""

    agent_id: str
    at: datetime
    cash: MicroDollars
    invested: MicroDollars
    positions: MicroDollars
    total: MicroDollars
    profit: MicroDollars
    fallbacks: int


def bucket(at: datetime, minutes: int = 10) -> datetime:
    """The start of the interval of `minutes` (a divisor of an hour) that an aware instant lies in, in UTC: clocks that go back or forth do not matter."""
    utc = at.astimezone(UTC)
    return utc - timedelta(minutes=utc.minute % minutes, seconds=utc.second, microseconds=utc.microsecond)


def price_key(position: Position) -> PriceKey:
    """The stored price that values a position."""
    return position.market_id, YES if position.binary else folded(position.side)


def tick(
    last: Mapping[PriceKey, Price], keys: Iterable[PriceKey], seen: Mapping[PriceKey, Observed], at: datetime, methodology: Methodology
) -> list[Price]:
    """The prices to store for one tick: those that differ from the last stored ones in price or source; none for what was never quoted.

    A price stored in the same bucket stays: a later change is stored in the next bucket. last: the newest stored price by key. keys: those wanted. seen:
    what the sources say now. at: the time of the tick.
    """
    stamp = bucket(at, methodology.mark_minutes)
    rows = []
    for key in keys:
        before, now = last.get(key), seen.get(key)
        row = _row(key, before, now, stamp, methodology.source_gap)
        if before is not None and before.at >= stamp:
            continue
        if row is not None and (
            before is None or (row.price, row.source, row.disagrees) != (before.price, before.source, before.disagrees)
        ):
            rows.append(row)
    return rows


def _row(key: PriceKey, before: Price | None, now: Observed | None, at: datetime, gap: Decimal) -> Price | None:
    if now is not None and now.mid is not None and 0 <= now.mid <= 1_000_000:
        return Price(*key, at, now.mid, Source.LIVE, now.at, now.other, disagree(now.mid, now.other, gap))
    return None if before is None else Price(*key, at, before.price, Source.PRIOR, before.observed_at)


def merged(stored: Iterable[Price], rows: Iterable[Price]) -> list[Price]:
    """Stored prices and further rows, which replace those of the same market, outcome and interval."""
    found = {row[:3]: row for row in (*stored, *rows)}
    return sorted(found.values(), key=lambda row: (row.at, row.market_id, row.outcome))


def disagree(one: SharePrice | None, other: SharePrice | None, gap: Decimal) -> bool:
    """Return whether two prices of the same thing are more than `gap` dollars apart; a missing one disagrees with nothing."""
    return one is not None and other is not None and Decimal(abs(one - other)).scaleb(-6) > gap


def mark(position: Position, prices: Mapping[PriceKey, Price]) -> Mark:
    """Value of a position at the newest prices; 0 of a closed or settled one."""
    if position.status is not PositionStatus.OPEN:
        return Mark(SharePrice(0), MicroDollars(0), Source.LIVE)
    return _marked(position, position.shares, position.cost, prices)


def _marked(position: Position, shares: MicroShares, cost: MicroDollars, prices: Mapping[PriceKey, Price]) -> Mark:
    row = prices.get(price_key(position))
    if row is None:
        return Mark(position.average, cost, Source.ENTRY)
    price = complement(row.price) if position.binary and folded(position.side) == "no" else row.price
    return Mark(price, value_of(shares, price), row.source)


def valuation(account: Account, prices: Mapping[PriceKey, Price], at: datetime) -> Valuation:
    """A portfolio at the newest prices."""
    marks = [mark(position, prices) for position in account.open.values()]
    value = MicroDollars(sum(one.value for one in marks))
    total = MicroDollars(account.cash + value)
    fallbacks = sum(one.source is not Source.LIVE for one in marks)
    agent = account.agent
    profit = MicroDollars(total - agent.initial_cash)
    return Valuation(agent.agent_id, at, account.cash, account.invested, value, total, profit, fallbacks)


@dataclass(slots=True)
class _Portfolio:
    """An agent's portfolio while the curve is drawn. held: shares, cost and mark by position. newest: the prices that it is worth."""

    agent_id: str
    initial: MicroDollars
    cash: MicroDollars
    held: dict[str, tuple[MicroShares, MicroDollars, Mark]]
    newest: dict[PriceKey, Price]
    last: Valuation | None = None

    def valuation(self, at: datetime) -> Valuation:
        # Any: `MicroDollars` is not called for each row of a curve.
        value: Any = sum(one.value for _, _, one in self.held.values())
        invested: Any = sum(cost for _, cost, _ in self.held.values())
        fallbacks = sum(one.source is not Source.LIVE for _, _, one in self.held.values())
        total: Any = self.cash + value
        return Valuation(self.agent_id, at, self.cash, invested, value, total, total - self.initial, fallbacks)


def curves(book: Book, prices: Iterable[Price], *, live: Collection[str] = ()) -> list[Valuation]:
    """The portfolios of all agents over time: a row when any number of it changed, by time and agent. Before its first row an agent has its initial cash.

    live: agents of live cohorts, which reconstructed prices do not value. What happens at one instant, of prices and of the ledger, is one row.
    """
    seen: dict[PriceKey, Price] = {}
    newest: dict[PriceKey, Price] = {}
    positions = {position.position_id: position for account in book.accounts.values() for position in account.positions.values()}
    portfolios = {
        agent_id: _Portfolio(agent_id, account.agent.initial_cash, account.agent.initial_cash, {}, seen if agent_id in live else newest)
        for agent_id, account in book.accounts.items()
    }
    holders: dict[PriceKey, dict[str, Position]] = defaultdict(dict)
    rows: list[Valuation] = []
    happened: list[Entry | Price] = [*book.entries, *prices]
    for at, events in groupby(sorted(happened, key=_when), key=_instant):
        touched: dict[str, None] = {}
        for event in events:
            if isinstance(event, Entry):
                _held(portfolios[event.agent_id], positions[event.position_id], event, holders)
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
                portfolio.held[position.position_id] = shares, cost, _marked(position, shares, cost, portfolio.newest)
                touched[position.agent_id] = None
        rows += _changed((portfolios[agent_id] for agent_id in sorted(touched)), at)
    return rows


def drawdown(curve: Sequence[int]) -> float | None:
    """The largest fall from an earlier peak, as a share of that peak; None without a point. curve: values in the order of time."""
    worst, peak = 0.0, None
    for value in curve:
        peak = value if peak is None or value > peak else peak
        if peak > 0:
            worst = max(worst, (peak - value) / peak)
    return None if peak is None else worst


def _held(portfolio: _Portfolio, position: Position, entry: Entry, holders: dict[PriceKey, dict[str, Position]]) -> None:
    portfolio.cash = entry.cash
    if entry.shares:
        portfolio.held[entry.position_id] = entry.shares, entry.cost, _marked(position, entry.shares, entry.cost, portfolio.newest)
        holders[price_key(position)][entry.position_id] = position
    else:
        portfolio.held.pop(entry.position_id, None)
        holders[price_key(position)].pop(entry.position_id, None)


def _changed(portfolios: Iterable[_Portfolio], at: datetime) -> Iterable[Valuation]:
    for portfolio in portfolios:
        row = portfolio.valuation(at)
        if portfolio.last is None or row[2:] != portfolio.last[2:]:
            portfolio.last = row
            yield row


def _instant(event: Entry | Price) -> datetime:
    return event.known_at if isinstance(event, Entry) else event.at


def _when(event: Entry | Price) -> tuple[datetime, int, str, int]:
    if isinstance(event, Entry):
        return event.known_at, 0, event.agent_id, event.number
    return event.at, 1, f"{event.market_id}\x00{event.outcome}", 0
