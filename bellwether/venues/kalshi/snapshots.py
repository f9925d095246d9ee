"""In-memory snapshots of events, contracts, books, candles and series, used once for decisions and marks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.errors import ConfigError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.wire import extract_nested_markets, parse_books, parse_candles, parse_events, parse_markets, parse_series
from bellwether.venues.wire.times import parse_instant

Row = Mapping[str, Any]

_UNKNOWN = frozenset({404})
_HOUR = 60
#: The venue documents no most for the tickers of events.
_EVENTS_AT_ONCE = 50


@dataclass(frozen=True)
class MarketRows:
    """Rows of raw/kalshi_markets by ticker and of raw/kalshi_events by event, as dictionaries.

    at: time of the venue's first response; None without a response. rejects: invalid objects.
    """

    contracts: Mapping[str, Row] = field(default_factory=dict)
    events: Mapping[str, Row] = field(default_factory=dict)
    at: datetime | None = None
    rejects: int = 0


class _MarketCollector:
    """Collector of contracts and events from pages, in order; the first record of a contract counts."""

    def __init__(self) -> None:
        self.contracts: dict[str, Row] = {}
        self.events: dict[str, Row] = {}
        self._at: datetime | None = None
        self._rejects = 0

    async def walk(self, pages: AsyncIterator[VenuePage], source: str = "live", wanted: pl.Expr | None = None) -> _MarketCollector:
        """Add the pages of a listing of contracts, or of events with their contracts. wanted: a predicate that selects contracts."""
        async with aclosing(pages) as walked:  # type: ignore[type-var]
            async for page in walked:
                self._at = self._at or page.fetched_at
                self._take(page, source, wanted)
        return self

    def _take(self, page: VenuePage, source: str, wanted: pl.Expr | None) -> None:
        day, of_events = page.fetched_at.date(), "events" in page.answer
        objects = extract_nested_markets(page.items("events")) if of_events else page.items("markets")
        parsed = [parse_markets(objects, page.origin, day=day, source=source)]
        rows = parsed[0].rows if wanted is None else parsed[0].rows.filter(wanted)
        for row in rows.iter_rows(named=True):
            self.contracts.setdefault(row["ticker"], row)
        if of_events:
            parsed.append(parse_events(page.items("events"), page.origin, day=day))
            for row in parsed[1].rows.select(pl.exclude("body")).iter_rows(named=True):
                self.events.setdefault(row["event_ticker"], row)
        self._rejects += sum(one.rejects.height for one in parsed)

    async def with_events(self, client: KalshiClient) -> MarketRows:
        """Return all rows, after fetching the events of the contracts."""
        wanted = sorted({row["event_ticker"] for row in self.contracts.values()} - set(self.events))
        for some in _groups(wanted, _EVENTS_AT_ONCE):
            await self.walk(client.events(tickers=some, nested=False))
        return self.seen()

    def seen(self) -> MarketRows:
        """Return all rows collected so far."""
        return MarketRows(self.contracts, self.events, self._at, self._rejects)


async def fetch_open_events(client: KalshiClient, now: datetime) -> MarketRows:
    """Fetch all events with an open contract, and their contracts except archived ones; combos are excluded."""
    # The bound on the close leaves out nothing that is open, and spares the venue the events of all years.
    pages = client.events(status="open", closing_after=now - timedelta(minutes=1), nested=True)
    return (await _MarketCollector().walk(pages)).seen()


async def fetch_closing_after(client: KalshiClient, at: datetime, wanted: pl.Expr) -> MarketRows:
    """Fetch the contracts that close after an instant and satisfy `wanted`, with their events.

    Raises `ConfigError` for an instant before the venue's cutoff: contracts paid out before it are archived, and found only by ticker.
    """
    cutoff = await _cutoff(client)
    if cutoff is not None and at < cutoff:
        raise ConfigError(
            f"listing Kalshi's markets as of {at.isoformat()}: the venue lists what was paid out since {cutoff.isoformat()}; choose a later week"
        )
    pages = client.markets(closing_after=at - timedelta(seconds=1))
    return await (await _MarketCollector().walk(pages, wanted=wanted)).with_events(client)


async def fetch_by_id(client: KalshiClient, names: Sequence[str]) -> tuple[MarketRows, frozenset[str]]:
    """Fetch contracts by ticker, live or archived, and all contracts of the events in `names`; also return the names that are events."""
    found = _MarketCollector()
    for some in _groups(names, routes.MOST_TICKERS):
        await found.walk(client.markets(tickers=some, mve_filter=None))
    for some in _groups([name for name in names if name not in found.contracts], routes.MOST_TICKERS):
        await found.walk(client.historical_markets(tickers=some, mve_filter=None), "historical")
    rest = [name for name in names if name not in found.contracts]
    for name in rest:
        await found.walk(client.markets(event_ticker=name))
        await found.walk(client.historical_markets(event_ticker=name), "historical")
    seen = await found.with_events(client)
    return seen, frozenset(rest) & {row["event_ticker"] for row in seen.contracts.values()}


async def fetch_series(client: KalshiClient) -> dict[str, Row]:
    """Fetch all series by ticker, as rows of raw/kalshi_series."""
    found: dict[str, Row] = {}
    async with aclosing(client.series()) as walked:  # type: ignore[type-var]
        async for page in walked:
            rows = parse_series(page.items("series"), page.origin).rows
            found |= {row["series_ticker"]: row for row in rows.select(pl.exclude("body")).iter_rows(named=True)}
    return found


@dataclass(frozen=True, slots=True)
class Book:
    """Bids of both sides as (price, contracts) in dollars. at: time of the response; the venue does not state the time of the book."""

    yes: tuple[tuple[Decimal, Decimal], ...]
    no: tuple[tuple[Decimal, Decimal], ...]
    at: datetime


async def fetch_books(client: KalshiClient, tickers: Iterable[str]) -> dict[str, Book]:
    """Fetch the order books of contracts; unknown or archived contracts and invalid books are left out."""
    calls = [routes.orderbooks(some) for some in _groups(list(dict.fromkeys(tickers)), routes.MOST_TICKERS)]
    found: dict[str, Book] = {}
    for page in await client.fetch_all(calls):
        rows = parse_books(page.answer, page.origin, day=page.fetched_at.date()).rows
        for row in rows.select("ticker", "yes_bids", "no_bids").iter_rows(named=True):
            yes, no = (tuple((level["price"], level["size"]) for level in row[name]) for name in ("yes_bids", "no_bids"))
            found[row["ticker"]] = Book(yes, no, page.fetched_at)
    return found


async def fetch_candles(client: KalshiClient, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, list[Row]]:
    """Fetch hourly candles that end between two instants (inclusive), by ticker, earliest first: rows of raw/kalshi_candles, [] if none."""
    found: dict[str, dict[datetime, Row]] = {ticker: {} for ticker in spans}
    of_span: dict[tuple[datetime, datetime], list[str]] = defaultdict(list)
    for ticker, span in spans.items():
        of_span[span].append(ticker)
    calls = [
        routes.candles_batch(some, first, last)
        for span, tickers in of_span.items()
        for first, last in _parts(*span)
        for some in _groups(tickers, _at_once(first, last))
    ]
    answered: set[str] = set()
    for page in await client.fetch_all(calls):
        answered |= {str(group.get("market_ticker")) for group in page.items("markets") if isinstance(group, dict)}
        _keep(found, page, "live")
    archived = [
        routes.historical_candles(ticker, first, last)
        for ticker, span in spans.items()
        if ticker not in answered
        for first, last in _parts(*span)
    ]
    for page in await client.fetch_all(archived, accept=_UNKNOWN):
        if page.status not in _UNKNOWN:
            _keep(found, page, "historical")
    return {
        ticker: [row for at, row in sorted(rows.items()) if spans[ticker][0] <= at <= spans[ticker][1]] for ticker, rows in found.items()
    }


def _keep(found: dict[str, dict[datetime, Row]], page: VenuePage, source: str) -> None:
    parsed = parse_candles(page.answer, page.origin, day=page.fetched_at.date(), source=source, period_minutes=_HOUR)
    for row in parsed.rows.iter_rows(named=True):
        if row["ticker"] in found:
            found[row["ticker"]][row["end_at"]] = row


def _at_once(first: datetime, last: datetime) -> int:
    """Return the number of contracts whose candles of a span fit into one response."""
    return max(1, min(routes.MOST_TICKERS, routes.MOST_CANDLES // (_hours(first, last) + 1)))


def _hours(first: datetime, last: datetime) -> int:
    return int((last - first).total_seconds()) // 3600


def _parts(first: datetime, last: datetime) -> Iterator[tuple[datetime, datetime]]:
    longest = timedelta(hours=routes.MOST_CANDLES - 1)
    while last - first > longest:
        yield first, first + longest
        first += longest
    yield first, last


def _groups(names: Sequence[str], most: int) -> Iterator[list[str]]:
    unique = list(dict.fromkeys(names))
    return (unique[first : first + most] for first in range(0, len(unique), most))


async def _cutoff(client: KalshiClient) -> datetime | None:
    """Fetch the start of the listing of settled markets; None if the venue does not state it."""
    page = await client.historical_cutoff()
    return parse_instant(page.answer.get("market_settled_ts"))
