"""Gaps of numbers per connection and subscription, and when each book could not be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.recordings.gaps import GapReport, Numbers, Watch, gap_report, gap_summary
from bellwether.venues.kalshi.stream.frame import Frame, message
from tests.recordings.frames import PARTIAL, frames, recorded
from tests.venues.stream.peer import A, B, delta, snapshot, trade


def report(*bodies: dict[str, Any], partial: bool = False) -> GapReport:
    return report_of(frames(*bodies), partial=partial)


def report_of(found: list[Frame], *, partial: bool = False) -> GapReport:
    watch = Watch(partial=partial)
    for frame in found:
        watch.heard(frame, message(frame.data))
    return watch.report("test")


def spans(found: GapReport) -> list[tuple[str, str, int, int | None]]:
    return [(outage.market, outage.cause, outage.start.ordinal, outage.end.ordinal if outage.end else None) for outage in found.outages]


@given(st.lists(st.integers(1, 30), max_size=60))
def test_numbers_count_what_plain_sets_count(seqs: list[int]) -> None:
    numbers = Numbers(1, 1, first=1, last=0)
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


def test_an_unbroken_recording_has_no_gap() -> None:
    found = report(snapshot(A, 1), {"id": 3, "type": "ok", "sid": 1, "seq": 2, "msg": {}}, delta(A, 3), trade(A, 1), trade(A, 2))
    assert (found.lost, found.gaps, found.outages, found.frames) == (0, (), (), 5)
    assert [(numbers.sid, numbers.first, numbers.last, numbers.received) for numbers in found.numbers] == [(1, 1, 3, 3), (2, 1, 2, 2)]


def test_a_skipped_number_makes_every_book_of_the_subscription_invalid_until_its_own_snapshot() -> None:
    found = report(snapshot(A, 1), snapshot(B, 2), delta(A, 3), delta(A, 6), trade(A, 1), snapshot(B, 7), delta(B, 8), snapshot(A, 9))
    [gap] = found.gaps
    assert (gap.first, gap.last, gap.missing, gap.before.ordinal, gap.after.ordinal, gap.markets) == (4, 5, 2, 2, 3, (A, B))
    assert spans(found) == [(A, "gap", 2, 7), (B, "gap", 2, 5)]
    assert found.lost == 2


def test_numbers_that_never_came_before_the_first_frame_are_lost() -> None:
    found = report(delta(A, 3), snapshot(A, 4))
    assert [(gap.first, gap.last, gap.before) for gap in found.gaps] == [(1, 2, None)]
    assert spans(found) == [(A, "start", 0, 1)]


def test_a_late_frame_is_an_inversion_and_not_lost_but_the_book_stays_invalid() -> None:
    found = report(snapshot(A, 1), delta(A, 3), delta(A, 2), delta(A, 4), snapshot(A, 5))
    assert (found.lost, found.inversions, found.duplicates) == (0, 1, 0)
    assert [(gap.first, gap.last, gap.missing) for gap in found.gaps] == [(2, 2, 0)]
    assert spans(found) == [(A, "gap", 0, 4)]


def test_a_frame_that_comes_twice_is_a_duplicate() -> None:
    found = report(snapshot(A, 1), delta(A, 2), delta(A, 2), delta(A, 3))
    assert (found.lost, found.duplicates, found.outages) == (0, 1, ())


def test_a_lost_trade_harms_no_book() -> None:
    found = report(snapshot(A, 1), trade(A, 1), trade(B, 4), delta(A, 2))
    assert [(gap.sid, gap.first, gap.last, gap.markets) for gap in found.gaps] == [(2, 2, 3, (A, B))]
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
    assert [(gap.sid, gap.first, gap.last, gap.missing) for gap in found.gaps] == [(1, 10, 19, 9)]
    assert found.outages == ()


def test_a_capture_that_begins_without_a_snapshot_has_no_book_until_one_comes() -> None:
    found = report(delta(A, 9), delta(A, 12), snapshot(A, 20), delta(B, 22), partial=True)
    assert spans(found) == [(A, "start", 0, 2), (B, "start", 3, None)]


@pytest.mark.parametrize("odd", [b"", b"[]", b'{"type":"trade"}', b'{"type":"orderbook_delta","sid":1,"seq":-4,"msg":[]}', b"\xff"])
def test_frames_that_say_nothing_are_counted_and_no_more(odd: bytes) -> None:
    found = report_of(frames(snapshot(A, 1), odd, delta(A, 2)))
    assert (found.frames, found.lost, found.outages) == (3, 0, ())


def test_a_report_and_its_summary_come_from_the_recording(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(snapshot(A, 1), delta(A, 4)))
    found = gap_report(recording)
    assert (found.recording, found.lost, found.partial) == ("one", 2, False)
    summary = gap_summary(recording)
    assert (summary["lost"], summary["book_outages"], summary["frames"]) == (2, 1, 2)
    recording.segments[0].unlink()
    assert gap_summary(recording) == summary


def test_a_summary_is_kept_of_finished_recordings_only(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(snapshot(A, 1)), about=PARTIAL, finish=False)
    assert gap_summary(recording)["partial"] is True
    assert not (recording.folder / "gaps.json").exists()
