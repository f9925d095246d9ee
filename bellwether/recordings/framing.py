"""Line formats of recordings (written by Bellwether) and captures (recorded by other programs, to be imported).

A line of a recording is a JSON object with a verbatim frame, its time, connection and number. A frame that is not one line of UTF-8 between
braces is stored as a string (`text`), or as `base64` if it is not UTF-8. Every line of a capture is a JSON object; the file may be
compressed.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from bellwether.errors import LakeError
from bellwether.files import open_bytes
from bellwether.recordings.exchange_times import format_time
from bellwether.venues.kalshi.stream.frame import Frame

_LINE = re.compile(rb'\{"received_at":(\d+|null),"connection":(\d+),"ordinal":(\d+),"(frame|text|base64)":')


class CapturedMessage(NamedTuple):
    """Message of a capture: time of receipt (ns since 1970, UTC; None if unknown), number of the connection, and bytes."""

    received_at: int | None
    connection: int
    data: bytes


def _encode(data: bytes) -> tuple[bytes, bytes]:
    """Return the name of the field (frame, text or base64) in which a frame's bytes are stored, and its JSON value."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return b"base64", orjson.dumps(b64encode(data).decode())
    if data[:1] == b"{" and data[-1:] == b"}" and b"\n" not in data:
        return b"frame", data
    return b"text", orjson.dumps(text)


def format_frame(frame: Frame) -> bytes:
    """Return a frame as a line of a recording, including the end of line."""
    form, data = _encode(frame.data)
    at = b"null" if frame.received_at is None else b"%d" % frame.received_at
    return b'{"received_at":%b,"connection":%d,"ordinal":%d,"%b":%b}\n' % (at, frame.connection, frame.ordinal, form, data)


def parse_frame(line: bytes) -> Frame | None:
    """Parse a line of a recording, including its end of line, to a frame. None for any other line."""
    head = _LINE.match(line)
    if head is None or line[-2:] != b"}\n":
        return None
    at, connection, ordinal, form = head.groups()
    data = line[head.end() : -2]
    if form != b"frame":
        try:
            text: str = orjson.loads(data)
            data = text.encode() if form == b"text" else b64decode(text, validate=True)
        except (ValueError, AttributeError, TypeError):
            return None
    return Frame(None if at == b"null" else int(at), int(connection), int(ordinal), data)


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, without blank ones. Raises `LakeError` for a truncated or damaged file."""
    try:
        with open_bytes(path) as file:
            for line in file:
                if text := line.strip():
                    yield text
    except (EOFError, gzip.BadGzipFile) as error:
        raise LakeError(f"importing {path}: the file is truncated or damaged ({error}); copy it again") from None


#: Type of the frame in which the recorder stores the close that a market announced at the time of recording.
WATCHED = "watch_market"


def watch_frame(ticker: str, close: int) -> bytes:
    """Return the frame with the announced close of a market, in ns since 1970, UTC.

    The venue overwrites the close of a market that ends early, so the earlier value is not available later.
    """
    body = {"market_ticker": ticker, "close_time": format_time(close).replace("+00:00", "Z")}
    return orjson.dumps({"type": WATCHED, "msg": body})
