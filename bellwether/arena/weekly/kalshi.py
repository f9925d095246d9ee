"""Requests of the arena's weeks to Kalshi: contracts, order books and candles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.arena.history import FRESH, LATEST, SOONEST, HeldMarkets, Points, find_last_prices
from bellwether.arena.kalshi import (
    OPEN,
    Candle,
    MarketListing,
    build_evidence_row,
    build_market,
    find_candidates,
    find_latest_candle,
    find_market_status,
    group_contracts,
    quote_from_book,
    quote_from_candle,
    reconstruct_evidence,
    reconstruct_market,
    reconstruct_universe,
)
from bellwether.arena.market import Market, MarketStatus, Quote, Quotes, find_quoted_tokens
from bellwether.arena.marks import PriceKey, PriceObservation
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.universe import select_universe
from bellwether.units import SharePrice
from bellwether.venues.kalshi import snapshots

if TYPE_CHECKING:
    from bellwether.venues.http.client import KalshiClient

#: Maximum age of the last price of a held market.
_LAST = timedelta(days=14)
#: Number of contracts per candle request while a universe is filled.
_AT_ONCE = 400


@dataclass(frozen=True)
class Kalshi:
    """Markets, prices and evidence (what the venue states about resolutions) of Kalshi. Tokens are the tickers of contracts."""

    client: KalshiClient

    async def fetch_universe(self, limit: int, now: datetime) -> FrozenUniverse:
        """Fetch the open markets with the largest volume. All open events are read, because the venue does not sort by volume."""
        snapshot, series = await snapshots.fetch_open_events(self.client, now), await snapshots.fetch_series(self.client)
        at = snapshot.at or now
        listings = group_contracts((row for row in snapshot.contracts.values() if row["status"] in OPEN), snapshot.events)
        markets = [build_market(listing, series, at) for listing in listings]
        return FrozenUniverse(select_universe(markets, limit, at), at, False, "Kalshi: open events by volume", snapshot.rejects, "kalshi")

    async def reconstruct_universe(self, at: datetime, limit: int) -> FrozenUniverse:
        """Reconstruct the universe as of a past instant, from the candidates of `bellwether.arena.kalshi.find_candidates`."""
        existed = (pl.coalesce("created_at", "open_time") <= at) & (pl.col("close_time") > at) & ~pl.col("is_combo")
        snapshot = await snapshots.fetch_closing_after(self.client, at, existed)
        series = await snapshots.fetch_series(self.client)
        candidates = find_candidates(snapshot.contracts.values(), snapshot.events, at)
        candles: dict[str, Candle | None] = {}
        universe = reconstruct_universe([], series, candles, at, limit)
        for batch in _batch_listings(candidates):
            tickers = [ticker for listing in batch for ticker in listing.tickers]
            rows_by_ticker = await self._fetch_candles(tickers, at - FRESH, at)
            candles |= {ticker: find_latest_candle(rows, at) for ticker, rows in rows_by_ticker.items()}
            priced = [listing for listing in candidates if all(ticker in candles for ticker in listing.tickers)]
            universe = reconstruct_universe(priced, series, candles, at, limit)
            if len(universe.markets) == limit:
                break
        source = f"Kalshi: dates of markets expected to end {SOONEST.days} to {LATEST.days} days later; candlesticks"
        return FrozenUniverse(universe, at, True, source, snapshot.rejects, "kalshi")

    async def fetch_held_markets(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
        """Fetch markets by id, with the last prices from candles up to `at`. past: `at` lies in a reconstructed week, so that statuses and quotes
        are those of `at`.
        """
        (listings, _), series = await self._fetch_listings(market_ids), await snapshots.fetch_series(self.client)
        candles = await self._fetch_candles([ticker for listing in listings.values() for ticker in listing.tickers], at - _LAST, at)
        markets: dict[str, Market] = {}
        for name, listing in listings.items():
            market = reconstruct_market(listing, series, {}, at) if past else build_market(listing, series, at)
            markets[name] = replace(market, volume=None) if past else market
        quotes = {name: _quotes_from_candles(market, candles, at) for name, market in markets.items()} if past else {}
        points = {ticker: [(candle.at, quote_from_candle(candle).mid) for candle in rows] for ticker, rows in candles.items()}
        return HeldMarkets(markets, find_last_prices(markets.values(), points, at), quotes)

    async def fetch_quotes(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """Fetch current statuses of markets, and quotes from order books, by market id. Unknown markets are omitted."""
        tokens = find_quoted_tokens(markets, list(markets))
        (listings, _), books = await self._fetch_listings(list(markets)), await snapshots.fetch_books(self.client, tokens)
        quotes: dict[str, dict[int, Quote]] = {}
        for ticker, book in books.items():
            market_id, place = tokens[ticker]
            quotes.setdefault(market_id, {})[place] = quote_from_book(book.yes, book.no, book.at)
        return {name: find_market_status(listing) for name, listing in listings.items()}, dict(quotes)

    async def reconstruct_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Return the quotes from the latest candles at or before an instant."""
        tokens = find_quoted_tokens(markets, list(markets))
        candles = await self._fetch_candles(tokens, at - FRESH, at) if tokens else {}
        return {name: _quotes_from_candles(market, candles, at) for name, market in markets.items()} if tokens else {}

    async def fetch_evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """Fetch what the venue states about the resolution of each market: one row of evidence per market, from its contracts."""
        listings, at = await self._fetch_listings(market_ids)
        return [build_evidence_row(listing, fetched_at=at or now) for listing in listings.values()]

    async def reconstruct_evidence(
        self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]
    ) -> list[dict[str, Any]]:
        """Reconstruct what polls up to `until` would have shown; see `bellwether.arena.kalshi.reconstruct_evidence`."""
        listings, _ = await self._fetch_listings(market_ids)
        wait = max(methodology.dispute_window for methodology in rules.values())
        return reconstruct_evidence(listings.values(), until, wait=wait, grace=max(methodology.grace for methodology in rules.values()))

    async def fetch_midpoints(self, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        """Fetch the midpoints of current order books, by ticker."""
        books = await snapshots.fetch_books(self.client, tokens)
        return {ticker: PriceObservation(quote_from_book(book.yes, book.no, book.at).mid, book.at) for ticker, book in books.items()}

    async def fetch_listed_prices(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Return an empty mapping: Kalshi's listing repeats the order book and is no second price to compare with."""
        return {}

    async def fetch_past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Fetch the midpoints of hourly candles in which both sides are quoted, by ticker. spans: start and end of each ticker's prices."""
        candles = await snapshots.fetch_candles(self.client, spans)
        return {
            ticker: [
                (candle.at, (candle.bid + candle.ask) / 2)
                for candle in map(_candle_from_row, rows)
                if candle.bid is not None and candle.ask is not None
            ]
            for ticker, rows in candles.items()
        }

    async def _fetch_listings(self, market_ids: Sequence[str]) -> tuple[dict[str, MarketListing], datetime | None]:
        """Fetch markets by id with all their contracts; return them and the time of the response."""
        snapshot, of_events = await snapshots.fetch_by_id(self.client, market_ids)
        listings: dict[str, MarketListing] = {}
        for name in dict.fromkeys(market_ids):
            if name in of_events:
                contracts = sorted(
                    (row for row in snapshot.contracts.values() if row["event_ticker"] == name), key=lambda row: str(row["ticker"])
                )
                listings[name] = MarketListing(name, snapshot.events.get(name), tuple(contracts), named=True)
            elif name in snapshot.contracts:
                row = snapshot.contracts[name]
                listings[name] = MarketListing(name, snapshot.events.get(row["event_ticker"]), (row,), named=False)
        return listings, snapshot.at

    async def _fetch_candles(self, tickers: Iterable[str], first: datetime, last: datetime) -> dict[str, list[Candle]]:
        candles = await snapshots.fetch_candles(self.client, dict.fromkeys(tickers, (first, last)))
        return {ticker: [_candle_from_row(row) for row in rows] for ticker, rows in candles.items()}


def _batch_listings(listings: Iterable[MarketListing]) -> Iterator[list[MarketListing]]:
    """Yield batches of consecutive listings (markets with their contracts) with at most `_AT_ONCE` contracts; a larger listing is a batch by
    itself.
    """
    batch: list[MarketListing] = []
    for listing in listings:
        if batch and sum(len(other.contracts) for other in (*batch, listing)) > _AT_ONCE:
            yield batch
            batch = []
        batch.append(listing)
    if batch:
        yield batch


def _candle_from_row(row: Mapping[str, Any]) -> Candle:
    return Candle(row["end_at"], row["yes_bid_close"], row["yes_ask_close"])


def _quotes_from_candles(market: Market, candles: Mapping[str, Sequence[Candle]], at: datetime) -> Quotes:
    """Return the quotes of a market as of an instant, from candles at most a day old."""
    quotes: dict[int, Quote] = {}
    for place, ticker in enumerate(market.token_ids):
        candle = find_latest_candle([recent for recent in candles.get(ticker, ()) if at - recent.at <= FRESH], at)
        if candle is not None:
            quotes[place] = quote_from_candle(candle)
    return quotes
