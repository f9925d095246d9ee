"""Requests of the arena's weeks to Polymarket's APIs: to Gamma for markets; to the CLOB for books, past prices and winners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bellwether.arena.history import (
    LATEST,
    SOONEST,
    SOURCE,
    HeldMarkets,
    Points,
    find_candidates,
    find_last_prices,
    list_priced_tokens,
    reconstruct_evidence,
    reconstruct_quotes,
    reconstruct_universe,
    was_open,
)
from bellwether.arena.market import Level, Market, MarketStatus, Quote, Quotes, find_quoted_tokens
from bellwether.arena.marks import PriceKey, PriceObservation
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.resolution import build_evidence_row
from bellwether.arena.units import micros, midpoint, price_micros
from bellwether.arena.universe import is_tradable, market_from_row, select_universe
from bellwether.errors import SchemaError
from bellwether.units import MicroShares, SharePrice
from bellwether.venues.polymarket import snapshots

if TYPE_CHECKING:
    from bellwether.venues.http.client import ClobClient, GammaClient

#: Time before the decision from which past prices of a reconstructed universe are requested.
_PRICED = timedelta(days=1)
#: Maximum age of the last price of a held market.
_LAST = timedelta(days=14)


@dataclass(frozen=True)
class Polymarket:
    """Markets, prices and evidence (what the venue states about resolutions) of Polymarket. Tokens are those of a market's outcomes."""

    gamma: GammaClient
    clob: ClobClient

    async def fetch_universe(self, limit: int, now: datetime) -> FrozenUniverse:
        """Fetch the open markets with the largest volume."""
        snapshot = await snapshots.fetch_largest_open(
            self.gamma, limit, lambda row: bool(row["market_id"] and row["token_ids"]) and is_tradable(market_from_row(row, now), now)
        )
        at, markets, rejects = snapshot.at or now, [], snapshot.rejects
        for row in snapshot.rows:
            # Markets that are not deployed yet cannot be traded, quoted or valued.
            if not row["token_ids"]:
                rejects += 1
                continue
            try:
                markets.append(market_from_row(row, at))
            except SchemaError:
                rejects += 1
        return FrozenUniverse(select_universe(markets, limit, at), at, False, "Gamma: open markets by volume", rejects)

    async def reconstruct_universe(self, at: datetime, limit: int) -> FrozenUniverse:
        """Reconstruct the universe as of a past instant; see `bellwether.arena.history`."""
        snapshot = await snapshots.fetch_ending(self.gamma, at + SOONEST, at + LATEST)
        tokens: dict[str, tuple[datetime, datetime]] = {}
        traded: set[str] = set()
        for row in find_candidates(snapshot.rows, at):
            try:
                market_tokens = list_priced_tokens(market_from_row(row, at))
            except SchemaError:
                continue
            tokens |= dict.fromkeys(market_tokens, (at - _PRICED, at))
            traded.update(market_tokens if row.get("volume") else ())
        prices = await snapshots.fetch_past_prices(self.clob, tokens, traded=traded)
        source = f"Gamma: dates of markets that were to end {SOONEST.days} to {LATEST.days} days later; CLOB: {SOURCE}"
        return FrozenUniverse(reconstruct_universe(snapshot.rows, prices, at, limit), at, True, source, snapshot.rejects)

    async def fetch_held_markets(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
        """Fetch markets by id, with the last prices up to `at`. past: `at` lies in a reconstructed week, so that statuses and quotes are those of
        `at`.
        """
        snapshot = await snapshots.fetch_by_id(self.gamma, market_ids)
        markets: dict[str, Market] = {}
        for row in snapshot.rows:
            market = market_from_row(row, at)
            status = MarketStatus.ACTIVE if was_open(row, at) else MarketStatus.CLOSED
            markets[market.market_id] = (
                replace(market, status=status, prices=(None,) * len(market.outcomes), volume=None) if past else market
            )
        tokens = [token for market in markets.values() for token in list_priced_tokens(market)]
        prices = await snapshots.fetch_past_prices(self.clob, dict.fromkeys(tokens, (at - _LAST, at)))
        quotes: dict[str, Quotes] = {market_id: reconstruct_quotes(market, prices, at) for market_id, market in markets.items() if past}
        points = {token: [(when, price_micros(price)) for when, price in token_points] for token, token_points in prices.items()}
        return HeldMarkets(markets, find_last_prices(markets.values(), points, at), quotes)

    async def fetch_quotes(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """Fetch current statuses from Gamma and quotes from the CLOB's books, by market id. Unknown markets are omitted."""
        tokens = find_quoted_tokens(markets, list(markets))
        snapshot, books = await snapshots.fetch_by_id(self.gamma, list(markets)), await snapshots.fetch_books(self.clob, tokens)
        quotes: dict[str, dict[int, Quote]] = {}
        for token, book in books.items():
            market_id, place = tokens[token]
            quotes.setdefault(market_id, {})[place] = quote_from_book(book)
        return {row["market_id"]: market_from_row(row, now).status for row in snapshot.rows}, dict(quotes)

    async def reconstruct_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Return the stored prices of the markets as quotes with midpoints only; past bids and asks are not recorded."""
        return {
            name: {place: Quote(price, source=SOURCE) for place, price in enumerate(market.prices) if price is not None}
            for name, market in markets.items()
        }

    async def fetch_evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """Fetch what the venue states about the resolution of each market: one row of evidence per market, from Gamma and, for closed markets,
        the CLOB's winner flags.
        """
        snapshot = await snapshots.fetch_by_id(self.gamma, market_ids)
        flags = await self._fetch_flags(snapshot.rows)
        at = snapshot.at or now
        return [
            build_evidence_row(row, fetched_at=at, winners=winners, is_50_50=half)
            for row in snapshot.rows
            for winners, half in [flags.get(row.get("condition_id") or "", (None, None))]
        ]

    async def reconstruct_evidence(
        self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]
    ) -> list[dict[str, Any]]:
        """Reconstruct what polls up to `until` would have shown; see `bellwether.arena.history.reconstruct_evidence`."""
        snapshot = await snapshots.fetch_by_id(self.gamma, market_ids)
        flags = await self._fetch_flags(snapshot.rows)
        wait = max(methodology.dispute_window for methodology in rules.values())
        grace = max(methodology.grace for methodology in rules.values())
        return reconstruct_evidence((row for row in snapshot.rows if row.get("closed")), flags, until, wait=wait, grace=grace)

    async def _fetch_flags(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, tuple[Sequence[str], bool | None]]:
        """Fetch the CLOB's winners and 50-50 flags of closed markets, by condition."""
        conditions = [row["condition_id"] for row in rows if row.get("closed") and row.get("condition_id")]
        return await snapshots.fetch_winners(self.clob, conditions)

    async def fetch_midpoints(self, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        """Fetch the midpoints of current books, by token; outcomes unknown to the venue are omitted."""
        books = await snapshots.fetch_books(self.clob, tokens)
        return {token: PriceObservation(book_midpoint(book), book.at) for token, book in books.items()}

    async def fetch_listed_prices(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Fetch Gamma's outcome prices, by (market, outcome), to compare with `fetch_midpoints`."""
        snapshot = await snapshots.fetch_by_id(self.gamma, sorted({market_id for market_id, _ in keys}))
        markets = {row["market_id"]: market_from_row(row, now) for row in snapshot.rows}
        prices = {key: markets[key[0]].price(key[1]) for key in keys if key[0] in markets}
        return {key: price for key, price in prices.items() if price is not None}

    async def fetch_past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Fetch hourly prices from the route /prices-history, by token, earliest first. spans: start and end of each token's prices."""
        return dict(await snapshots.fetch_past_prices(self.clob, spans))


def quote_from_book(book: snapshots.Book, source: str = "clob") -> Quote:
    """Convert a book to a quote. The midpoint is None unless both sides are quoted."""
    bid, ask = _best_prices(book)
    sides = _to_levels(book.bids), _to_levels(book.asks)
    return Quote(midpoint(bid, ask), bid, ask, book.at, source, *sides, tick=price_micros(book.tick), skipped=book.skipped)


def book_midpoint(book: snapshots.Book) -> SharePrice | None:
    """Return the midpoint of a book in micro-dollars; None unless both sides are quoted."""
    return midpoint(*_best_prices(book))


def _best_prices(book: snapshots.Book) -> tuple[SharePrice | None, SharePrice | None]:
    bid, ask = (price_micros(side[0][0]) if side else None for side in (book.bids, book.asks))
    return bid, ask


def _to_levels(side: Sequence[tuple[Decimal, Decimal]]) -> tuple[Level, ...]:
    levels = ((price_micros(price), MicroShares(micros(size))) for price, size in side)
    return tuple(Level(price, shares) for price, shares in levels if price is not None and shares > 0)
