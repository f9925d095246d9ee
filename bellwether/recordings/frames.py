"""Recordings as rows of `raw/recordings` and `raw/recording_gaps`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import polars as pl

from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.recordings.gap_report import FramePosition, Gap, GapReport, Outage
from bellwether.recordings.recording import Recording
from bellwether.tables.recordings import RECORDING_GAPS, RECORDINGS
from bellwether.venues.kalshi.stream.frame import Frame, parse_message, read_body, read_envelope, read_ticker


def to_rows(name: str, frames: list[Frame]) -> pl.DataFrame:
    """Build the rows of `raw/recordings` for these frames of the recording `name`."""
    read = [_frame_row(frame) for frame in frames]
    columns = (
        dict(zip(("sid", "seq", "type", "market_ticker", "exchange_at", "frame"), map(list, zip(*read, strict=True)), strict=True))
        if read
        else {}
    )
    given: dict[str, Any] = {
        "recording": [name] * len(frames),
        "ordinal": [frame.ordinal for frame in frames],
        "received_at": [frame.received_at for frame in frames],
        "connection": [frame.connection for frame in frames],
        **columns,
    }
    return pl.DataFrame(
        {column: pl.Series(given.get(column, []), dtype=_plain(dtype)).cast(dtype) for column, dtype in RECORDINGS.schema.items()}
    )


def read_batches(recording: Recording, *, size: int = 100_000) -> Iterator[pl.DataFrame]:
    """Yield all rows of a recording in order, `size` at a time."""
    frames = recording.frames()
    while held := list(islice(frames, size)):
        yield to_rows(recording.name, held)


def _plain(dtype: pl.DataType) -> pl.DataType:
    """Return the type of values before the cast; instants are whole nanoseconds."""
    return pl.Int64() if isinstance(dtype, pl.Datetime) else dtype


def _frame_row(frame: Frame) -> tuple[int | None, int | None, str | None, str | None, int | None, str]:
    found = parse_message(frame.data)
    kind, sid, seq = read_envelope(found)
    body = read_body(found)
    at = read_exchange_time(body)
    if at is None and type(found.get("fetched_at")) is str:
        at = parse_time(found["fetched_at"])
    # A frame that is not UTF-8 is not a message of the venue; its bytes stay readable.
    return sid, seq, kind, read_ticker(body), at, frame.data.decode("utf-8", "backslashreplace")


def to_gap_rows(report: GapReport) -> pl.DataFrame:
    """Build the rows of `raw/recording_gaps`: first skipped numbers, then invalid stretches of books."""
    kind = "partial" if report.partial else "lost"
    found = [_gap_row(gap, kind) for gap in report.gaps] + [_outage_row(outage) for outage in report.outages]
    listed = [{"recording": report.recording, "gap": number, **row} for number, row in enumerate(found)]
    schema = {column: _plain(dtype) for column, dtype in RECORDING_GAPS.schema.items()}
    return pl.DataFrame(listed, schema=schema, orient="row").cast(dict(RECORDING_GAPS.schema))  # type: ignore[arg-type]


def _gap_row(gap: Gap, kind: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "cause": None,
        "connection": gap.connection,
        "sid": gap.sid,
        "first_seq": gap.first,
        "last_seq": gap.last,
        "missing": gap.missing,
        **_span(gap.before, gap.after),
        "markets": list(gap.markets),
    }


def _outage_row(outage: Outage) -> dict[str, Any]:
    return {
        "kind": "book",
        "cause": outage.cause,
        "connection": outage.connection,
        "sid": outage.sid,
        "first_seq": None,
        "last_seq": None,
        "missing": None,
        **_span(outage.start, outage.end),
        "markets": [outage.market],
    }


def _span(start: FramePosition | None, end: FramePosition | None) -> dict[str, Any]:
    return {
        "start_ordinal": start.ordinal if start else None,
        "start_at": start.received_at if start else None,
        "end_ordinal": end.ordinal if end else None,
        "end_at": end.received_at if end else None,
    }
