"""Streams of one event with two markets, and the episodes built from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from bellwether.recordings.recording import RecordingRequest
from bellwether.replay.episode.content import Content
from bellwether.replay.episode_builder.build import Outcomes, build
from bellwether.replay.episode_builder.listings import Listings
from bellwether.replay.tape.layout import KINDS, LEVEL, unpack
from bellwether.venues.kalshi.stream.frame import Frame
from tests.unit.venues.stream_peer import A, B

Json = dict[str, Any]

SECOND = 1_000_000_000
#: 2026-11-21T12:00:00Z, the exchange's time of second 0.
NOON = 1_795_262_400 * SECOND
EVENT = "KXONE-26NOV21"
ABOUT = RecordingRequest("kalshi", "websocket", (EVENT,), (A, B), ("orderbook_delta", "trade"), "bellwether test")
PARTIAL = RecordingRequest("kalshi", "import", (EVENT,), (A, B), ("orderbook_delta", "trade"), "bellwether test", partial=True)


def at(second: float) -> Json:
    """Return the exchange's time this many seconds after noon, in the format of a delta."""
    whole, part = divmod(round(second * 1_000_000), 1_000_000)
    return {"ts": f"2026-11-21T12:{whole // 60:02d}:{whole % 60:02d}.{part:06d}Z"}


def nanoseconds_at(second: float) -> int:
    """Return the same time in nanoseconds since 1970."""
    return NOON + round(second * SECOND)


def trade(market: str, seq: int, *, price: str = "0.4000", count: str = "1.00", side: str = "yes", sid: int = 2, **body: Any) -> Json:
    """Return a trade. `price` is that of YES."""
    message = {"trade_id": f"t{seq}", "market_ticker": market, "yes_price_dollars": price, "count_fp": count, "taker_side": side, **body}
    return {"type": "trade", "sid": sid, "seq": seq, "msg": message}


def lifecycle(event: str, second: float, *, seq: int = 1, **body: Any) -> Json:
    """Return a lifecycle message, sent this many seconds after noon."""
    message = {"market_ticker": A, "event_type": event, **body}
    return {"type": "market_lifecycle_v2", "sending_ts_ms": nanoseconds_at(second) // 1_000_000, "sid": 3, "seq": seq, "msg": message}


def frames(*bodies: Json | bytes, connection: int = 1, first: int = 0, received: bool = False) -> list[Frame]:
    """Return frames received half a second after noon and a second apart, or without times of receipt."""
    texts = [body if isinstance(body, bytes) else orjson.dumps(body) for body in bodies]
    return [
        Frame(nanoseconds_at(first + place + 0.5) if received else None, connection, first + place, text)
        for place, text in enumerate(texts)
    ]


def built(
    found: Sequence[Frame], *, about: RecordingRequest = ABOUT, known: Listings | None = None, results: Outcomes | None = None
) -> Content:
    """Return the only episode of a stream."""
    [content] = build("rec", about, lambda: found, known=known, outcomes=results or Outcomes())
    return content


def rows(content: Content, ticker: str = A) -> list[tuple[Any, ...]]:
    """Return the changes of a market's book: (seconds after noon, kind, side, price in tenths of a cent, lots)."""
    own = content.metadata.tickers.index(ticker)
    changes = zip(
        np.repeat(content.book.ts, content.book.counts).tolist(), *map(np.ndarray.tolist, unpack(content.book.words)), strict=True
    )
    return [
        ((at - NOON) / SECOND, KINDS[kind], *((("yes", "no")[side], price / 10, lots) if kind == LEVEL else (None,) * 3))
        for at, kind, code, side, price, lots in changes
        if code == own
    ]


def levels(content: Content, ticker: str = A) -> dict[tuple[str, int], int]:
    """Return the final book of a market: lots by side and tenths of a cent."""
    book = {(side, price): lots for _, kind, side, price, lots in rows(content, ticker) if kind == "level"}
    return {level: lots for level, lots in book.items() if lots}
