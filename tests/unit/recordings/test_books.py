"""Books rebuilt in integers from frames of every format, errors of frames, and rows of recordings and gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.lake import Lake
from bellwether.recordings.books import (
    BookSide,
    MalformedFrame,
    has_yes_prices,
    scale_decimal,
)
from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.recordings.frames import read_batches, to_gap_rows, to_rows
from bellwether.recordings.gaps import build_gap_report
from bellwether.tables.raw import RECORDING_GAPS, RECORDINGS
from tests.unit.recordings.book_replay import check_books, differences, parse_price, parse_size
from tests.unit.recordings.frames import PARTIAL, SECOND, frames, recorded
from tests.unit.venues.stream_peer import A, B, delta, snapshot, trade


@given(st.decimals(-(10**6), 10**6, places=6, allow_nan=False))
def test_a_decimal_text_is_scaled_exactly(value: Decimal) -> None:
    assert scale_decimal(str(value), 6) == int(value * 10**6) if "E" not in str(value) else True


def test_sizes_are_hundredths_of_a_contract_and_what_is_no_number_is_refused() -> None:
    for text, found in (("-75.00", -7500), ("0.05", 5), (12, 1200), (-3, -300), ("-0.50", -50)):
        assert parse_size(text) == found
    for wrong in ("0.1234567", "abc", "", None, "1.2.3", ".5", "1_0", " 1", "-", True, 1.5, ["1"]):
        with pytest.raises(MalformedFrame):
            parse_price(wrong)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(-3, 3)), max_size=60))
def test_the_best_price_is_that_of_the_levels_after_every_change(changes: list[tuple[int, int]]) -> None:
    side = BookSide({})
    for price, by in changes:
        side.change(price, by)
        assert side.best == max(side.levels, default=0)
        assert 0 not in side.levels.values()


# --- the leg of NO prices ---------------------------------------------------------------------------------------------

DEEP = {"yes_dollars_fp": [["0.0100", "9.00"], ["0.4000", "10.00"]], "no_dollars_fp": [["0.0100", "5.00"], ["0.5500", "7.00"]]}
DEEP_IN_YES = {"yes_dollars_fp": DEEP["yes_dollars_fp"], "no_dollars_fp": [["0.9900", "5.00"], ["0.4500", "7.00"]]}
THIN = {"yes_dollars_fp": [["0.3900", "5.00"], ["0.4000", "10.00"]], "no_dollars_fp": [["0.4200", "7.00"], ["0.4500", "10.00"]]}


def taken(market: str, price: str, side: str = "yes") -> dict[str, Any]:
    return {
        "type": "trade",
        "sid": 2,
        "seq": 1,
        "msg": {"market_ticker": market, "yes_price_dollars": price, "count_fp": "1.00", "taker_outcome_side": side},
    }


#: Frames, flag of the recording, and whether NO prices are those of YES.
LEGS: list[tuple[list[dict[str, Any]], bool | None, bool]] = [
    ([snapshot(A, 1, **DEEP)], True, False),
    ([snapshot(A, 1, **DEEP_IN_YES)], False, True),
    ([snapshot(A, 1, **THIN)], None, False),
    ([snapshot(A, 1, **THIN)], True, True),
    ([snapshot(A, 1, **THIN), taken(A, "0.4200")], False, True),
    ([snapshot(A, 1, **THIN), taken(A, "0.5500")], True, False),
    ([snapshot(A, 1, **THIN), taken(A, "0.4000", "no")], None, False),
    ([snapshot(A, 1, yes_dollars_fp=[], no_dollars_fp=[]), delta(A, 2, price="0.4200", side="no"), taken(A, "0.4200")], None, True),
    # After a lost change, a book may only seem to be crossed.
    ([snapshot(A, 1, **THIN), *(delta(A, seq, price="0.6200", side="no") for seq in range(3, 9))], None, False),
    ([], None, False),
]


def test_books_decide_the_leg_of_no_prices_then_trades_then_the_flag() -> None:
    for bodies, flag, expected in LEGS:
        assert has_yes_prices(frames(*bodies), flag=flag) is expected, (bodies, flag)


def test_a_recording_in_yes_prices_has_the_books_of_one_in_own_prices(tmp_path: Path) -> None:
    changes = [("no", "0.5600", "0.4400", "3.00"), ("yes", "0.4100", "0.4100", "1.00"), ("no", "0.5500", "0.4500", "-7.00")]
    own = [snapshot(A, 1, **DEEP), *(delta(A, seq, side=side, price=price, by=by) for seq, (side, price, _, by) in enumerate(changes, 2))]
    yes = [
        snapshot(A, 1, **DEEP_IN_YES),
        *(delta(A, seq, side=side, price=price, by=by) for seq, (side, _, price, by) in enumerate(changes, 2)),
    ]
    found = [check_books(recorded(tmp_path / name, frames(*bodies)))[0] for name, bodies in (("own", own), ("yes", yes))]
    assert found[0].is_sound and found[1].is_sound
    assert not differences(found[0].books[A], found[1].books[A])
    assert found[1].books[A].no.levels == {10_000: 500, 560_000: 300}


# Rows of raw/recordings and raw/recording_gaps


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 12, 31)), st.integers(0, 9), st.integers(0, 999_999_999))
def test_a_time_with_any_digits_is_read_to_the_nanosecond(moment: datetime, digits: int, nanoseconds: int) -> None:
    fraction = f"{nanoseconds:09d}"[:digits]
    whole = (moment.replace(microsecond=0, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if digits else ''}{fraction}Z"
    assert parse_time(text) == whole * SECOND + int(fraction.ljust(9, "0"))


def test_what_is_no_such_time_is_none() -> None:
    for text in ("", "03", "03.Z", "03.1234567890Z", "03.1²Z", "03+0000"):
        assert parse_time(f"2026-03-18T19:36:{text}" if text else "") is None
    assert parse_time("2026-13-18T19:36:03Z") is None


MS = 1_773_862_563_079


def test_the_finest_time_that_the_exchange_gives_is_taken() -> None:
    for body, found in (
        ({"ts": "2026-03-18T19:36:03.079175Z", "ts_ms": MS}, MS * 1_000_000 + 175_000),
        ({"ts": 1_773_862_563, "ts_ms": MS, "time": "2026-03-18T19:36:03.0791Z"}, MS * 1_000_000 + 100_000),
        ({"ts": 1_773_862_563, "ts_ms": MS}, MS * 1_000_000),
        ({"ts": 1_773_862_563}, 1_773_862_563 * SECOND),
        ({"ts": "garbage", "ts_ms": MS}, MS * 1_000_000),
        ({"ts": True, "ts_ms": -1}, None),
        ({"ts": MS}, None),
        ({}, None),
    ):
        assert read_exchange_time(body) == found, body


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
