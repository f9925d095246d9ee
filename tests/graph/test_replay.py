"""Recordings become partitions and episodes: finished ones are imported with their gaps, and episodes follow their frames and results."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.raw.assets import RECORDING_TABLES
from assets.raw.jobs import RECORDINGS, import_recordings
from assets.replay.jobs import build_episodes
from bellwether import settings as settings_module
from bellwether.lake import Lake
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import RecordingRequest
from bellwether.replay.episode_builder.sources import Sources, outdated_episodes
from bellwether.tables import table
from bellwether.venues.kalshi.stream.frame import Frame
from tests.damage import forget_partition
from tests.demo_home import EVENT, World, open_world
from tests.graph.worlds import execute, resource, rows
from tests.unit.checks.test_rules import episode_market

ABOUT = RecordingRequest("kalshi", "websocket", ("KXRAIN",), ("KXRAIN-A",), ("orderbook_delta",), "test", "2026-03-10T12:00:00Z")
SNAPSHOT = b'{"type":"orderbook_snapshot","sid":1,"seq":1,"msg":{"market_ticker":"KXRAIN-A"}}'


def delta(seq: int) -> bytes:
    return (
        b'{"type":"orderbook_delta","sid":1,"seq":%d,"msg":'
        b'{"market_ticker":"KXRAIN-A","price_dollars":"0.4000","delta_fp":"5.00","side":"yes"}}' % seq
    )


def record(root: Path, name: str, *frames: bytes, finish: bool = True) -> None:
    with Recorder(root / name, ABOUT) as recorder:
        for ordinal, data in enumerate(frames):
            recorder.write(Frame(1_770_000_000_000_000_000 + ordinal, 1, ordinal, data))
        if finish:
            recorder.finish("the markets closed")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return open_world(tmp_path / "home", recordings=tmp_path / "recordings")


def ask(world: World, sensor: dg.SensorDefinition) -> dg.SensorResult:
    """Return what a sensor requests; its runs may be of partitions that it adds."""
    resources = {name: resource(world, name) for name in sensor.required_resource_keys}
    found = sensor(dg.build_sensor_context(instance=world.instance, resources=resources, definitions=world.defs))
    return found if isinstance(found, dg.SensorResult) else dg.SensorResult()


def take(world: World, name: str) -> dg.ExecuteInProcessResult:
    world.instance.add_dynamic_partitions("recording", [name])
    return execute(world, RECORDINGS.name, partition_key=name)


def test_finished_recordings_are_requested_with_the_same_key_until_they_are_imported(world: World) -> None:
    root = world.config.recordings_path
    for name in ("damaged", "whole"):
        record(root, name, SNAPSHOT, delta(2))
    (root / "damaged" / "done.json").write_text("{")
    record(root, "unfinished", SNAPSHOT, finish=False)
    first, second = ask(world, import_recordings), ask(world, import_recordings)
    added = [key for request in first.dynamic_partitions_requests or () for key in request.partition_keys]
    assert {"unfinished", "whole"} <= set(added)
    assert [request.partition_key for request in first.run_requests or ()] == ["whole"]
    assert [request.run_key for request in first.run_requests or ()] == [request.run_key for request in second.run_requests or ()]
    digests = []
    for _ in range(2):
        assert take(world, "whole").success
        digests.append([world.lake.slice(table(name)).manifests[0].digest for name in RECORDING_TABLES])
    assert digests[0] == digests[1], "the same recording gives the same bytes"
    assert not ask(world, import_recordings).run_requests


def test_frames_and_gaps_reach_the_lake_and_lost_frames_fail_a_check(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check passes in the sandbox, where the demo creates a gap."""
    monkeypatch.setattr("bellwether.checks.rule.settings", lambda: world.config.model_copy(update={"world": settings_module.World.LIVE}))
    record(world.config.recordings_path, "holed", SNAPSHOT, delta(2), delta(5))
    result = take(world, "holed")
    assert result.success
    frames = rows(world, "raw/recordings")
    assert frames["frame"].to_list() == [data.decode() for data in (SNAPSHOT, delta(2), delta(5))]
    assert frames["seq"].to_list() == [1, 2, 5]
    assert rows(world, "raw/recording_gaps").filter(pl.col("kind") == "lost")["missing"].to_list() == [2]
    failed = [check.check_name for check in result.get_asset_check_evaluations() if not check.passed]
    assert failed == ["nothing_lost"]


def test_a_recording_that_is_being_written_is_refused(world: World) -> None:
    with Recorder(world.config.recordings_path / "live", ABOUT) as recorder:
        recorder.write(Frame(1_770_000_000_000_000_000, 1, 0, SNAPSHOT))
        assert not ask(world, import_recordings).run_requests
        assert not take(world, "live").success
    assert not world.lake.manifests(table("raw/recordings"))


def test_an_imported_recording_requests_its_episode_with_the_same_key_until_it_is_built(demo_copy: World) -> None:
    assert not ask(demo_copy, build_episodes).run_requests
    forget_partition(demo_copy.lake, table("replay/episodes"), (EVENT,))
    asked = [[(run.partition_key, run.run_key) for run in ask(demo_copy, build_episodes).run_requests or ()] for _ in range(2)]
    assert [event for event, _ in asked[0]] == [EVENT]
    assert asked[0] == asked[1]


def test_an_episode_is_due_when_its_frames_or_what_may_settle_it_have_changed(tmp_path: Path) -> None:
    lake, held = Lake(str(tmp_path)), {"E": "R"}
    assert outdated_episodes(lake, held) == {}
    write_frames(lake, "{}")
    never_made = outdated_episodes(lake, held)
    assert set(never_made) == {"E"}
    write_episode(lake, result=None)
    assert outdated_episodes(lake, held) == {}
    lake.write(table("raw/kalshi_markets"), ("2026-03-10",), table("raw/kalshi_markets").empty(), run_id="a")
    pulled = outdated_episodes(lake, held)
    assert set(pulled) == {"E"} and pulled != never_made
    write_episode(lake, result=None)
    assert outdated_episodes(lake, held) == {}
    lake.write(table("raw/kalshi_markets"), ("2026-03-10",), table("raw/kalshi_markets").empty(), run_id="b")
    assert outdated_episodes(lake, held) == {}, "the same rows were pulled again"
    write_episode(lake, result="YES")
    lake.write(table("raw/kalshi_markets"), ("2026-03-11",), table("raw/kalshi_markets").empty(), run_id="a")
    assert outdated_episodes(lake, held) == {}, "it is settled"
    write_frames(lake, "[]")
    assert set(outdated_episodes(lake, held)) == {"E"}


def write_frames(lake: Lake, frame: str) -> None:
    declared = table("raw/recordings")
    lake.write(declared, ("R",), declared.frame([{"recording": "R", "ordinal": 0, "connection": 1, "frame": frame}]), run_id="a")


def write_episode(lake: Lake, *, result: str | None) -> None:
    """Store an episode that was built from the lake."""
    row = episode_market("A", result=result, recording="R")
    sources = Sources.of(lake, "R")
    row |= {"recording_digest": sources.recording, "markets_digest": sources.markets_digest(row["end_at"])}
    lake.write(table("replay/episodes"), ("E",), table("replay/episodes").frame([row]), run_id="a")
