"""The time of a replay: the exchange's, never backwards, as far as frames tell it."""

from __future__ import annotations

import pytest

from bellwether.errors import SchemaError
from bellwether.replay.building.times import Times

S = 1_000_000_000


def resolved(*heard: tuple[float | None, float | None] | tuple[float | None, float | None, bool]) -> list[float]:
    """Times in seconds of frames (said, received, beside) in seconds."""
    times = Times()
    for said, received, *beside in heard:
        times.hear(
            None if said is None else int(said * S), None if received is None else int(received * S), beside=bool(beside and beside[0])
        )
    return [float(at) / S for at in times.resolve("rec")]


def test_a_message_is_never_older_than_the_one_before_it() -> None:
    assert resolved((10, None), (12, None), (11, None), (13, None)) == [10, 12, 12, 13]


def test_undated_frames_take_their_time_of_receipt_between_dated_ones() -> None:
    assert resolved((10, 10.5), (None, 14), (15, 15.5), (None, 16), (15.8, 16.2), (None, 20)) == [10, 14, 15, 15.8, 15.8, 20]


def test_receipts_of_another_clock_only_tell_how_long_it_took() -> None:
    assert resolved((1000, 50_000), (None, 50_003), (None, 50_004)) == [1000, 1003, 1004]


def test_what_is_said_beside_does_not_move_the_books_clock() -> None:
    assert resolved((10, None), (99, None, True), (11, None), (None, None)) == [10, 99, 11, 11]


def test_without_any_time_there_is_no_replay() -> None:
    with pytest.raises(SchemaError, match="rec: no frame says when"):
        resolved((None, None), (None, None))
