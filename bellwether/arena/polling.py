"""Which markets to look at for a resolution, and when next: only those that somebody waits for, less often the longer nothing happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bellwether.arena.ledger import Book
from bellwether.arena.market import MarketStatus

#: Between two looks at a market that is over or past its close: at first, and at most.
FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=6)
#: Between two looks at one that is open and not yet due.
OPEN = timedelta(hours=6)
#: A market that is closed for so long without a settlement is reported.
STUCK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Polled:
    """What is known of a market from the looks so far. same: how many of the last looks said the same, from 1. since: when it was first seen closed."""

    status: MarketStatus
    looked_at: datetime
    same: int = 1
    closes_at: datetime | None = None
    since: datetime | None = None


def awaited(book: Book) -> list[str]:
    """Markets with a bet that no settlement has scored, cancelled or split for its methodology: of held positions and of those sold before."""
    return sorted(
        market_id
        for market_id, trades in book.bets.items()
        if any((book.accounts[trade.agent_id].agent.methodology, market_id) not in book.settlements for trade in trades)
    )


def next_look(polled: Polled | None) -> datetime | None:
    """When to look at a market again: None for now, as it was never looked at. Doubles while the looks say the same, up to `LONGEST`."""
    if polled is None:
        return None
    if polled.status is MarketStatus.ACTIVE and (polled.closes_at is None or polled.looked_at < polled.closes_at):
        soon = polled.looked_at + OPEN
        return soon if polled.closes_at is None else min(soon, max(polled.closes_at, polled.looked_at + FIRST))
    return polled.looked_at + min(FIRST * 2 ** min(polled.same - 1, 20), LONGEST)


def due(book: Book, polled: Mapping[str, Polled], now: datetime) -> list[str]:
    """Awaited markets whose next look is not after `now`."""
    times = ((market_id, next_look(polled.get(market_id))) for market_id in awaited(book))
    return [market_id for market_id, at in times if at is None or at <= now]


def stuck(book: Book, polled: Mapping[str, Polled], now: datetime) -> list[str]:
    """Awaited markets that have been closed for longer than `STUCK`."""
    return [market_id for market_id in _closed(awaited(book), polled) if now - (polled[market_id].since or now) > STUCK]


def _closed(market_ids: Iterable[str], polled: Mapping[str, Polled]) -> list[str]:
    return [one for one in market_ids if one in polled and polled[one].status is not MarketStatus.ACTIVE]
