"""Polling of markets for resolutions: awaited ones less often the longer nothing happens, settled ones for corrections, missing ones with back-off."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from bellwether.arena.ledger import Book
from bellwether.arena.market import MarketStatus

#: Between two looks at a market that is over or past its close: at first, and at most.
FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=6)
#: Between two looks at one that is open and not yet due.
OPEN = timedelta(hours=6)
#: For so long after its settlement a market is polled for a correction, once a UTC day, so that one run looks at all of them.
CORRECTIONS = timedelta(days=14)
DAILY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Polled:
    """Summary of the looks at a market so far.

    same: how many of the last looks agree, from 1. missing: the venue did not list it at the last look.
    """

    status: MarketStatus
    looked_at: datetime
    same: int = 1
    closes_at: datetime | None = None
    missing: bool = False


def awaited(book: Book) -> list[str]:
    """Markets with a bet that no settlement has scored, cancelled or split for its methodology: of held positions and of those sold before."""
    return sorted(
        market_id
        for market_id, trades in book.bets.items()
        if any((book.accounts[trade.agent_id].agent.methodology, market_id) not in book.settlements for trade in trades)
    )


def correctable(book: Book, now: datetime) -> list[str]:
    """Settled markets whose last settlement is not older than `CORRECTIONS`."""
    settled: dict[str, datetime] = {}
    for (_, market_id), one in book.settlements.items():
        settled[market_id] = max(one.known_at, settled.get(market_id, one.known_at))
    return sorted({market_id for market_id, at in settled.items() if now - at <= CORRECTIONS} - set(awaited(book)))


def next_look(polled: Polled | None, *, settled: bool = False) -> datetime | None:
    """The time of the next look at a market; None for now, as there was none. Doubles while the looks agree, up to `LONGEST`, or a day if missing."""
    if polled is None:
        return None
    if settled:
        return datetime.combine(polled.looked_at.date() + DAILY, time(), UTC)
    is_open = polled.status is MarketStatus.ACTIVE and (polled.closes_at is None or polled.looked_at < polled.closes_at)
    if is_open and not polled.missing:
        soon = polled.looked_at + OPEN
        return soon if polled.closes_at is None else min(soon, max(polled.closes_at, polled.looked_at + FIRST))
    return polled.looked_at + min(FIRST * 2 ** min(polled.same - 1, 20), DAILY if polled.missing else LONGEST)


def due(book: Book, polled: Mapping[str, Polled], now: datetime, *, final: Collection[str] = ()) -> list[str]:
    """Markets whose next look is not after `now`: awaited ones, and settled ones that are not `final`."""
    settled = [market_id for market_id in correctable(book, now) if market_id not in final]
    times = {market_id: next_look(polled.get(market_id), settled=True) for market_id in settled}
    times |= {market_id: next_look(polled.get(market_id)) for market_id in awaited(book)}
    return [market_id for market_id, at in sorted(times.items()) if at is None or at <= now]
