"""A sandbox's recording of an event from its last hours to its settlements becomes an episode that tells the same."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bellwether.recordings.generating import generate_recording, settled_events
from bellwether.replay.building import build_recording
from bellwether.replay.episode import validate, write
from bellwether.sandbox.world.world import GeneratedWorld

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MICROSECOND = 1000


def test_lifecycles_results_and_grids_are_those_of_the_world(tmp_path: Path) -> None:
    world = GeneratedWorld(7)
    [event] = settled_events(world, NOW, 1)
    recording = generate_recording(tmp_path / "recordings", world, event, hours=2, now=NOW)
    [draft] = build_recording(recording)
    markets = {market.ticker: market for market in world.event(event).markets}
    results = {"yes": "YES", "no": "NO", "scalar": "SCALAR", "void": "VOID"}
    for market, settlement in zip(draft.metadata.markets, draft.settlements, strict=True):
        truth = markets[market.ticker]
        assert (settlement.result, settlement.source) == (results[truth.determination.result], "lifecycle")
        assert abs((settlement.at or 0) - truth.life.settled * MICROSECOND) < 1_000_000_000
        assert market.lifecycle[-1].source in ("lifecycle", "book wiped", "recorder")
        assert market.close_time == truth.life.announced_close(draft.metadata.start // 1000) * MICROSECOND
        assert abs((market.close or 0) - truth.life.closes * MICROSECOND) < 1_000_000_000
    report = validate(write(tmp_path / "episodes" / event, draft).folder)
    assert report.is_valid, report.text()
    assert draft.metadata.gaps == ()
    assert draft.trades.num_rows > 0
