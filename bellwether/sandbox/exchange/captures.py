"""Reader of captures, files in which a recorder has stored frames of Kalshi's WebSocket. The format of a file is recognised by its content.

Supported formats are a bare message, `{"frame": message, "received_at": nanoseconds}` (or `received_ms`), a list of those under `frames` of
a JSON document, and a recorder's event with the message's body as `payload_json`. Anything else is skipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
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
#: Lines without a message after which a file is no capture.
_PEEK = 50

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """Message of a capture. at: receive time in microseconds since 1970. number: sequence number; 0 without one."""

    at: int
    number: int
    kind: str
    ticker: str
    body: Object


@dataclass(frozen=True, slots=True)
class CaptureContents:
    """Tickers and channels of the messages in a file; empty if the file is not a capture."""

    tickers: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()


def _read_received(node: Object) -> int | None:
    """Return the instant at which the recorder received a frame; None if it is not recorded."""
    for name, per_second in (("received_at", 10**9), ("local_recv_ns", 10**9), ("received_ms", 10**3)):
        value = node.get(name)
        if isinstance(value, int):
            return value * SECOND // per_second
    return None


def read_exchange_time(body: Object) -> int | None:
    """Return the exchange's time of a message; None if missing."""
    milliseconds, value = body.get("ts_ms"), body.get("ts")
    if isinstance(value, str):
        return read_time(value)
    if isinstance(milliseconds, int):
        return milliseconds * SECOND // 1000
    return value * SECOND if isinstance(value, int) else None


def _message(node: Object) -> tuple[Object, int | None]:
    """Return the message in a line, and its receive time (None if not recorded)."""
    inner = node.get("frame", node.get("text"))
    if isinstance(inner, str):
        inner = orjson.loads(inner)
    if isinstance(inner, dict):
        return inner, _read_received(node)
    if isinstance(node.get("payload_json"), dict):
        return {"type": node.get("event_type"), "seq": node.get("sequence_number"), "msg": node["payload_json"]}, _read_received(node)
    return node, None


def _parse_line(node: object) -> tuple[int | None, CapturedMessage] | None:
    """Parse a line into receive time (None if not recorded) and message; None for a line without a message of a channel."""
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
    at = read_exchange_time(body) if received is None else received
    return at, CapturedMessage(0, number if isinstance(number, int) else 0, kind, ticker, body)


def _is_lines(path: Path) -> bool:
    """Return True for a file of JSON lines, by its name."""
    return path.name.removesuffix(".gz").endswith(_LINES)


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the nonempty lines; stop at the end of a truncated gzip file."""
    with open_bytes(path) as file:
        try:
            for line in file:
                if line.strip():
                    yield line
        except EOFError:
            return


def _nodes(path: Path) -> Iterator[object]:
    """Yield the JSON values of a file: one per line, or the list under `frames`. Raises `BellwetherError` for a broken file."""
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
    """Yield the messages of a capture in order of the file. A message whose time is missing, or earlier than the previous message's, gets
    the previous time.
    """
    waiting: list[CapturedMessage] = []
    now: int | None = None
    for node in _nodes(path):
        parsed = _parse_line(node)
        if parsed is None:
            continue
        at, message = parsed
        if at is None and now is None:
            waiting.append(message)
            continue
        now = max(now or 0, at or 0)
        yield from (replace(dated, at=now) for dated in (*waiting, message))
        waiting.clear()
    yield from waiting


def scan_contents(path: Path) -> CaptureContents:
    """Return the tickers and channels that occur in a file; empty for a broken file, whose error the reader of REST responses raises."""
    tickers, channels = set[str](), set[str]()
    if path.name.removesuffix(".gz").endswith((*_LINES, ".json")) and path.is_file():
        with suppress(BellwetherError, orjson.JSONDecodeError):
            for number, node in enumerate(_nodes(path)):
                if (parsed := _parse_line(node)) is not None:
                    tickers.add(parsed[1].ticker)
                    channels.add(CHANNEL_OF[parsed[1].kind])
                elif number > _PEEK and not tickers:
                    break
    return CaptureContents(frozenset(tickers), frozenset(channels))
