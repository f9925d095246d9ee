"""Search among Kalshi's open events for one to record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from bellwether.venues.http.client import RateLimit
from bellwether.venues.kalshi import snapshots
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.worlds import Addresses

_TRADED = frozenset({"active", "open"})


@dataclass(frozen=True, slots=True)
class OpenEvent:
    """Event with open markets.

    Attributes: event: ticker, the argument of `bellwether record`. title: title of the event. category: the venue's category. markets:
    number of open markets. contracts: number of contracts traded so far in them. closes_at: earliest close of an open market.
    """

    event: str
    title: str
    category: str | None
    markets: int
    contracts: Decimal
    closes_at: datetime | None


async def list_open_events(
    venue: Addresses, now: datetime, words: Sequence[str] = (), *, limits: RateLimit | None = None
) -> list[OpenEvent]:
    """Return the open events, most traded first, whose ticker, title, category or market titles contain every word, in any case.

    Raises `VenueError` when the venue fails after all retries.
    """
    async with KalshiClient(venue.kalshi, limits=limits or RateLimit(), transport=venue.transport) as client:
        snapshot = await snapshots.fetch_open_events(client, now)
    markets: dict[str, list[snapshots.Row]] = {}
    for row in snapshot.contracts.values():
        if row["status"] in _TRADED:
            markets.setdefault(row["event_ticker"], []).append(row)
    events = [
        _open_event(ticker, event, rows)
        for ticker, rows in markets.items()
        if _matches(words, ticker, event := snapshot.events.get(ticker, {}), rows)
    ]
    return sorted(events, key=lambda event: (-event.contracts, event.event))


def _open_event(ticker: str, event: Mapping[str, Any], rows: Sequence[snapshots.Row]) -> OpenEvent:
    closes = [row["close_time"] for row in rows if row["close_time"] is not None]
    contracts = sum((row["volume"] for row in rows if row["volume"] is not None), Decimal(0))
    title = event.get("title") or rows[0]["title"] or ""
    return OpenEvent(ticker, title, event.get("category"), len(rows), contracts, min(closes, default=None))


def _matches(words: Sequence[str], ticker: str, event: Mapping[str, Any], rows: Sequence[snapshots.Row]) -> bool:
    """Return True if the texts of an event and its markets contain every word."""
    texts = [ticker, *(event.get(name) or "" for name in ("title", "sub_title", "category"))]
    texts += [f"{row['ticker']} {row['title'] or ''}" for row in rows]
    text = "\n".join(texts).casefold()
    return all(word.casefold() in text for word in words)
