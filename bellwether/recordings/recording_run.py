"""Recording of events' markets, by WebSocket or polling, until they close, the time is up, or the user stops it; search for open events."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether import __version__
from bellwether.errors import ConfigError
from bellwether.recordings.exchange_times import to_nanoseconds
from bellwether.recordings.recorder import Recorder, StreamStart
from bellwether.recordings.recording import Recording, RecordingRequest, check_name, watch_frame
from bellwether.venues.http.client import KalshiClient, RateLimit
from bellwether.venues.kalshi import routes, snapshots
from bellwether.venues.kalshi.stream.client import KalshiStream
from bellwether.venues.kalshi.stream.frame import REST_BOOKS, REST_TRADES, USUAL, Frame, StreamSubscription
from bellwether.venues.kalshi.stream.polling import KalshiPolling, find_over_markets
from bellwether.venues.wire.times import parse_instant
from bellwether.worlds import Addresses

if TYPE_CHECKING:
    from bellwether.venues.kalshi.stream.client import StreamTimeouts

#: Venue's statuses of markets that are worth recording.
_ALIVE = frozenset({"initialized", "unopened", "active", "open", "inactive", "paused"})
#: Maximum of events in a default name.
_NAMED = 2


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """Events to record, the method and the duration.

    events: tickers. minutes: real minutes until the end; None records until the markets close. channels: of the WebSocket. rest: poll instead
    of listening, which needs no key. interval: seconds between two rounds of polling. sync_seconds: time after which a frame is on the disk.
    """

    events: tuple[str, ...]
    minutes: float | None = None
    channels: tuple[str, ...] = USUAL
    rest: bool = False
    interval: float = 5.0
    limits: RateLimit = field(default_factory=RateLimit)
    sync_seconds: float = 5.0
    patience: StreamTimeouts | None = None

    def __post_init__(self) -> None:
        if not self.events:
            raise ConfigError("recording: no event is given; give its ticker, such as KXNBAGAME-26MAR18LALHOU")
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"recording {', '.join(self.events)}: minutes is {self.minutes}; give more than 0")


@dataclass(frozen=True, slots=True)
class RecordingProgress:
    """Progress of a recording: frames and bytes of this run, skipped sequence numbers, connections, open markets, and seconds so far."""

    frames: int
    bytes: int
    gaps: int
    connections: int
    open_markets: int
    seconds: float


def default_name(events: Sequence[str]) -> str:
    """Return the default name for a recording of these events."""
    names = [re.sub(r"[^A-Za-z0-9._-]", "_", event) for event in events]
    return "+".join(names[:_NAMED]) + (f"+{len(names) - _NAMED}" if len(names) > _NAMED else "")


async def find_markets(client: KalshiClient, events: Sequence[str]) -> dict[str, datetime | None]:
    """Return the open and upcoming markets of these events, each with its close (aware; None if not stated).

    Raises `ConfigError` naming the events without any.
    """
    closes: dict[str, datetime | None] = {}
    for event in events:
        count = len(closes)
        async for page in client.follow(routes.markets(event_ticker=event, mve_filter=None)):
            closes |= {market["ticker"]: parse_instant(market.get("close_time")) for market in page.items("markets") if _is_alive(market)}
        if len(closes) == count:
            raise ConfigError(f"recording {event}: the venue lists no open or upcoming market of it; check the event's ticker")
    return closes


def _is_alive(market: Any) -> bool:
    return isinstance(market, dict) and isinstance(market.get("ticker"), str) and str(market.get("status")) in _ALIVE


Tell = Callable[[RecordingProgress], None]


async def record_events(
    venue: Addresses, plan: RecordingPlan, root: Path, *, name: str | None = None, tell: Tell | None = None, every: float = 10.0
) -> Recording:
    """Record the events of `plan` as a recording below `root`, and return the finished recording.

    An interrupted recording of this name (by default derived from the events) is continued. tell: called every so many seconds. Cancellation
    finishes the recording with the frames so far, and `CancelledError` propagates. After any other error the recording can be continued. Raises
    `ConfigError` for events without markets or a name that is taken, and `VenueError` when the venue fails after all retries.
    """
    async with KalshiClient(venue.kalshi, limits=plan.limits) as client:
        markets = await find_markets(client, plan.events)
        about = _build_request(plan, tuple(markets))
        with Recorder(root / check_name(default_name(plan.events) if name is None else name), about) as recorder:
            source = _create_source(venue, plan, client, markets, _write_closes(recorder, markets))
            await record_source(source, recorder, plan, tell=tell, every=every)
        return Recording(recorder.folder)


def _write_closes(recorder: Recorder, markets: dict[str, datetime | None]) -> StreamStart:
    """Write a frame with the announced close of each market. Returns the connection and ordinal of the next frame."""
    start = recorder.next
    for ticker, close in markets.items():
        if close is not None:
            note = watch_frame(ticker, to_nanoseconds(close))
            recorder.write(Frame(time.time_ns(), start.connection, start.ordinal, note))
            start = start._replace(ordinal=start.ordinal + 1)
    return start


def _build_request(plan: RecordingPlan, tickers: tuple[str, ...]) -> RecordingRequest:
    return RecordingRequest(
        venue="kalshi",
        source="rest" if plan.rest else "websocket",
        events=plan.events,
        tickers=tickers,
        channels=(REST_BOOKS, REST_TRADES) if plan.rest else plan.channels,
        software=f"bellwether {__version__}",
        started_at=datetime.now(UTC).isoformat(),
        use_yes_price=None if plan.rest else True,
    )


def _create_source(
    venue: Addresses,
    plan: RecordingPlan,
    client: KalshiClient,
    markets: dict[str, datetime | None],
    start: StreamStart,
) -> KalshiStream | KalshiPolling:
    if plan.rest:
        return KalshiPolling(client, tuple(markets), interval=plan.interval, start=start)

    return KalshiStream(
        venue.kalshi_stream,
        venue.credentials(),
        StreamSubscription(tuple(markets), plan.channels),
        patience=plan.patience,
        closes={ticker: close for ticker, close in markets.items() if close is not None},
        over_among=partial(find_over_markets, client),
        start=start,
    )


async def record_source(
    source: KalshiStream | KalshiPolling, recorder: Recorder, plan: RecordingPlan, *, tell: Tell | None = None, every: float = 10.0
) -> None:
    """Write the frames of a stream or polling source until it ends or the time is up, and finish the recording.

    Args, cancellation and errors are those of `record_events`.
    """
    loop = asyncio.get_running_loop()
    helpers = [asyncio.create_task(_sync_periodically(recorder, plan.sync_seconds))]
    if tell is not None:
        helpers.append(asyncio.create_task(_report_periodically(source, recorder, tell, every, loop.time())))
    try:
        async with asyncio.timeout(None if plan.minutes is None else plan.minutes * 60) as limit:
            async with aclosing(source.frames()) as frames:
                async for frame in frames:
                    recorder.write(frame)
        recorder.finish("every market has closed")
    except TimeoutError:
        if not limit.expired():
            raise
        recorder.finish("time was up")
    except asyncio.CancelledError:
        recorder.finish("ended by hand")
        raise
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


async def _sync_periodically(recorder: Recorder, seconds: float) -> None:
    """Write the lines of a recorder to the disk, even if few frames arrive."""
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(recorder.sync)


async def _report_periodically(source: KalshiStream | KalshiPolling, recorder: Recorder, tell: Tell, every: float, began: float) -> None:
    """Pass the progress of the recording to `tell` every `every` seconds. began: start of the recording on the loop's clock."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(every)
        tell(RecordingProgress(recorder.frames, recorder.bytes, source.gaps, source.connections, len(source.open), loop.time() - began))


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
