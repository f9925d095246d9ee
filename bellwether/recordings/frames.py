"""Conversion of recordings to rows of `raw/recordings` and `raw/recording_gaps`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import polars as pl

from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.recordings.gaps import FramePosition, GapReport
from bellwether.recordings.recording import Recording
from bellwether.tables.raw import RECORDING_GAPS, RECORDINGS
from bellwether.venues.kalshi.stream.frame import Frame, parse_message, read_body, read_envelope, read_ticker


def to_rows(name: str, frames: list[Frame]) -> pl.DataFrame:
    """Build the rows of `raw/recordings` for these frames of the recording `name`."""
    parsed = [_parse_columns(frame) for frame in frames]
    names = ("sid", "seq", "type", "market_ticker", "exchange_at", "frame")
    values: dict[str, Any] = {
        "recording": [name] * len(frames),
        "ordinal": [frame.ordinal for frame in frames],
        "received_at": [frame.received_at for frame in frames],
        "connection": [frame.connection for frame in frames],
        **{column: [row[place] for row in parsed] for place, column in enumerate(names)},
    }
    return pl.DataFrame(values, schema=RECORDINGS.schema)


def read_batches(recording: Recording, *, size: int = 100_000) -> Iterator[pl.DataFrame]:
    """Yield all rows of a recording in order, as data frames of up to `size` rows."""
    frames = recording.frames()
    while batch := list(islice(frames, size)):
        yield to_rows(recording.name, batch)


def _parse_columns(frame: Frame) -> tuple[int | None, int | None, str | None, str | None, int | None, str]:
    """Parse the columns `sid` to `frame` of `raw/recordings` from a frame's message."""
    message = parse_message(frame.data)
    kind, sid, seq = read_envelope(message)
    body = read_body(message)
    at = read_exchange_time(body)
    if at is None and type(message.get("fetched_at")) is str:
        at = parse_time(message["fetched_at"])
    # A frame that is not UTF-8 is not a message of the venue; its bytes stay readable.
    return sid, seq, kind, read_ticker(body), at, frame.data.decode("utf-8", "backslashreplace")


def to_gap_rows(report: GapReport) -> pl.DataFrame:
    """Build the rows of `raw/recording_gaps`: first skipped sequence numbers, then periods without a valid book."""
    rows = []
    for number, gap in enumerate((*report.gaps, *report.outages)):
        positions = {f"{name}_{part}": value for name in ("start", "end") for part, value in _position(getattr(gap, name)).items()}
        values = {name: value for name, value in asdict(gap).items() if name not in ("start", "end")}
        rows.append({"recording": report.recording, "gap": number, **values, "markets": list(gap.markets), **positions})
    return RECORDING_GAPS.frame(rows)


def _position(position: FramePosition | None) -> dict[str, int | None]:
    return {"ordinal": None, "at": None} if position is None else {"ordinal": position.ordinal, "at": position.received_at}
