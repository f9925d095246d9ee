"""Rows of raw/recordings and raw/recording_gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.lake import Lake
from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.recordings.frames import read_batches, to_gap_rows, to_rows
from bellwether.recordings.gap_summary import build_gap_report
from bellwether.tables.recordings import RECORDING_GAPS, RECORDINGS
from tests.unit.recordings.frames import PARTIAL, SECOND, frames, recorded
from tests.venues.stream.peer import A, B, delta, snapshot, trade

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 12, 31)), st.integers(0, 9), st.integers(0, 999_999_999))
def test_a_time_with_any_digits_is_read_to_the_nanosecond(moment: datetime, digits: int, nanoseconds: int) -> None:
    fraction = f"{nanoseconds:09d}"[:digits]
    whole = (moment.replace(microsecond=0, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if digits else ''}{fraction}Z"
    assert parse_time(text) == whole * SECOND + int(fraction.ljust(9, "0"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-18T19:36:03",
        "2026-03-18T19:36:03+00:00",
        "2026-13-18T19:36:03Z",
        "2026-03-18T19:36:03.Z",
        "2026-03-18T19:36:03.1234567890Z",
        "2026-03-18T19:36:03.1²Z",
    ],
)
def test_what_is_no_such_time_is_none(text: str) -> None:
    assert parse_time(text) is None


MS = 1_773_862_563_079


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"ts": "2026-03-18T19:36:03.079175Z", "ts_ms": MS}, MS * 1_000_000 + 175_000),
        ({"ts": 1_773_862_563, "ts_ms": MS, "time": "2026-03-18T19:36:03.0791Z"}, MS * 1_000_000 + 100_000),
        ({"ts": 1_773_862_563, "ts_ms": MS}, MS * 1_000_000),
        ({"ts": 1_773_862_563}, 1_773_862_563 * SECOND),
        ({"ts": "garbage", "ts_ms": MS}, MS * 1_000_000),
        ({"ts": True, "ts_ms": -1}, None),
        ({"ts": MS}, None),
        ({}, None),
    ],
)
def test_the_finest_time_that_the_exchange_gives_is_taken(body: dict[str, Any], found: int | None) -> None:
    assert read_exchange_time(body) == found


ODD = b'{"type":5,"sid":"1","msg":[]}'
NO_TEXT = b"\xff{}"
REST = b'{"type":"orderbook_rest","request":"GET /x","fetched_at":"2026-03-18T19:36:03Z","msg":{"orderbooks":[]}}'


def test_a_frame_becomes_a_row_that_holds_it_verbatim(tmp_path: Path) -> None:
    found = to_rows("one", frames(snapshot(A, 1), trade(B, 7) | {"msg": {"market_ticker": B, "ts_ms": MS}}, ODD, NO_TEXT, REST))
    RECORDINGS.validate(found)
    assert found.select("ordinal", "connection", "sid", "seq", "type", "market_ticker").rows() == [
        (0, 1, 1, 1, "orderbook_snapshot", A),
        (1, 1, 2, 7, "trade", B),
        (2, 1, None, None, None, None),
        (3, 1, None, None, None, None),
        (4, 1, None, None, "orderbook_rest", None),
    ]
    assert found["exchange_at"].cast(pl.Int64).to_list() == [None, MS * 1_000_000, None, None, 1_773_862_563 * SECOND]
    assert found["received_at"].cast(pl.Int64).to_list() == [SECOND * n for n in range(1, 6)]
    assert found["frame"][2] == ODD.decode()
    assert found["frame"][3] == "\\xff{}"


def test_a_recording_goes_into_the_lake_in_batches_and_comes_back(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(*[delta(A, seq) for seq in range(1, 26)]))
    lake = Lake(str(tmp_path / "lake"))
    assert [batch.height for batch in read_batches(recording, size=10)] == [10, 10, 5]
    lake.write(RECORDINGS, ("one",), read_batches(recording, size=10), run_id="run")
    stored = lake.slice(RECORDINGS).read()
    assert stored.equals(pl.concat(read_batches(recording)))


def test_gaps_become_rows_that_say_what_is_affected(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(snapshot(A, 1), snapshot(B, 2), delta(A, 5), snapshot(B, 6), trade(A, 3)))
    found = RECORDING_GAPS.validate(to_gap_rows(build_gap_report(recording)))
    columns = ("kind", "cause", "sid", "first_seq", "last_seq", "missing", "start_ordinal", "end_ordinal", "markets")
    assert found.select(columns).rows() == [
        ("lost", None, 1, 3, 4, 2, 1, 2, [A, B]),
        ("lost", None, 2, 1, 2, 2, None, 4, [A]),
        ("book", "gap", 1, None, None, None, 1, None, [A]),
        ("book", "gap", 1, None, None, None, 1, 3, [B]),
    ]
    assert found["end_at"].cast(pl.Int64).to_list() == [3 * SECOND, 5 * SECOND, None, 4 * SECOND]
    Lake(str(tmp_path / "lake")).write(RECORDING_GAPS, ("one",), found, run_id="run")


def test_expected_holes_are_one_row_per_subscription(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(snapshot(A, 4), delta(A, 8), delta(A, 12)), about=PARTIAL)
    found = RECORDING_GAPS.validate(to_gap_rows(build_gap_report(recording)))
    assert found.select("kind", "first_seq", "last_seq", "missing").rows() == [("partial", 5, 11, 6)]
