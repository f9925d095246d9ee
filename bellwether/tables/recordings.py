"""Recordings of venues' streams: verbatim frames, and gaps."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import TEXT, UTC, Column, Table

#: Nanoseconds: receive times are finer than a microsecond, and so are some of the exchange's.
INSTANT = pl.Datetime("ns", "UTC")

RECORDING = Column("recording", TEXT, "name of the recording; the partition")

RECORDINGS = Table(
    name="raw/recordings",
    row="One frame of a recording, as it came, in order of arrival.",
    columns=(
        RECORDING,
        Column("ordinal", pl.Int64(), "place of the frame in order of arrival, from 0"),
        Column(
            "received_at", INSTANT, "when it was received, by the receiver's clock; null where a capture does not tell", UTC, nullable=True
        ),
        Column("connection", pl.Int32(), "ordinal of the connection within the recording, from 1"),
        Column("sid", pl.Int64(), "subscription on that connection; null where the frame names none", nullable=True),
        Column("seq", pl.Int64(), "number of the frame on its subscription, over all its markets; null where it has none", nullable=True),
        Column("type", TEXT, "type of the frame in the venue's words; orderbook_rest and trade_rest are polled pages", nullable=True),
        Column("market_ticker", TEXT, "the market that it is about; null where it names none or several", nullable=True),
        Column(
            "exchange_at", INSTANT, "when the exchange made what it tells, by its own clock; null where it does not say", UTC, nullable=True
        ),
        Column("frame", TEXT, "the frame, verbatim"),
    ),
    key=("recording", "ordinal"),
    partitioned_by=("recording",),
)

RECORDING_GAPS = Table(
    name="raw/recording_gaps",
    row="One gap in a recording: numbers that were skipped, or a stretch in which one market's book could not be trusted.",
    columns=(
        RECORDING,
        Column("gap", pl.Int32(), "ordinal of the gap within the recording, from 0"),
        Column(
            "kind",
            TEXT,
            "lost (numbers skipped), partial (holes that are expected, all of a subscription), book (a book not to be trusted)",
        ),
        Column(
            "cause",
            TEXT,
            "of a book: gap (numbers skipped), break (the connection ended), start (it began without a snapshot); else null",
            nullable=True,
        ),
        Column("connection", pl.Int32(), "ordinal of the connection"),
        Column("sid", pl.Int64(), "subscription on that connection"),
        Column("first_seq", pl.Int64(), "first number that was skipped; null for a book", nullable=True),
        Column("last_seq", pl.Int64(), "last number that was skipped; null for a book", nullable=True),
        Column("missing", pl.Int64(), "numbers between them that never came; null for a book", nullable=True),
        Column("start_ordinal", pl.Int64(), "the last frame before the gap; null where there is none", nullable=True),
        Column("start_at", INSTANT, "when that frame was received", UTC, nullable=True),
        Column(
            "end_ordinal",
            pl.Int64(),
            "the frame that ended it: the next number, or the book's snapshot; null where none came",
            nullable=True,
        ),
        Column("end_at", INSTANT, "when that frame was received", UTC, nullable=True),
        Column("markets", pl.List(pl.String()), "markets that are affected; of lost numbers, all that were heard of on the subscription"),
    ),
    key=("recording", "gap"),
    partitioned_by=("recording",),
)

TABLES = (RECORDINGS, RECORDING_GAPS)
