"""Snapshots of Kalshi's events, contracts, books, candles and series: read once for decisions and marks, and not stored as pages.

A contract is a market of Kalshi, because the arena's markets may be events with several contracts. A mark is the value of a position at an
instant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.errors import ConfigError
from bellwether.venues.http.client import KalshiClient
from bellwether.venues.http.page import VenuePage, split_batches
from bellwether.venues.http.paging import Listing
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.pull import parse_cutoff
from bellwether.venues.kalshi.wire import extract_nested_markets, parse_candles, parse_events, parse_markets, parse_series

Row = Mapping[str, Any]

_UNKNOWN = frozenset({404})
_PRICE, _SIZE = re.compile(r"0\.[0-9]{1,6}"), re.compile(r"[0-9]{1,16}(\.[0-9]{1,2})?")


@dataclass
class MarketRows:
    """Rows of raw/kalshi_markets by ticker and of raw/kalshi_events by event ticker, as dictionaries. If one occurs repeatedly, its first record
    counts.

    at: time of the venue's first response; None without a response. rejects: number of invalid objects.
    """

    contracts: dict[str, Row] = field(default_factory=dict)
    events: dict[str, Row] = field(default_factory=dict)
    at: datetime | None = None
    rejects: int = 0

    async def add_pages(self, client: KalshiClient, listing: Listing, wanted: pl.Expr | None = None) -> None:
        """Add the contracts and events of a listing of contracts, or of events with or without nested contracts. wanted: predicate that
        selects contracts.
        """
        async with aclosing(client.follow(listing)) as pages:  # type: ignore[type-var]
            async for page in pages:
                self.at = self.at or page.fetched_at
                day, of_events = page.fetched_at.date(), listing.items == "events"
                objects = extract_nested_markets(page.items("events")) if of_events else page.items("markets")
                contracts = parse_markets(objects, page.origin, day=day)
                rows = contracts.rows if wanted is None else contracts.rows.filter(wanted)
                for row in rows.iter_rows(named=True):
                    self.contracts.setdefault(row["ticker"], row)
                self.rejects += contracts.rejects.height
                if of_events:
                    events = parse_events(page.items("events"), page.origin, day=day)
                    for row in events.rows.select(pl.exclude("body")).iter_rows(named=True):
                        self.events.setdefault(row["event_ticker"], row)
                    self.rejects += events.rejects.height

    async def add_events(self, client: KalshiClient) -> None:
        """Fetch and add the events of the contracts."""
        wanted = sorted({row["event_ticker"] for row in self.contracts.values()} - set(self.events))
        for batch in split_batches(wanted, routes.MOST_EVENTS):
            await self.add_pages(client, routes.events(tickers=batch, nested=False))


async def fetch_open_events(client: KalshiClient, now: datetime) -> MarketRows:
    """Fetch all events with an open contract, and their contracts that are not archived; combos are excluded."""
    # Every open contract closes after the bound, without which the venue would list the events of all years.
    rows = MarketRows()
    await rows.add_pages(client, routes.events(status="open", closing_after=now - timedelta(minutes=1), nested=True))
    return rows


async def fetch_closing_after(client: KalshiClient, at: datetime, wanted: pl.Expr) -> MarketRows:
    """Fetch the contracts that close after `at` and satisfy `wanted`, with their events.

    Raises `ConfigError` if `at` is before the venue's cutoff: contracts paid out before it are archived and not listed.
    """
    cutoff = parse_cutoff(await client.fetch(routes.historical_cutoff()))
    if at < cutoff:
        raise ConfigError(
            f"listing Kalshi's markets as of {at.isoformat()}: the venue lists what was paid out since {cutoff.isoformat()}; choose a later week"
        )
    rows = MarketRows()
    await rows.add_pages(client, routes.markets(closing_after=at - timedelta(seconds=1)), wanted)
    await rows.add_events(client)
    return rows


async def fetch_by_id(client: KalshiClient, names: Sequence[str]) -> tuple[MarketRows, frozenset[str]]:
    """Fetch contracts, live or archived. names: tickers of contracts, or of events for all their contracts. Also return those names that
    are events.
    """
    rows, names = MarketRows(), list(dict.fromkeys(names))
    for route in (routes.markets, routes.historical_markets):
        for batch in split_batches([name for name in names if name not in rows.contracts], routes.MOST_TICKERS):
            await rows.add_pages(client, route(tickers=batch, mve_filter=None))
    others = [name for name in names if name not in rows.contracts]
    for name in others:
        await rows.add_pages(client, routes.markets(event_ticker=name))
        await rows.add_pages(client, routes.historical_markets(event_ticker=name))
    await rows.add_events(client)
    return rows, frozenset(others) & {row["event_ticker"] for row in rows.contracts.values()}


async def fetch_series(client: KalshiClient) -> dict[str, Row]:
    """Fetch all series; return rows of raw/kalshi_series by ticker."""
    series: dict[str, Row] = {}
    async with aclosing(client.follow(routes.series())) as pages:  # type: ignore[type-var]
        async for page in pages:
            rows = parse_series(page.items("series"), page.origin).rows
            series |= {row["series_ticker"]: row for row in rows.select(pl.exclude("body")).iter_rows(named=True)}
    return series


Levels = tuple[tuple[Decimal, Decimal], ...]


@dataclass(frozen=True, slots=True)
class Book:
    """Order book: bids for YES and for NO as (price in dollars, contracts), best last. at: time of the response, as the book itself has none."""

    yes: Levels
    no: Levels
    at: datetime


async def fetch_books(client: KalshiClient, tickers: Iterable[str]) -> dict[str, Book]:
    """Fetch order books by ticker; unknown or archived contracts and invalid books are left out."""
    calls = [routes.orderbooks(batch) for batch in split_batches(list(dict.fromkeys(tickers)), routes.MOST_TICKERS)]
    return {ticker: book for page in await client.fetch_all(calls) for ticker, book in parse_books(page).items()}


def parse_books(page: VenuePage) -> dict[str, Book]:
    """Parse the order books of a response, by ticker.

    Left out are objects without a ticker or a book, books with an invalid level or two levels at one price, and crossed books.
    """
    books: dict[str, Book] = {}
    for item in page.items("orderbooks"):
        ticker, sides = (item.get("ticker"), item.get("orderbook_fp")) if isinstance(item, dict) else (None, None)
        if isinstance(ticker, str) and isinstance(sides, dict):
            yes, no = (_parse_levels(sides.get(f"{side}_dollars")) for side in ("yes", "no"))
            if yes is not None and no is not None and not (yes and no and yes[-1][0] + no[-1][0] > 1):
                books.setdefault(ticker, Book(yes, no, page.fetched_at))
    return books


def _parse_levels(sent: Any) -> Levels | None:
    """Parse the bids of one side, best last, without empty levels; None if one is not a price between 0 and 1 with a size."""
    levels: dict[Decimal, Decimal] = {}
    for level in sent if isinstance(sent, list) else () if sent is None else (None,):
        price, size = map(str, level) if isinstance(level, list) and len(level) == 2 else ("", "")
        if not _PRICE.fullmatch(price) or not _SIZE.fullmatch(size) or Decimal(price) == 0 or Decimal(price) in levels:
            return None
        if Decimal(size):
            levels[Decimal(price)] = Decimal(size)
    return tuple(sorted(levels.items()))


async def fetch_candles(client: KalshiClient, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, list[Row]]:
    """Fetch the hourly candles of contracts as rows of raw/kalshi_candles, by ticker and in order of time. spans: by ticker, the first and
    last end of a candle, inclusive, at most a year apart. A contract without candles has an empty list.
    """
    candles: dict[str, dict[datetime, Row]] = {ticker: {} for ticker in spans}
    of_span: dict[tuple[datetime, datetime], list[str]] = defaultdict(list)
    for ticker, span in spans.items():
        of_span[span].append(ticker)
    calls = [
        routes.candles_batch(batch, *span) for span, tickers in of_span.items() for batch in split_batches(tickers, _count_per_call(*span))
    ]
    live: set[str] = set()
    for page in await client.fetch_all(calls):
        live |= {str(group.get("market_ticker")) for group in page.items("markets") if isinstance(group, dict)}
        _add_candles(candles, page)
    archived = [routes.historical_candles(ticker, *span) for ticker, span in spans.items() if ticker not in live]
    for page in await client.fetch_all(archived, accept=_UNKNOWN):
        if page.status not in _UNKNOWN:
            _add_candles(candles, page)
    return {
        ticker: [row for at, row in sorted(rows.items()) if spans[ticker][0] <= at <= spans[ticker][1]] for ticker, rows in candles.items()
    }


def _add_candles(candles: dict[str, dict[datetime, Row]], page: VenuePage) -> None:
    """Add the candles of a page to `candles`, by ticker and end."""
    for row in parse_candles([page], day=page.fetched_at.date()).rows.iter_rows(named=True):
        candles[row["ticker"]][row["end_at"]] = row


def _count_per_call(first: datetime, last: datetime) -> int:
    """Return the number of contracts whose hourly candles from `first` to `last` fit into one call."""
    return max(1, min(routes.MOST_TICKERS, routes.MOST_CANDLES // ((last - first) // timedelta(hours=1) + 1)))
