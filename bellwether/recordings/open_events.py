"""Events of Kalshi that are open for recording, and a search among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    Attributes:
        event: ticker, the argument of `record`.
        title: title of the event.
        markets: number of open markets.
        contracts: contracts traded so far in these.
        closes_at: earliest close of one of them.
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
    """Return open events with every word in ticker, title, category or a market's title, in any case; most traded first.

    Raises `VenueError` when the venue fails after all retries.
    """
    async with KalshiClient(venue.kalshi, limits=limits or RateLimit(), transport=venue.transport) as client:
        seen = await snapshots.fetch_open_events(client, now)
    markets: dict[str, list[snapshots.Row]] = {}
    for row in seen.contracts.values():
        if row["status"] in _TRADED:
            markets.setdefault(row["event_ticker"], []).append(row)
    found = [
        _event(seen.events.get(ticker, {}), ticker, rows) for ticker, rows in markets.items() if _matches(words, _texts(seen.events, rows))
    ]
    return sorted(found, key=lambda one: (-one.contracts, one.event))


def _event(about: Mapping[str, Any], ticker: str, rows: Sequence[snapshots.Row]) -> OpenEvent:
    closes = [row["close_time"] for row in rows if row["close_time"] is not None]
    contracts = sum((row["volume"] for row in rows if row["volume"] is not None), Decimal(0))
    title = about.get("title") or rows[0]["title"] or ""
    return OpenEvent(ticker, title, about.get("category"), len(rows), contracts, min(closes, default=None))


def _texts(events: Mapping[str, snapshots.Row], rows: Sequence[snapshots.Row]) -> Iterable[str]:
    about = events.get(rows[0]["event_ticker"], {})
    for text in (rows[0]["event_ticker"], about.get("title"), about.get("sub_title"), about.get("category")):
        yield text or ""
    for row in rows:
        yield f"{row['ticker']} {row['title'] or ''}"


def _matches(words: Sequence[str], texts: Iterable[str]) -> bool:
    whole = "\n".join(texts).casefold()
    return all(word.casefold() in whole for word in words)
