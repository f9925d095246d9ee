"""Captured frames of Kalshi's WebSocket, recognised by content: bare lines, lines of recorders around them, and lists of frames.

Known wrappings are a bare message, `{"frame": message, "received_at": nanoseconds}` (or `received_ms`), a list of those under
`frames` of a JSON document, and a recorder's event with the message's body as `payload_json`. Anything else is passed over.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import BellwetherError
from bellwether.files import open_bytes
from bellwether.sandbox.exchange.exchange import BOOKS, LIFECYCLE, TICKER, TRADES
from bellwether.sandbox.instants import SECOND
from bellwether.sandbox.recorded import read_time

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
#: A message may stand in its line as text, with its quotes escaped.
_KIND = re.compile(rb'\\?"(?:type|event_type)\\?"\s*:\s*\\?"(' + "|".join(CHANNEL_OF).encode() + rb')\\?"')
_TICKER = re.compile(rb'\\?"(?:market|event)_ticker\\?"\s*:\s*\\?"([^"\\]+)')
_PEEK = 50

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured message: when it came (an instant), its number on its subscription (0 where it has none), and its body."""

    at: int
    number: int
    kind: str
    ticker: str
    body: Object


@dataclass(frozen=True, slots=True)
class Contents:
    """The markets and events, and the channels, of a file's messages; empty where it is no capture."""

    tickers: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()


def _received(node: Object) -> int | None:
    """The instant at which the recorder received a frame, where it is noted."""
    for name, per_second in (("received_at", 10**9), ("local_recv_ns", 10**9), ("received_ms", 10**3)):
        value = node.get(name)
        if isinstance(value, int):
            return value * SECOND // per_second
    return None


def stamped(body: Object) -> int | None:
    """The exchange's time of a message; None where it has none."""
    milliseconds, value = body.get("ts_ms"), body.get("ts")
    if isinstance(value, str):
        return read_time(value)
    if isinstance(milliseconds, int):
        return milliseconds * SECOND // 1000
    return value * SECOND if isinstance(value, int) else None


def _message(node: Object) -> tuple[Object, int | None]:
    """The message in a line, and when it was received."""
    inner = node.get("frame", node.get("text"))
    if isinstance(inner, str):
        inner = orjson.loads(inner)
    if isinstance(inner, dict):
        return inner, _received(node)
    if isinstance(node.get("payload_json"), dict):
        return {"type": node.get("event_type"), "seq": node.get("sequence_number"), "msg": node["payload_json"]}, _received(node)
    return node, None


def _captured(node: object) -> tuple[int | None, Captured] | None:
    """A line's message and the time of its arrival, as far as it is noted; None for a line without a message of a channel."""
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
    return stamped(body) if received is None else received, Captured(0, number if isinstance(number, int) else 0, kind, ticker, body)


def _is_lines(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(_LINES)


def _raw_lines(path: Path) -> Iterator[bytes]:
    """The lines that are not blank. What a recorder left half written at the end is left out."""
    with open_bytes(path) as file:
        try:
            for line in file:
                if line.strip():
                    yield line
        except EOFError:
            return


def _nodes(path: Path, channel: str | None) -> Iterator[object]:
    """The objects of a file, of one channel or of all: one per line, or the list under `frames`. Raises `BellwetherError` naming a broken file."""
    try:
        if not _is_lines(path):
            document = orjson.loads(_content(path))
            yield from document["frames"]
            return
        for line in _raw_lines(path):
            if channel is not None and not _speaks(line, channel):
                continue
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                if line.endswith(b"\n"):
                    raise
    except (OSError, zlib.error, orjson.JSONDecodeError) as error:
        raise BellwetherError(f"read captured frames: {path} is broken: {error}; mend the file, or take it out of the folder") from error


def _speaks(line: bytes, channel: str) -> bool:
    """True if a line looks like a message of a channel."""
    kind = _KIND.search(line)
    return kind is not None and CHANNEL_OF[kind[1].decode()] == channel


def _content(path: Path) -> bytes:
    with open_bytes(path) as file:
        content: bytes = file.read()
        return content


def read(path: Path, channel: str | None = None) -> Iterator[Captured]:
    """The messages of a capture, of all channels or of one, in their order. Times never go back: a message without a time, or late, came with the one before it."""
    waiting: list[Captured] = []
    now: int | None = None
    for node in _nodes(path, channel):
        found = _captured(node)
        if found is None or (channel is not None and CHANNEL_OF[found[1].kind] != channel):
            continue
        at, message = found
        if at is None and now is None:
            waiting.append(message)
            continue
        now = max(now or 0, at or 0)
        for one in (*waiting, message):
            yield Captured(now, one.number, one.kind, one.ticker, one.body)
        waiting.clear()
    yield from waiting


def _of_lines(path: Path) -> Contents:
    lines = _raw_lines(path)
    head = list(islice(lines, _PEEK))
    if not any(_is_frame(line) for line in head):
        return Contents()
    tickers: set[bytes] = set()
    kinds: set[bytes] = set()
    for line in chain(head, lines):
        kind, ticker = _KIND.search(line), _TICKER.search(line)
        if kind and ticker:
            kinds.add(kind[1])
            tickers.add(ticker[1])
    return Contents(frozenset(ticker.decode() for ticker in tickers), frozenset(CHANNEL_OF[kind.decode()] for kind in kinds))


def _is_frame(line: bytes) -> bool:
    try:
        return _KIND.search(line) is not None and _captured(orjson.loads(line)) is not None
    except orjson.JSONDecodeError:
        return False


def _of_document(path: Path) -> Contents:
    content = _content(path)
    if b'"frames"' not in content or not _KIND.search(content):
        return Contents()
    document = orjson.loads(content)
    frames = document.get("frames") if isinstance(document, dict) else None
    found = [one for one in map(_captured, frames) if one is not None] if isinstance(frames, list) else []
    return Contents(frozenset(one.ticker for _, one in found), frozenset(CHANNEL_OF[one.kind] for _, one in found))


def contents(path: Path) -> Contents:
    """The contents of a file; empty for one that cannot be read as a capture, which the reader of the other bodies reports."""
    name = path.name.removesuffix(".gz")
    if not (name.endswith((*_LINES, ".json")) and path.is_file()):
        return Contents()
    try:
        return _of_lines(path) if _is_lines(path) else _of_document(path)
    except (OSError, EOFError, zlib.error, orjson.JSONDecodeError):
        return Contents()
