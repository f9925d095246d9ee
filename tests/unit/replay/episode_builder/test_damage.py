"""Damaged recordings: at every instant an episode has the right book, or marks it invalid."""

from __future__ import annotations

from random import Random

import pytest

from bellwether.recordings.recording import RecordingRequest
from bellwether.venues.kalshi.stream.frame import Frame
from tests.captures import GAME, import_event
from tests.unit.replay.episode_builder.damage import ALL, WAYS, Damage, compare_books, damaged, truth, with_snapshots


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordingRequest, list[Frame]]:
    """The beginning of a captured game: 3,000 frames."""
    recording = import_event(tmp_path_factory.mktemp("recordings"), GAME)
    return recording.about, list(recording.frames())[:3000]


@pytest.mark.parametrize("way", WAYS)
def test_an_undamaged_recording_has_its_whole_book(recorded: tuple[RecordingRequest, list[Frame]], way: str) -> None:
    about, frames = recorded
    whole = frames if way == "again" else with_snapshots(frames, 300, way)
    looked = compare_books(whole, about, truth(frames))
    assert looked.right > 1000
    assert looked.uncovered == 0
    # A connection ends after its last frame.
    assert looked.told == 0 or way == "reconnect"


@pytest.mark.parametrize(
    ("kind", "way"), zip(ALL, (*WAYS, "again", "reconnect"), strict=True), ids=lambda value: getattr(value, "__name__", value)
)
def test_a_kind_of_damage_leaves_a_right_book_or_none(recorded: tuple[RecordingRequest, list[Frame]], kind: Damage, way: str) -> None:
    about, frames = recorded
    rng = Random(f"{kind.__name__} {way}")
    damage = damaged(with_snapshots(frames, 250, way), rng, (kind,), 6)
    looked = compare_books(damage, about, truth(frames))
    assert looked.right > 100
    assert looked.uncovered == 0


@pytest.mark.parametrize(("way", "times"), zip(WAYS, (3, 15, 50, 40), strict=True))
def test_many_damages_leave_a_right_book_or_none(recorded: tuple[RecordingRequest, list[Frame]], way: str, times: int) -> None:
    about, frames = recorded
    rng = Random(f"{way} {times}")
    whole = with_snapshots(frames, rng.choice([30, 100, 250]), way)
    looked = compare_books(damaged(whole, rng, ALL, times), about, truth(frames))
    # A few damages may hit data that another subscription repeats; many damages leave few right books.
    assert looked.right > 100 or times == 50
    assert looked.told > 100 or times == 3
