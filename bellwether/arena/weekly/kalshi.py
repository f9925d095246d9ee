"""Kalshi as the arena's weeks ask it: events and contracts, order books, candles with bid and ask, series for fees."""

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
    Listed,
    as_of,
    candidates,
    evidence_of,
    listed,
    market_of,
    past_looks,
    past_market,
    past_universe,
    price_of,
    quote_of_book,
    quote_of_candle,
    status_of,
)
from bellwether.arena.market import LISTING, Market, MarketStatus, Quote, Quotes, wanted_tokens, within
from bellwether.arena.marks import Observed, PriceKey
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.universe import universe
from bellwether.arena.weekly.venue import Held, last_prices
from bellwether.units import SharePrice
from bellwether.venues.kalshi import snapshots

if TYPE_CHECKING:
    from bellwether.venues.kalshi.client import KalshiClient

#: A held market without a price of the day is valued at the last one of so long before.
_LAST = timedelta(days=14)
#: Contracts whose candles are requested together while a universe is being filled.
_AT_ONCE = 400

T = TypeVar("T")


class AskKalshi(Protocol):
    """Asks Kalshi."""

    def __call__(self, work: Callable[[KalshiClient], Awaitable[T]]) -> T:
        """Run `work` with a connected client, and return what it returns."""
        ...


@dataclass(frozen=True)
class Kalshi:
    """`VenueData` of Kalshi."""

    ask: AskKalshi

    def present(self, limit: int, now: datetime) -> FrozenUniverse:
        """The open markets of the largest volume: all open events are read, as the venue does not sort by volume."""
        return self.ask(lambda client: _present(client, limit, now))

    def past(self, at: datetime, limit: int) -> FrozenUniverse:
        """See `markets.candidates`."""
        return self.ask(lambda client: _past(client, at, limit))

    def held(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> Held:
        """Markets by id, with the candles of the last days."""
        return self.ask(lambda client: _held(client, market_ids, at, past=past))

    def look(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """The contracts' words and prices, and the order books."""
        tokens = wanted_tokens(markets, list(markets))

        async def work(client: KalshiClient) -> tuple[dict[str, Listed], dict[str, snapshots.Book]]:
            return (await _by_id(client, list(markets)))[0], await snapshots.fetch_books(client, tokens)

        found, books = self.ask(work)
        quotes: dict[str, dict[int, Quote]] = {}
        for ticker, (market_id, place) in tokens.items():
            book = books.get(ticker)
            quote = Quote(None, at=now, source=LISTING) if book is None else quote_of_book(book.yes, book.no, book.at)
            rows = found[market_id].contracts if market_id in found else ()
            shown = next((price_of(row) for row in rows if row["ticker"] == ticker), None)
            if shown is not None:
                quote = replace(quote, listed=within(shown, quote.bid, quote.ask))
            if book is not None or shown is not None:
                quotes.setdefault(market_id, {})[place] = quote
        return {name: status_of(one) for name, one in found.items()}, dict(quotes)

    def past_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Bid and ask of the candles that were in force."""
        tokens = wanted_tokens(markets, list(markets))
        if not tokens:
            return {}
        found = self.ask(lambda client: _candles(client, tokens, at - FRESH, at))
        return {name: _quotes(market, found, at) for name, market in markets.items()}

    def evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """The present contracts of each market."""
        found, at = self.ask(lambda client: _by_id(client, market_ids))
        return [evidence_of(one, fetched_at=at or now) for one in found.values()]

    def past_evidence(self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]) -> list[dict[str, Any]]:
        """See `resolution.past_looks`."""
        found, _ = self.ask(lambda client: _by_id(client, market_ids))
        wait = max(one.dispute_window for one in rules.values())
        return past_looks(found.values(), until, wait=wait, grace=max(one.grace for one in rules.values()))

    def midpoints(self, tokens: Iterable[str]) -> dict[str, Observed]:
        """Midpoints of order books."""
        books = self.ask(lambda client: snapshots.fetch_books(client, tokens))
        return {ticker: Observed(quote_of_book(book.yes, book.no, book.at).mid, book.at) for ticker, book in books.items()}

    def listed(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Nothing: a listing of Kalshi quotes its order book."""
        return {}

    def past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Midpoints of hourly candles, where both sides were quoted."""
        found = self.ask(lambda client: snapshots.fetch_candles(client, spans))
        return {ticker: list(_midpoints(map(_candle, rows))) for ticker, rows in found.items()}


async def _present(client: KalshiClient, limit: int, now: datetime) -> FrozenUniverse:
    seen, series = await snapshots.fetch_open_events(client, now), await snapshots.fetch_series(client)
    at = seen.at or now
    found = listed((row for row in seen.contracts.values() if row["status"] in OPEN), seen.events)
    markets = [market_of(one, series, at) for one in found]
    return FrozenUniverse(universe(markets, limit, at), at, False, "Kalshi: open events by volume", seen.rejects, "kalshi")


async def _past(client: KalshiClient, at: datetime, limit: int) -> FrozenUniverse:
    existed = (pl.coalesce("created_at", "open_time") <= at) & (pl.col("close_time") > at) & ~pl.col("is_combo")
    seen, series = await snapshots.fetch_closing_after(client, at, existed), await snapshots.fetch_series(client)
    found = candidates(seen.contracts.values(), seen.events, at)
    known: dict[str, Candle | None] = {}
    chosen = past_universe([], series, known, at, limit)
    for some in _batches(found):
        tickers = [ticker for one in some for ticker in one.tickers]
        known |= {ticker: as_of(rows, at) for ticker, rows in (await _candles(client, tickers, at - FRESH, at)).items()}
        asked = [one for one in found if all(ticker in known for ticker in one.tickers)]
        chosen = past_universe(asked, series, known, at, limit)
        if len(chosen.markets) == limit:
            break
    source = f"Kalshi: dates of markets expected to end {SOONEST.days} to {LATEST.days} days later; candlesticks"
    return FrozenUniverse(chosen, at, True, source, seen.rejects, "kalshi")


def _batches(found: Iterable[Listed]) -> Iterator[list[Listed]]:
    """Neighbours with at most `_AT_ONCE` contracts together; a larger candidate is alone."""
    held: list[Listed] = []
    for one in found:
        if held and sum(len(other.contracts) for other in (*held, one)) > _AT_ONCE:
            yield held
            held = []
        held.append(one)
    if held:
        yield held


async def _by_id(client: KalshiClient, market_ids: Sequence[str]) -> tuple[dict[str, Listed], datetime | None]:
    """The markets of these ids with all their contracts, whatever became of them, and when the venue answered."""
    seen, of_events = await snapshots.fetch_by_id(client, market_ids)
    found: dict[str, Listed] = {}
    for name in dict.fromkeys(market_ids):
        if name in of_events:
            own = sorted((row for row in seen.contracts.values() if row["event_ticker"] == name), key=lambda row: str(row["ticker"]))
            found[name] = Listed(name, seen.events.get(name), tuple(own), named=True)
        elif name in seen.contracts:
            row = seen.contracts[name]
            found[name] = Listed(name, seen.events.get(row["event_ticker"]), (row,), named=False)
    return found, seen.at


async def _candles(client: KalshiClient, tickers: Iterable[str], first: datetime, last: datetime) -> dict[str, list[Candle]]:
    found = await snapshots.fetch_candles(client, dict.fromkeys(tickers, (first, last)))
    return {ticker: [_candle(row) for row in rows] for ticker, rows in found.items()}


def _candle(row: Mapping[str, Any]) -> Candle:
    return Candle(row["end_at"], row["yes_bid_close"], row["yes_ask_close"])


def _quotes(market: Market, candles: Mapping[str, Sequence[Candle]], at: datetime) -> Quotes:
    """The quotes of a market as of an instant, from candles at most a day old."""
    found: dict[int, Quote] = {}
    for place, ticker in enumerate(market.token_ids):
        candle = as_of([one for one in candles.get(ticker, ()) if at - one.at <= FRESH], at)
        if candle is not None:
            found[place] = quote_of_candle(candle)
    return found


def _midpoints(candles: Iterable[Candle]) -> Iterator[tuple[datetime, Decimal]]:
    for candle in candles:
        if candle.bid is not None and candle.ask is not None:
            yield candle.at, (candle.bid + candle.ask) / 2


async def _held(client: KalshiClient, market_ids: Sequence[str], at: datetime, *, past: bool) -> Held:
    (found, _), series = await _by_id(client, market_ids), await snapshots.fetch_series(client)
    spans = [ticker for one in found.values() for ticker in one.tickers]
    candles = await _candles(client, spans, at - _LAST, at)
    markets: dict[str, Market] = {}
    for name, one in found.items():
        market = past_market(one, series, {}, at) if past else market_of(one, series, at)
        markets[name] = replace(market, volume=None) if past else market
    quotes = {name: _quotes(market, candles, at) for name, market in markets.items()} if past else {}
    points = {ticker: [(one.at, quote_of_candle(one).mid) for one in found] for ticker, found in candles.items()}
    return Held(markets, last_prices(markets.values(), points, at), quotes)
