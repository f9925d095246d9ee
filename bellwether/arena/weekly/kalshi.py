"""Kalshi as a venue of the arena's weeks: events and contracts, order books, candles with bid and ask, and fees from series."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import polars as pl

from bellwether.arena.history import FRESH, LATEST, SOONEST, Points
from bellwether.arena.kalshi import (
    OPEN,
    Candle,
    MarketListing,
    build_market,
    evidence_row,
    find_candidates,
    find_latest_candle,
    group_contracts,
    listed_price,
    market_status,
    quote_from_book,
    quote_from_candle,
    reconstruct_looks,
    reconstruct_market,
    reconstruct_universe,
)
from bellwether.arena.market import LISTING, Market, MarketStatus, Quote, Quotes, clamp_to_quote, tokens_to_quote
from bellwether.arena.marks import PriceKey, PriceObservation
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.universe import select_universe
from bellwether.arena.weekly.venue import HeldMarkets, last_prices
from bellwether.units import SharePrice
from bellwether.venues.kalshi import snapshots

if TYPE_CHECKING:
    from bellwether.venues.kalshi.client import KalshiClient

#: Maximum age of the last price of a held market.
_LAST = timedelta(days=14)
#: Number of contracts per candle request while a universe is filled.
_AT_ONCE = 400

T = TypeVar("T")


class KalshiRunner(Protocol):
    """Runs work with a connected Kalshi client."""

    def __call__(self, work: Callable[[KalshiClient], Awaitable[T]]) -> T:
        """Run `work` with a connected client and return its result."""
        ...


@dataclass(frozen=True)
class Kalshi:
    """`VenueData` of Kalshi."""

    ask: KalshiRunner

    def fetch_universe(self, limit: int, now: datetime) -> FrozenUniverse:
        """Fetch the open markets with the largest volume. All open events are read, because the venue does not sort by volume."""
        return self.ask(lambda client: _fetch_universe(client, limit, now))

    def reconstruct_universe(self, at: datetime, limit: int) -> FrozenUniverse:
        """Reconstruct a past universe; see `bellwether.arena.kalshi.find_candidates`."""
        return self.ask(lambda client: _reconstruct_universe(client, at, limit))

    def fetch_held_markets(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
        """Fetch markets by id, with the candles of the last days."""
        return self.ask(lambda client: _fetch_held(client, market_ids, at, past=past))

    def fetch_quotes(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """Fetch statuses and listed prices of contracts, and order books."""
        tokens = tokens_to_quote(markets, list(markets))

        async def work(client: KalshiClient) -> tuple[dict[str, MarketListing], dict[str, snapshots.Book]]:
            return (await _fetch_listings(client, list(markets)))[0], await snapshots.fetch_books(client, tokens)

        found, books = self.ask(work)
        quotes: dict[str, dict[int, Quote]] = {}
        for ticker, (market_id, place) in tokens.items():
            book = books.get(ticker)
            quote = Quote(None, at=now, source=LISTING) if book is None else quote_from_book(book.yes, book.no, book.at)
            rows = found[market_id].contracts if market_id in found else ()
            shown = next((listed_price(row) for row in rows if row["ticker"] == ticker), None)
            if shown is not None:
                quote = replace(quote, listed=clamp_to_quote(shown, quote.bid, quote.ask))
            if book is not None or shown is not None:
                quotes.setdefault(market_id, {})[place] = quote
        return {name: market_status(one) for name, one in found.items()}, dict(quotes)

    def reconstruct_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Return bid and ask of the latest candles at the instant."""
        tokens = tokens_to_quote(markets, list(markets))
        if not tokens:
            return {}
        found = self.ask(lambda client: _fetch_candles(client, tokens, at - FRESH, at))
        return {name: _quotes_from_candles(market, found, at) for name, market in markets.items()}

    def fetch_evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """Observe the present contracts of each market."""
        found, at = self.ask(lambda client: _fetch_listings(client, market_ids))
        return [evidence_row(one, fetched_at=at or now) for one in found.values()]

    def reconstruct_evidence(self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]) -> list[dict[str, Any]]:
        """Reconstruct past observations; see `bellwether.arena.kalshi.reconstruct_looks`."""
        found, _ = self.ask(lambda client: _fetch_listings(client, market_ids))
        wait = max(one.dispute_window for one in rules.values())
        return reconstruct_looks(found.values(), until, wait=wait, grace=max(one.grace for one in rules.values()))

    def fetch_midpoints(self, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        """Fetch midpoints of order books."""
        books = self.ask(lambda client: snapshots.fetch_books(client, tokens))
        return {ticker: PriceObservation(quote_from_book(book.yes, book.no, book.at).mid, book.at) for ticker, book in books.items()}

    def fetch_listed_prices(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Return an empty mapping: Kalshi's listing quotes the order book, so it is no second source."""
        return {}

    def fetch_past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Fetch midpoints of hourly candles with both sides quoted."""
        found = self.ask(lambda client: snapshots.fetch_candles(client, spans))
        return {ticker: list(_list_midpoints(map(_candle_from_row, rows))) for ticker, rows in found.items()}


async def _fetch_universe(client: KalshiClient, limit: int, now: datetime) -> FrozenUniverse:
    seen, series = await snapshots.fetch_open_events(client, now), await snapshots.fetch_series(client)
    at = seen.at or now
    found = group_contracts((row for row in seen.contracts.values() if row["status"] in OPEN), seen.events)
    markets = [build_market(one, series, at) for one in found]
    return FrozenUniverse(select_universe(markets, limit, at), at, False, "Kalshi: open events by volume", seen.rejects, "kalshi")


async def _reconstruct_universe(client: KalshiClient, at: datetime, limit: int) -> FrozenUniverse:
    existed = (pl.coalesce("created_at", "open_time") <= at) & (pl.col("close_time") > at) & ~pl.col("is_combo")
    seen, series = await snapshots.fetch_closing_after(client, at, existed), await snapshots.fetch_series(client)
    found = find_candidates(seen.contracts.values(), seen.events, at)
    known: dict[str, Candle | None] = {}
    chosen = reconstruct_universe([], series, known, at, limit)
    for some in _batch_listings(found):
        tickers = [ticker for one in some for ticker in one.tickers]
        known |= {ticker: find_latest_candle(rows, at) for ticker, rows in (await _fetch_candles(client, tickers, at - FRESH, at)).items()}
        asked = [one for one in found if all(ticker in known for ticker in one.tickers)]
        chosen = reconstruct_universe(asked, series, known, at, limit)
        if len(chosen.markets) == limit:
            break
    source = f"Kalshi: dates of markets expected to end {SOONEST.days} to {LATEST.days} days later; candlesticks"
    return FrozenUniverse(chosen, at, True, source, seen.rejects, "kalshi")


def _batch_listings(found: Iterable[MarketListing]) -> Iterator[list[MarketListing]]:
    """Yield consecutive listings with at most `_AT_ONCE` contracts together; a larger one is alone."""
    held: list[MarketListing] = []
    for one in found:
        if held and sum(len(other.contracts) for other in (*held, one)) > _AT_ONCE:
            yield held
            held = []
        held.append(one)
    if held:
        yield held


async def _fetch_listings(client: KalshiClient, market_ids: Sequence[str]) -> tuple[dict[str, MarketListing], datetime | None]:
    """Fetch markets by id with all their contracts, whatever their status, and the time of the response."""
    seen, of_events = await snapshots.fetch_by_id(client, market_ids)
    found: dict[str, MarketListing] = {}
    for name in dict.fromkeys(market_ids):
        if name in of_events:
            own = sorted((row for row in seen.contracts.values() if row["event_ticker"] == name), key=lambda row: str(row["ticker"]))
            found[name] = MarketListing(name, seen.events.get(name), tuple(own), named=True)
        elif name in seen.contracts:
            row = seen.contracts[name]
            found[name] = MarketListing(name, seen.events.get(row["event_ticker"]), (row,), named=False)
    return found, seen.at


async def _fetch_candles(client: KalshiClient, tickers: Iterable[str], first: datetime, last: datetime) -> dict[str, list[Candle]]:
    found = await snapshots.fetch_candles(client, dict.fromkeys(tickers, (first, last)))
    return {ticker: [_candle_from_row(row) for row in rows] for ticker, rows in found.items()}


def _candle_from_row(row: Mapping[str, Any]) -> Candle:
    return Candle(row["end_at"], row["yes_bid_close"], row["yes_ask_close"])


def _quotes_from_candles(market: Market, candles: Mapping[str, Sequence[Candle]], at: datetime) -> Quotes:
    """Return the quotes of a market as of an instant, from candles at most a day old."""
    found: dict[int, Quote] = {}
    for place, ticker in enumerate(market.token_ids):
        candle = find_latest_candle([one for one in candles.get(ticker, ()) if at - one.at <= FRESH], at)
        if candle is not None:
            found[place] = quote_from_candle(candle)
    return found


def _list_midpoints(candles: Iterable[Candle]) -> Iterator[tuple[datetime, Decimal]]:
    for candle in candles:
        if candle.bid is not None and candle.ask is not None:
            yield candle.at, (candle.bid + candle.ask) / 2


async def _fetch_held(client: KalshiClient, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
    (found, _), series = await _fetch_listings(client, market_ids), await snapshots.fetch_series(client)
    spans = [ticker for one in found.values() for ticker in one.tickers]
    candles = await _fetch_candles(client, spans, at - _LAST, at)
    markets: dict[str, Market] = {}
    for name, one in found.items():
        market = reconstruct_market(one, series, {}, at) if past else build_market(one, series, at)
        markets[name] = replace(market, volume=None) if past else market
    quotes = {name: _quotes_from_candles(market, candles, at) for name, market in markets.items()} if past else {}
    points = {ticker: [(one.at, quote_from_candle(one).mid) for one in found] for ticker, found in candles.items()}
    return HeldMarkets(markets, last_prices(markets.values(), points, at), quotes)
