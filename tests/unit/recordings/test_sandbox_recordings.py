"""Recordings of the sandbox's past."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.recordings.recording import Recording, RecordingStatus
from bellwether.recordings.sandbox_recordings import generate_recording, generate_recordings
from bellwether.sandbox import GeneratedWorld
from tests.unit.recordings.book_replay import check_books

NOW = datetime(2026, 7, 1, tzinfo=UTC)
EVENT = "KXHIGHLAX-26JUN27"


def content(recording: Recording) -> list[bytes]:
    return [path.read_bytes() for path in recording.segments]


@pytest.fixture(scope="module")
def world() -> GeneratedWorld:
    return GeneratedWorld(7)


def test_its_books_are_sound_and_nothing_is_missing(world: GeneratedWorld, tmp_path: Path) -> None:
    recording = generate_recording(tmp_path, world, EVENT, hours=3, now=NOW)
    check, gaps = check_books(recording)
    assert recording.status is RecordingStatus.FINISHED
    assert check.is_sound and check["deltas"] > 100 and check["wiped"] == len(recording.about.tickers)
    assert not gaps.lost and not gaps.outages


def test_lost_messages_are_a_gap_after_which_the_books_are_sound_again(world: GeneratedWorld, tmp_path: Path) -> None:
    whole = generate_recording(tmp_path / "whole", world, EVENT, hours=2, now=NOW)
    lossy = generate_recording(tmp_path / "lossy", world, EVENT, hours=2, lost_seconds=120, now=NOW)
    (before, nothing), (check, gaps) = check_books(whole), check_books(lossy)
    said, heard = ([frame.data for frame in recording.frames()] for recording in (whole, lossy))
    markets = len(lossy.about.tickers)
    assert gaps.lost and gaps.lost == len(said) - (len(heard) - markets) and not nothing.lost
    assert {outage.market for outage in gaps.outages} == set(lossy.about.tickers) and {outage.cause for outage in gaps.outages} == {"gap"}
    assert check["snapshots"] == before["snapshots"] + markets
    # A book without a new valid state would become negative or crossed.
    assert check.is_sound and check["deltas"] > 100


def test_of_those_that_nobody_names_the_last_has_a_gap(world: GeneratedWorld, tmp_path: Path) -> None:
    found = generate_recordings(tmp_path / "new", world, now=NOW, hours=4)
    assert [bool(check_books(recording)[1].lost) for recording in found] == [False, False, True]
    named = [recording.name for recording in found]
    again = generate_recordings(tmp_path / "new", world, named, now=NOW, hours=4)
    assert [content(one) for one in again] == [content(one) for one in found], "by name they are left as they are"


def test_it_ends_with_the_settlement_of_every_market(world: GeneratedWorld, tmp_path: Path) -> None:
    recording = generate_recording(tmp_path, world, EVENT, hours=1, now=NOW)
    settled = {frame.data.split(b'"market_ticker":"')[1].split(b'"')[0] for frame in recording.frames() if b'"settled"' in frame.data}
    assert settled == {ticker.encode() for ticker in recording.about.tickers}


def test_it_is_the_same_again_and_is_left_as_it_is(world: GeneratedWorld, tmp_path: Path) -> None:
    first = generate_recording(tmp_path / "a", world, EVENT, hours=1, now=NOW)
    again = generate_recording(tmp_path / "b", GeneratedWorld(7), EVENT, hours=1, now=NOW)
    assert content(first) == content(again)
    assert generate_recording(tmp_path / "a", world, EVENT, hours=1, now=NOW).folder == first.folder
    with pytest.raises(ConfigError, match="another recording"):
        generate_recording(tmp_path / "a", world, EVENT, hours=2, now=NOW)


def test_what_is_not_settled_yet_or_unknown_is_refused(world: GeneratedWorld, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not settled"):
        generate_recording(tmp_path, world, EVENT, now=datetime(2026, 6, 27, tzinfo=UTC))
    for hours in (float("nan"), float("inf"), 0, 0.01):
        with pytest.raises(ConfigError, match=f"hours is {hours}; give a number from 0.1"):
            generate_recording(tmp_path, world, EVENT, hours=hours, now=NOW)
    with pytest.raises(ConfigError, match="no such event"):
        generate_recording(tmp_path, world, "KXNOTHING", now=NOW)
