"""Whatever happens to a recording: a decision sees the right book, or is told that there is none to rely on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from bellwether.recordings.generating import generate_recording
from bellwether.recordings.recording import About
from bellwether.sandbox.world.world import GeneratedWorld
from bellwether.venues.kalshi.stream.frame import Frame
from tests.replay.building.damage import ALL, WAYS, Damage, damaged, look, look_everywhere, truth, with_snapshots

NOW, EVENT = datetime(2025, 9, 1, 12, tzinfo=UTC), "KXCUPALPINE-25AUG31"
#: Seconds between looks: some hundreds in the hours that are recorded.
CADENCE = 23.7


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[About, list[Frame]]:
    """The last hours of a generated event of six markets: 3,500 frames."""
    recording = generate_recording(tmp_path_factory.mktemp("recordings"), GeneratedWorld(7), EVENT, hours=4, now=NOW)
    return recording.about, list(recording.frames())


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_hidden_of_an_undamaged_recording(recorded: tuple[About, list[Frame]], tmp_path: Path, way: str) -> None:
    about, frames = recorded
    whole = frames if way == "again" else with_snapshots(frames, 300, way)
    looked = look(whole, about, truth(frames), tmp_path, cadence=CADENCE)
    assert looked.right > 3000
    # A connection ends behind the last frame that came on it.
    assert looked.told == 0 or way == "reconnect"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", range(2))
def test_an_agent_sees_a_right_book_or_none_whatever_is_damaged(
    recorded: tuple[About, list[Frame]], tmp_path: Path, kind: Damage, seed: int
) -> None:
    about, frames = recorded
    rng = Random(f"{kind.__name__} {seed}")
    whole = with_snapshots(frames, 250, rng.choice(WAYS))
    looked = look(damaged(whole, rng, (kind,), 6), about, truth(frames), tmp_path, cadence=CADENCE)
    assert looked.right > 100


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_right_or_invalid_at_every_instant(recorded: tuple[About, list[Frame]], way: str, seed: int) -> None:
    about, frames = recorded
    rng = Random(f"{way} {seed}")
    whole = with_snapshots(frames, rng.choice([30, 100, 250]), way)
    looked = look_everywhere(damaged(whole, rng, ALL, (3, 15, 50)[seed]), about, truth(frames))
    # A few damages may hit what another subscription has, many leave little that is right.
    assert looked.right > 100 or seed == 2
    assert looked.told > 100 or seed == 0
