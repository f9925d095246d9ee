"""Tables of recorded streams of the venues: verbatim frames, and gaps in which frames are missing."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import TEXT, UTC, Column, Table

#: Nanosecond precision, as receive times and some exchange times have it.
INSTANT = pl.Datetime("ns", "UTC")

RECORDING = Column("recording", TEXT, "name of the recording; partition")

RECORDINGS = Table(
    name="raw/recordings",
    row="One verbatim frame of a recording, in order of arrival.",
    columns=(
        RECORDING,
        Column("ordinal", pl.Int64(), "index of the frame in order of arrival, from 0"),
        Column("received_at", INSTANT, "time of receipt by the receiver's clock; null if an imported capture has none", UTC, nullable=True),
        Column("connection", pl.Int32(), "number of the connection within the recording, from 1"),
        Column("sid", pl.Int64(), "subscription on that connection; null if the frame has none", nullable=True),
        Column("seq", pl.Int64(), "sequence number of the frame on its subscription, over all markets; null if it has none", nullable=True),
        Column("type", TEXT, "type of the frame at the venue; orderbook_rest and trade_rest are polled pages", nullable=True),
        Column("market_ticker", TEXT, "market of the frame; null if it names none or several", nullable=True),
        Column("exchange_at", INSTANT, "time of the event by the exchange's clock; null if not stated", UTC, nullable=True),
        Column("frame", TEXT, "verbatim frame"),
    ),
    key=("recording", "ordinal"),
    partitioned_by=("recording",),
)

RECORDING_GAPS = Table(
    name="raw/recording_gaps",
    row="One gap in a recording: skipped sequence numbers, or a period in which one market's book is invalid.",
    columns=(
        RECORDING,
        Column("gap", pl.Int32(), "index of the gap within the recording, from 0"),
        Column(
            "kind",
            TEXT,
            "lost (skipped numbers), partial (expected holes, for a whole subscription) or book (invalid book)",
        ),
        Column(
            "cause",
            TEXT,
            "for a book: gap (skipped numbers), break (end of the connection), error with a code or unsubscribed (end of the subscription), "
            "start (no snapshot at the start), subscription (changes came on another one only), or a fault of the frames; else null",
            nullable=True,
        ),
        Column("connection", pl.Int32(), "number of the connection"),
        Column("sid", pl.Int64(), "subscription on that connection"),
        Column("first_seq", pl.Int64(), "first skipped number; null for a book", nullable=True),
        Column("last_seq", pl.Int64(), "last skipped number; null for a book", nullable=True),
        Column("missing", pl.Int64(), "number of missing frames; null for a book", nullable=True),
        Column("start_ordinal", pl.Int64(), "last frame before the gap; null without one", nullable=True),
        Column("start_at", INSTANT, "time of receipt of that frame", UTC, nullable=True),
        Column(
            "end_ordinal",
            pl.Int64(),
            "frame that ended the gap (the next number, or the book's snapshot); null without one",
            nullable=True,
        ),
        Column("end_at", INSTANT, "time of receipt of that frame", UTC, nullable=True),
        Column("markets", pl.List(pl.String()), "affected markets; for lost numbers, all known markets of the subscription"),
    ),
    key=("recording", "gap"),
    partitioned_by=("recording",),
    version="2",
)

TABLES = (RECORDINGS, RECORDING_GAPS)
