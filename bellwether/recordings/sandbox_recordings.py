"""Recordings of settled events of the sandbox, generated with the same bytes each time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import orjson

from bellwether.errors import ConfigError
from bellwether.recordings.capture_import import make_recording
from bellwether.recordings.captures import Capture
from bellwether.recordings.framing import CapturedMessage
from bellwether.recordings.recorder_frames import watch_frame
from bellwether.recordings.recording import Recording, check_name
from bellwether.sandbox.exchange.exchange import BOOKS, LIFECYCLE, TRADES, Interest
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.exchange.stream import Subscription
from bellwether.sandbox.timestamps import HOUR, SECOND, to_instant
from bellwether.sandbox.world.model import WorldEvent, to_day_number
from bellwether.sandbox.world.world import GeneratedWorld

#: Default number of events. The last one gets a gap of `_LOST_SECONDS`.
RECENT_EVENTS = 3
#: Minimum of hours; a shorter recording may have no message, and no episode can be built from it.
LEAST_HOURS = 0.1
_LOST_SECONDS = 90.0
_MICROSECOND = 1000
_CHANNELS = (BOOKS, TRADES, LIFECYCLE)


def generate_recording(
    root: Path, world: GeneratedWorld, event: str, *, hours: float = 24.0, lost_seconds: float = 0.0, now: datetime
) -> Recording:
    """Generate a recording of the last `hours` of a sandbox event, until its last market is settled.

    root: folder of recordings. lost_seconds: duration of lost messages, from the middle of those hours on; the books are requested again with
    the first message after it. now: the sandbox's present, aware; later events are unknown. An existing recording is left unchanged, whether or
    not it lost messages. Raises `ConfigError` for an event that does not exist or is not settled, and for invalid hours.
    """
    if not LEAST_HOURS <= hours < math.inf:
        raise ConfigError(f"generating a recording of {event}: hours is {hours}; give a number from {LEAST_HOURS}")
    generated = world.event(event)
    if generated is None:
        raise ConfigError(f"generating a recording of {event}: the sandbox has no such event; raw.kalshi_events lists its events")
    end = max(market.life.settled for market in generated.markets)
    if end > to_instant(now):
        raise ConfigError(f"generating a recording of {event}: it is not settled by {now:%Y-%m-%d %H:%M} UTC; record it instead")
    closed = max(market.life.closes for market in generated.markets)
    start, middle = closed - round(hours * HOUR), closed - round(hours / 2 * HOUR)
    lost = range(middle, middle + round(lost_seconds * SECOND))
    origin = {"seed": str(world.seed), "hours": f"{hours:g}"}
    capture = Capture(event, "sandbox", (), False, lambda: _messages(GeneratedExchange(world), generated, start, end, lost), origin)
    return make_recording(root, capture, check_name(event))


def generate_recordings(
    root: Path, world: GeneratedWorld, events: Sequence[str] = (), *, hours: float = 24.0, now: datetime
) -> list[Recording]:
    """Generate a recording of each event, by default of a few recently settled ones, the last with a gap; see `generate_recording`."""
    chosen = events or settled_events(world, now, RECENT_EVENTS)
    lost = {} if events else dict.fromkeys(chosen[-1:], _LOST_SECONDS)
    return [generate_recording(root, world, event, hours=hours, lost_seconds=lost.get(event, 0.0), now=now) for event in chosen]


def settled_events(world: GeneratedWorld, now: datetime, count: int) -> list[str]:
    """Return the tickers of up to `count` settled events with several markets, the latest of each series."""
    at = to_instant(now)
    latest: dict[str, str] = {}
    for number in range(to_day_number(at), -1, -1):
        for event in world.day(number).events:
            if len(event.markets) > 1 and not event.is_combo and all(market.life.settled <= at for market in event.markets):
                latest.setdefault(event.series_ticker, event.ticker)
        if len(latest) >= count:
            break
    return list(latest.values())[:count]


def _messages(exchange: GeneratedExchange, event: WorldEvent, start: int, end: int, lost: range) -> Iterator[CapturedMessage]:
    """Yield the messages of an event's books, trades and lifecycle from `start` to `end`, except those at the instants `lost`."""
    # Sorted, because the order of a set differs between processes.
    tickers = dict.fromkeys(market.ticker for market in event.markets)
    subscriptions = {channel: Subscription(sid, channel, set(tickers)) for sid, channel in enumerate(_CHANNELS, 1)}
    interest = Interest({ticker: frozenset({BOOKS, TRADES}) for ticker in tickers}, frozenset({LIFECYCLE}))
    for channel, subscription in subscriptions.items():
        yield _frame(start, {"type": "subscribed", "msg": {"channel": channel, "sid": subscription.sid}})
    for market in event.markets:
        yield _frame(start, watch_frame(market.ticker, market.life.announced_close(start) * _MICROSECOND))
    missing, noticed = False, None
    for message in (*exchange.opening(interest, start), *exchange.messages(interest, start + 1, end + 1)):
        if message.ticker not in tickers:
            continue
        # A snapshot contains everything of its instant, so it follows the last message of that instant.
        if noticed is not None and message.at > noticed:
            books = [book for ticker in tickers if (book := exchange.snapshot(ticker, noticed)) is not None]
            yield from (_frame(noticed, subscriptions[BOOKS].frame(book)) for book in books)
            noticed = None
        numbered = subscriptions[message.channel].frame(message)
        if message.at in lost:
            missing = True
            continue
        if missing:
            missing, noticed = False, message.at
        yield _frame(max(message.at, start), numbered)


def _frame(at: int, frame: dict[str, object]) -> CapturedMessage:
    return CapturedMessage(at * _MICROSECOND, 1, orjson.dumps(frame))
