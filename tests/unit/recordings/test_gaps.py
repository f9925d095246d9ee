"""Gaps in sequence numbers per connection and subscription, and the times at which each book was invalid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.recordings.gaps import BookValidator, GapReport, SequenceNumbers, build_gap_report
from bellwether.venues.kalshi.stream.frame import Frame, parse_message
from tests.unit.recordings.frames import frames, recorded
from tests.unit.venues.stream_peer import A, B, delta, snapshot, trade


def report(*bodies: dict[str, Any], partial: bool = False) -> GapReport:
    return report_of(frames(*bodies), partial=partial)


def report_of(found: list[Frame], *, partial: bool = False) -> GapReport:
    watch = BookValidator(partial=partial)
    for frame in found:
        watch.take(frame, parse_message(frame.data))
    return watch.report("test")


def spans(found: GapReport) -> list[tuple[str, str, int, int | None]]:
    return [(*outage.markets, outage.cause, outage.start.ordinal, outage.end.ordinal if outage.end else None) for outage in found.outages]


@given(st.lists(st.integers(1, 30), max_size=60))
def test_numbers_count_what_plain_sets_count(seqs: list[int]) -> None:
    numbers = SequenceNumbers(1, 1, first=1, last=0)
    for seq in seqs:
        numbers.count(seq)
    held = set(seqs)
    missing = set(range(1, max(seqs, default=0) + 1)) - held
    assert {number for first, last in numbers.ranges for number in range(first, last + 1)} == missing
    assert numbers.missing == len(missing)
    assert numbers.received == len(seqs)
    assert numbers.received == len(held) + numbers.duplicates
    late = [seq for place, seq in enumerate(seqs) if seq not in seqs[:place] and seq < max(seqs[:place], default=0)]
    assert numbers.inversions == len(late)


def test_a_skipped_number_makes_every_book_of_the_subscription_invalid_until_its_own_snapshot() -> None:
    found = report(snapshot(A, 1), snapshot(B, 2), delta(A, 3), delta(A, 6), trade(A, 1), snapshot(B, 7), delta(B, 8), snapshot(A, 9))
    [gap] = found.gaps
    assert (gap.first_seq, gap.last_seq, gap.missing, gap.start.ordinal, gap.end.ordinal, gap.markets) == (4, 5, 2, 2, 3, (A, B))
    assert spans(found) == [(A, "gap", 2, 7), (B, "gap", 2, 5)]
    assert found.lost == 2


def test_a_late_frame_is_an_inversion_and_not_lost_but_the_book_stays_invalid() -> None:
    found = report(snapshot(A, 1), delta(A, 3), delta(A, 2), delta(A, 4), snapshot(A, 5))
    assert (found.lost, found.inversions, found.duplicates) == (0, 1, 0)
    assert [(gap.first_seq, gap.last_seq, gap.missing) for gap in found.gaps] == [(2, 2, 0)]
    assert spans(found) == [(A, "gap", 0, 4)]


def test_a_lost_trade_harms_no_book() -> None:
    found = report(snapshot(A, 1), trade(A, 1), trade(B, 4), delta(A, 2))
    assert [(gap.sid, gap.first_seq, gap.last_seq, gap.markets) for gap in found.gaps] == [(2, 2, 3, (A, B))]
    assert found.outages == ()


def test_a_new_connection_counts_anew_and_books_are_invalid_from_the_last_frame_before_it() -> None:
    first = frames(snapshot(A, 1), snapshot(B, 2), delta(A, 3))
    second = frames(snapshot(A, 1), delta(A, 2), connection=2, first=3)
    found = report_of(first + second)
    assert (found.connections, found.gaps) == (2, ())
    assert spans(found) == [(A, "break", 2, 3), (B, "break", 2, None)]


def test_a_new_subscription_on_the_same_connection_takes_a_book_over() -> None:
    found = report(snapshot(A, 1), delta(A, 2), snapshot(A, 1, sid=3), delta(A, 3), delta(A, 2, sid=3))
    assert found.outages == ()
    assert found.lost == 0


def test_a_snapshot_that_comes_after_later_changes_makes_its_book_invalid() -> None:
    found = report(snapshot(A, 1), delta(A, 3), snapshot(A, 4), delta(A, 6), snapshot(A, 7), delta(A, 8), snapshot(A, 5))
    assert spans(found) == [(A, "gap", 0, 2), (A, "gap", 2, 4), (A, "gap", 6, None)]


def test_in_a_capture_of_some_markets_holes_are_expected_and_harm_no_book() -> None:
    found = report(snapshot(A, 9), delta(A, 12), delta(A, 20), trade(A, 5), trade(A, 6), partial=True)
    assert (found.lost, found.absent) == (0, 9)
    assert [(gap.sid, gap.first_seq, gap.last_seq, gap.missing) for gap in found.gaps] == [(1, 10, 19, 9)]
    assert found.outages == ()


def test_a_capture_that_begins_without_a_snapshot_has_no_book_until_one_comes() -> None:
    found = report(delta(A, 9), delta(A, 12), snapshot(A, 20), delta(B, 22), partial=True)
    assert spans(found) == [(A, "start", 0, 2), (B, "start", 3, None)]


def test_frames_that_say_nothing_are_counted_and_no_more() -> None:
    for odd in (b"", b"[]", b'{"type":"trade"}', b'{"type":"orderbook_delta","sid":1,"seq":-4,"msg":[]}', b"\xff"):
        found = report_of(frames(snapshot(A, 1), odd, delta(A, 2)))
        assert (found.frames, found.lost, found.outages) == (3, 0, ())


def test_a_report_comes_from_the_recording(tmp_path: Path) -> None:
    found = build_gap_report(recorded(tmp_path / "one", frames(snapshot(A, 1), delta(A, 4))))
    assert (found.recording, found.lost, found.partial) == ("one", 2, False)


def error(code: object, *markets: str, **envelope: Any) -> dict[str, Any]:
    return {"type": "error", **envelope, "msg": {"code": code, "msg": "Words", **({"market_tickers": list(markets)} if markets else {})}}


BOTH: list[tuple[str, int, int | None]] = [(A, 2, None), (B, 2, None)]


#: Later messages, cause, and outages as (market, first and last ordinal).
ENDS: list[tuple[list[dict[str, Any]], str, list[tuple[str, int, int | None]]]] = [
    ([error(25, sid=1, seq=4), trade(A, 1)], "error 25", BOTH),
    ([error(10, sid=1)], "error 10", BOTH),
    ([error(99, sid=1, seq=4)], "error 99", BOTH),
    ([error(25)], "error 25", BOTH),
    ([error(25), delta(B, 4)], "error 25", BOTH),
    ([{"type": "unsubscribed", "sid": 1, "seq": 4}], "unsubscribed", BOTH),
    ([{"type": "unsubscribed", "id": 2, "msg": {"sid": 1}}], "unsubscribed", BOTH),
    # The venue subscribes again, with a new number or on a new connection.
    ([error(25, sid=1, seq=4), snapshot(A, 1, sid=3), delta(A, 2, sid=3)], "error 25", [(A, 2, 4), (B, 2, None)]),
    ([error(25), snapshot(A, 1, sid=3), snapshot(B, 2, sid=3), delta(A, 3, sid=3)], "error 25", [(A, 2, 4), (B, 2, 5)]),
    # The error names one market.
    ([error(25, A, sid=1, seq=4), delta(B, 5)], "error 25", [(A, 2, None)]),
    ([{"type": "error", "sid": 1, "msg": {"code": 25, "market_tickers": [{}, A]}}, delta(B, 4)], "error 25", [(A, 2, None)]),
    # Another subscription has ended, or none.
    ([error(25, sid=2, seq=1)], "", []),
    ([error(27, sid=1, seq=4)], "", []),
    ([error(25, id=7)], "", []),
    ([error(11, A, id=7)], "", []),
    ([error({}, id=7), error(99)], "", []),
]


def test_books_are_invalid_once_the_venue_has_ended_their_subscription() -> None:
    for later, cause, wanted in ENDS:
        found = report(snapshot(A, 1), snapshot(B, 2), delta(A, 3), *later)
        assert spans(found) == [(market, cause, start, end) for market, start, end in wanted], later
        assert found.lost == 0


# --- what a frame means for its book -----------------------------------------------------------------------------------------


def effects(*bodies: dict[str, Any] | bytes, partial: bool = False) -> list[str | None]:
    watch = BookValidator(partial=partial)
    found = [watch.take(frame, parse_message(frame.data)) for frame in frames(*bodies)]
    return [None if one is None else one.effect.value for one in found]


def test_a_frame_whose_number_was_there_before_changes_nothing() -> None:
    said = [snapshot(A, 1), delta(A, 2), delta(A, 2), delta(A, 3)]
    assert effects(*said) == ["opened", "changed", "repeated", "changed"]
    assert spans(report(*said)) == []


def test_a_late_frame_of_a_partial_capture_ends_its_book_since_the_snapshot() -> None:
    said = [snapshot(A, 9), delta(A, 15), delta(A, 12), delta(A, 20)]
    assert effects(*said, partial=True) == ["opened", "changed", "unapplied", "unapplied"]
    assert spans(report(*said, partial=True)) == [(A, "late", 0, None)]


def test_changes_of_another_subscription_than_that_of_the_latest_snapshot_are_not_applied() -> None:
    said = [snapshot(A, 1), delta(A, 1, sid=7, by="2.00"), delta(A, 2), snapshot(A, 2, sid=7), delta(A, 3), delta(A, 3, sid=7)]
    assert effects(*said) == ["opened", "superseded", "changed", "opened", "superseded", "changed"]
    assert spans(report(*said)) == []


def test_a_book_is_invalid_from_the_last_frame_of_its_subscription_before_it_ended() -> None:
    said = [snapshot(A, 1), snapshot(B, 2), delta(A, 3), trade(A, 1), {"type": "ok", "sid": 1, "seq": 4, "msg": {"market_tickers": [B]}}]
    assert spans(report(*said, delta(B, 5))) == [(A, "unsubscribed", 2, None)]
    assert spans(report(*said, {"type": "unsubscribed", "sid": 1, "seq": 5})) == [
        (A, "unsubscribed", 2, None),
        (B, "unsubscribed", 4, None),
    ]


@pytest.mark.parametrize("torn", [b'{"type":"orderbook_delta","sid":1,"se', b"\xff"])
def test_a_frame_that_cannot_be_read_is_of_the_subscription_whose_number_is_missing(torn: bytes) -> None:
    said = [snapshot(A, 1), snapshot(B, 1, sid=2), torn]
    assert spans(report(*said, delta(A, 2), delta(B, 2, sid=2))) == []
    assert spans(report(*said, delta(A, 2), delta(B, 3, sid=2))) == [(B, "gap", 1, None)]
    assert spans(report(*said, delta(A, 2), partial=True)) == [(A, "unreadable", 0, None), (B, "unreadable", 1, None)]


def test_a_book_frame_without_a_market_or_a_number_ends_the_books_that_it_may_be_of() -> None:
    nameless = {"type": "orderbook_delta", "sid": 1, "seq": 3, "msg": {"price_dollars": "0.4000"}}
    assert spans(report(snapshot(A, 1), snapshot(B, 2), nameless)) == [(A, "unreadable", 2, None), (B, "unreadable", 2, None)]
    unnumbered = delta(A, 3)
    del unnumbered["seq"]
    assert spans(report(snapshot(A, 1), snapshot(B, 2), unnumbered)) == [(A, "unreadable", 1, None), (B, "unreadable", 1, None)]
