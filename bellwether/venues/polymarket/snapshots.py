"""Snapshots of Polymarket's markets, books, past prices and winners: read once for decisions and marks, and not stored as pages.

A mark is the value of a position at an instant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.venues.http.client import ClobClient, GammaClient
from bellwether.venues.http.page import VenuePage, split_batches
from bellwether.venues.http.paging import Listing
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.routes import COARSE_MINUTES, FINE_MINUTES, MOST_DAYS, UNKNOWN
from bellwether.venues.polymarket.wire import (
    ID,
    PRICE_PLACES,
    USDC_PLACES,
    normalize_condition,
    parse_markets,
    parse_winners,
    to_plain_decimal,
)
from bellwether.venues.wire.times import END_SECOND, split_span

_DECIMAL, _MILLIS = re.compile(r"[0-9]{1,18}(\.[0-9]+)?"), re.compile(r"[0-9]{1,17}")


Row = Mapping[str, Any]


@dataclass
class MarketRows:
    """Rows of raw/polymarket_markets, as dictionaries by market id. If a market occurs repeatedly, its last record counts.

    at: time of the venue's first response; None without a response. rejects: number of invalid objects.
    """

    by_id: dict[str, Row] = field(default_factory=dict)
    at: datetime | None = None
    rejects: int = 0

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, in the order in which their markets were listed first."""
        return tuple(self.by_id.values())

    async def add_pages(self, gamma: GammaClient, listing: Listing, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Add the markets of a listing, up to the page after which `is_enough` returns True."""
        async with aclosing(gamma.follow(listing)) as pages:  # type: ignore[type-var]
            async for page in pages:
                self.at = self.at or page.fetched_at
                parsed = parse_markets(page.items("markets"), page.origin, day=page.fetched_at.date())
                self.by_id |= {row["market_id"]: row for row in parsed.rows.select(pl.exclude("body")).iter_rows(named=True)}
                self.rejects += parsed.rejects.height
                if is_enough():
                    break


async def fetch_largest_open(gamma: GammaClient, count: int, matches: Callable[[Row], bool] = lambda row: True) -> MarketRows:
    """Fetch open markets by descending volume, page by page until at least `count` of them satisfy `matches`."""
    found = MarketRows()
    listing = routes.markets(closed=False, active=True, order="volumeNum", ascending=False)
    await found.add_pages(gamma, listing, lambda: sum(map(matches, found.by_id.values())) >= count)
    return found


async def fetch_ending(gamma: GammaClient, first: datetime, last: datetime) -> MarketRows:
    """Fetch all markets, open and closed, whose scheduled end is between two instants, earliest end first."""
    found = MarketRows()
    # The open ones first: a market that closes meanwhile is then in both lists, not in neither.
    for closed in (False, True):
        listing = routes.markets(closed=closed, end_date_min=first, end_date_max=last, order="endDate", ascending=True)
        await found.add_pages(gamma, listing)
    return found


async def fetch_by_id(gamma: GammaClient, market_ids: Sequence[str]) -> MarketRows:
    """Fetch markets by id, open or closed; unknown ids are left out."""
    found = MarketRows()
    for closed in (False, True):
        missing = [market_id for market_id in market_ids if market_id not in found.by_id]
        for batch in split_batches(missing, routes.MOST_MARKETS):
            await found.add_pages(gamma, routes.markets(closed=closed, ids=batch))
    return found


async def fetch_winners(clob: ClobClient, condition_ids: Iterable[str]) -> dict[str, tuple[list[str], bool | None]]:
    """Fetch, by condition id, the outcomes that the CLOB flags as winners, and whether the market resolved 50-50; unknown ids are left
    out.
    """
    wanted = pl.Series(list(dict.fromkeys(condition_ids)), dtype=pl.String())
    calls = [routes.clob_market(condition_id) for condition_id in wanted]
    pages = [page for page in await clob.fetch_all(calls, accept=UNKNOWN) if page.status not in UNKNOWN]
    winners: dict[str, tuple[list[str], bool | None]] = {}
    if not pages:
        return winners
    rows = parse_winners(pages, day=pages[0].fetched_at.date()).rows
    for row in rows.with_columns(normalize_condition(pl.col("condition_id"))).iter_rows(named=True):
        names, _ = winners.setdefault(row["condition_id"], ([], row["is_50_50_outcome"]))
        if row["winner"]:
            names.append(row["outcome"])
    return {name: winners[key] for name, key in zip(wanted, normalize_condition(wanted), strict=True) if key in winners}


Levels = tuple[tuple[Decimal, Decimal], ...]


@dataclass(frozen=True, slots=True)
class Book:
    """Order book of a token: levels as (price in dollars, shares), best first.

    at: time of the book, by the venue. tick: price step in dollars; None if the book does not state it. skipped: number of invalid levels.
    """

    bids: Levels
    asks: Levels
    at: datetime
    tick: Decimal | None = None
    skipped: int = 0


async def fetch_books(clob: ClobClient, token_ids: Iterable[str]) -> dict[str, Book]:
    """Fetch order books by token; tokens without a book, or with an invalid one, are left out."""
    return {token: book for page in await clob.fetch_all(routes.books(token_ids)) for token, book in parse_books(page).items()}


def parse_books(page: VenuePage) -> dict[str, Book]:
    """Parse the order books of a response, by token. In the response both sides list their best price last.

    Left out are books without a token, a time or a valid level, with an invalid tick size, in another order, or crossed. A level is valid if it
    has a positive size and a price between 0 and 1 that is a multiple of the book's tick size.
    """
    books: dict[str, Book] = {}
    for item in page.items("books"):
        token, book = (str(item.get("asset_id")), _parse_book(item)) if isinstance(item, dict) else ("", None)
        if re.fullmatch(ID, token) and book is not None:
            books.setdefault(token, book)
    return books


def _parse_book(item: Mapping[str, Any]) -> Book | None:
    """Parse one book; None if it is invalid or empty."""
    at, bids, asks = str(item.get("timestamp")), item.get("bids") or [], item.get("asks") or []
    if not _MILLIS.fullmatch(at) or int(at) >= END_SECOND * 1000 or not isinstance(bids, list) or not isinstance(asks, list):
        return None
    stated = item.get("tick_size")
    tick = _parse_decimal(stated, PRICE_PLACES) or None
    if tick is None and stated not in (None, "", "0", 0):
        return None
    bid_levels, ask_levels = _parse_levels(bids, tick), _parse_levels(asks, tick)
    if [price for price, _ in bid_levels] != sorted({price for price, _ in bid_levels}, reverse=True):
        return None
    if [price for price, _ in ask_levels] != sorted({price for price, _ in ask_levels}):
        return None
    if not (bid_levels or ask_levels) or (bid_levels and ask_levels and bid_levels[0][0] >= ask_levels[0][0]):
        return None
    skipped = len(bids) + len(asks) - len(bid_levels) - len(ask_levels)
    return Book(bid_levels, ask_levels, datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(at)), tick, skipped)


def _parse_levels(sent: Sequence[Any], tick: Decimal | None) -> Levels:
    """Parse the valid levels of one side, best first."""
    pairs = [
        (_parse_decimal(level.get("price"), PRICE_PLACES), _parse_decimal(level.get("size"), USDC_PLACES))
        for level in reversed(sent)
        if isinstance(level, dict)
    ]
    return tuple((price, size) for price, size in pairs if price and size and price < 1 and not (tick and price % tick))


def _parse_decimal(value: Any, places: int) -> Decimal | None:
    """Parse a decimal of 0 or more, as text or a number, truncated after `places` decimals; None for anything else."""
    text = to_plain_decimal(value, places)
    return Decimal(text) if isinstance(text, str) and _DECIMAL.fullmatch(text) else None


Points = list[tuple[datetime, Decimal]]


async def fetch_past_prices(
    clob: ClobClient, spans: Mapping[str, tuple[datetime, datetime]], *, traded: Collection[str] | None = None
) -> dict[str, Points]:
    """Fetch the hourly prices of tokens, in order of time; empty without prices. spans: first and last instant (inclusive) by token.
    traded: tokens whose prices every `COARSE_MINUTES` are fetched if hourly ones are missing; None: all.

    Points without a price from 0 to 1 are left out.
    """
    prices = await _fetch_spans(clob, spans, FINE_MINUTES)
    empty = {token: spans[token] for token, points in prices.items() if not points and (traded is None or token in traded)}
    return prices | (await _fetch_spans(clob, empty, COARSE_MINUTES) if empty else {})


async def _fetch_spans(clob: ClobClient, spans: Mapping[str, tuple[datetime, datetime]], minutes: int) -> dict[str, Points]:
    calls = [
        routes.prices_history(token, start=first, end=last, fidelity_minutes=minutes)
        for token, span in spans.items()
        for first, last in split_span(*span, timedelta(days=MOST_DAYS))
    ]
    prices: dict[str, dict[datetime, Decimal]] = {token: {} for token in spans}
    for page in await clob.fetch_all(calls, accept=UNKNOWN):
        if page.status not in UNKNOWN:
            (token,) = routes.parse_requested_tokens(page)
            start, end = spans[token]
            prices[token].update((at, price) for at, price in _parse_points(page) if start <= at <= end)
    return {token: sorted(points.items()) for token, points in prices.items()}


def _parse_points(page: VenuePage) -> Iterable[tuple[datetime, Decimal]]:
    for point in page.items("history"):
        seconds, price = (point.get("t"), _parse_decimal(point.get("p"), PRICE_PLACES)) if isinstance(point, dict) else (None, None)
        if type(seconds) is int and 0 <= seconds < END_SECOND and price is not None and price <= 1:
            yield datetime.fromtimestamp(seconds, UTC), price
