"""Captured frames of Kalshi's WebSocket, recognised by content: bare lines, wrapped lines of recorders, and lists of frames.

Supported formats are a bare message, `{"frame": message, "received_at": nanoseconds}` (or `received_ms`), a list of those under `frames` of
a JSON document, and a recorder's event with the message's body as `payload_json`. Anything else is skipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import BellwetherError
from bellwether.files import open_bytes
from bellwether.sandbox.exchange.exchange import BOOKS, LIFECYCLE, TICKER, TRADES
from bellwether.sandbox.recorded_objects import read_time
from bellwether.sandbox.timestamps import SECOND

#: The channel to which each type of message belongs.
CHANNEL_OF = {
    "orderbook_snapshot": BOOKS,
    "orderbook_delta": BOOKS,
    "trade": TRADES,
    "ticker": TICKER,
    "market_lifecycle_v2": LIFECYCLE,
    "event_lifecycle": LIFECYCLE,
}

_LINES = (".ndjson", ".jsonl")
#: A file without a message among so many lines is no capture.
_PEEK = 50

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """Captured message: its receive time (an instant), its number on its subscription (0 if it has none), and its body."""

    at: int
    number: int
    kind: str
    ticker: str
    body: Object


@dataclass(frozen=True, slots=True)
class CaptureContents:
    """Markets, events and channels of a file's messages; empty if the file is not a capture."""

    tickers: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()


def _read_received(node: Object) -> int | None:
    """Return the instant at which the recorder received a frame, if it is recorded."""
    for name, per_second in (("received_at", 10**9), ("local_recv_ns", 10**9), ("received_ms", 10**3)):
        value = node.get(name)
        if isinstance(value, int):
            return value * SECOND // per_second
    return None


def read_stamp(body: Object) -> int | None:
    """Return the exchange's time of a message; None if it has none."""
    milliseconds, value = body.get("ts_ms"), body.get("ts")
    if isinstance(value, str):
        return read_time(value)
    if isinstance(milliseconds, int):
        return milliseconds * SECOND // 1000
    return value * SECOND if isinstance(value, int) else None


def _message(node: Object) -> tuple[Object, int | None]:
    """Return the message in a line, and its receive time."""
    inner = node.get("frame", node.get("text"))
    if isinstance(inner, str):
        inner = orjson.loads(inner)
    if isinstance(inner, dict):
        return inner, _read_received(node)
    if isinstance(node.get("payload_json"), dict):
        return {"type": node.get("event_type"), "seq": node.get("sequence_number"), "msg": node["payload_json"]}, _read_received(node)
    return node, None


def _parse_line(node: object) -> tuple[int | None, CapturedMessage] | None:
    """Parse a line's message and, if recorded, its receive time; None for a line without a message of a channel."""
    if not isinstance(node, dict):
        return None
    message, received = _message(node)
    kind, body = message.get("type"), message.get("msg")
    if kind not in CHANNEL_OF or not isinstance(body, dict):
        return None
    ticker = body.get("market_ticker", body.get("event_ticker"))
    if not isinstance(ticker, str):
        return None
    number = message.get("seq")
    return read_stamp(body) if received is None else received, CapturedMessage(
        0, number if isinstance(number, int) else 0, kind, ticker, body
    )


def _is_lines(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(_LINES)


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the nonempty lines, without an incomplete last line."""
    with open_bytes(path) as file:
        try:
            for line in file:
                if line.strip():
                    yield line
        except EOFError:
            return


def _nodes(path: Path) -> Iterator[object]:
    """Yield the objects of a file: one per line, or the list under `frames`. Raises `BellwetherError` naming a broken file."""
    try:
        if not _is_lines(path):
            with open_bytes(path) as file:
                content: bytes = file.read()
            document = orjson.loads(content) if b'"frames"' in content else None
            frames = document.get("frames") if isinstance(document, dict) else None
            yield from frames if isinstance(frames, list) else ()
            return
        for line in _raw_lines(path):
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                if line.endswith(b"\n"):
                    raise
    except (OSError, EOFError, zlib.error, orjson.JSONDecodeError) as error:
        raise BellwetherError(f"read captured frames: {path} is broken: {error}; mend the file, or take it out of the folder") from error


def read_capture(path: Path) -> Iterator[CapturedMessage]:
    """Read the messages of a capture in order; a message with a missing or earlier time gets the time of the previous one."""
    waiting: list[CapturedMessage] = []
    now: int | None = None
    for node in _nodes(path):
        found = _parse_line(node)
        if found is None:
            continue
        at, message = found
        if at is None and now is None:
            waiting.append(message)
            continue
        now = max(now or 0, at or 0)
        for one in (*waiting, message):
            yield CapturedMessage(now, one.number, one.kind, one.ticker, one.body)
        waiting.clear()
    yield from waiting


def scan_contents(path: Path) -> CaptureContents:
    """Return the contents of a file; empty for an unreadable capture, which the reader of REST bodies reports."""
    tickers, channels = set[str](), set[str]()
    if path.name.removesuffix(".gz").endswith((*_LINES, ".json")) and path.is_file():
        with suppress(BellwetherError, orjson.JSONDecodeError):
            for number, node in enumerate(_nodes(path)):
                if (found := _parse_line(node)) is not None:
                    tickers.add(found[1].ticker)
                    channels.add(CHANNEL_OF[found[1].kind])
                elif number > _PEEK and not tickers:
                    break
    return CaptureContents(frozenset(tickers), frozenset(channels))
