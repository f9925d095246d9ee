"""Recordings become partitions. Finished ones are imported into the lake with their gaps."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.venues.jobs import RECORDINGS
from assets.venues.recordings import RECORDING_TABLES
from assets.venues.sensors import finished_recordings
from bellwether import settings as settings_module
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import RecordingRequest
from bellwether.tables import table
from bellwether.venues.kalshi.stream.frame import Frame
from resources import LakeResource
from resources.recordings import RecordingsResource
from tests.orchestration.conftest import World, open_world

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


def tick(world: World) -> dg.SensorResult | dg.SkipReason:
    resources = {"recordings": RecordingsResource(path=str(world.config.recordings_path)), "lake": LakeResource(uri=world.config.lake_uri)}
    found = finished_recordings(dg.build_sensor_context(instance=world.instance, resources=resources))
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    return found


def take(world: World, name: str) -> dg.ExecuteInProcessResult:
    world.instance.add_dynamic_partitions("recording", [name])
    job = world.defs.resolve_job_def(RECORDINGS.name)
    return job.execute_in_process(instance=world.instance, partition_key=name, raise_on_error=False)


def test_a_finished_recording_is_run_once_and_a_broken_one_waits(world: World) -> None:
    root = world.config.recordings_path
    record(root, "whole", SNAPSHOT, delta(2))
    record(root, "broken", SNAPSHOT, finish=False)
    first, second = tick(world), tick(world)
    assert isinstance(first, dg.SensorResult)
    assert isinstance(second, dg.SensorResult)
    added = [key for request in first.dynamic_partitions_requests or () for key in request.partition_keys]
    assert sorted(added) == ["broken", "whole"]
    assert [request.partition_key for request in first.run_requests or ()] == ["whole"]
    assert [request.run_key for request in first.run_requests or ()] == [request.run_key for request in second.run_requests or ()]


def test_a_damaged_recording_does_not_keep_the_others_waiting(world: World) -> None:
    root = world.config.recordings_path
    for name in ("damaged", "whole"):
        record(root, name, SNAPSHOT, delta(2))
    (root / "damaged" / "done.json").write_text("{")
    found = tick(world)
    assert isinstance(found, dg.SensorResult)
    assert [request.partition_key for request in found.run_requests or ()] == ["whole"]


def test_frames_and_gaps_reach_the_lake_and_lost_frames_fail_a_check(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check passes in the sandbox, where the demo creates a gap."""
    monkeypatch.setattr("bellwether.checks.rule.settings", lambda: world.config.model_copy(update={"world": settings_module.World.LIVE}))
    record(world.config.recordings_path, "holed", SNAPSHOT, delta(2), delta(5))
    result = take(world, "holed")
    assert result.success
    frames = world.lake.slice(table("raw/recordings")).scan().collect()
    assert frames["frame"].to_list() == [data.decode() for data in (SNAPSHOT, delta(2), delta(5))]
    assert frames["seq"].to_list() == [1, 2, 5]
    gaps = world.lake.slice(table("raw/recording_gaps")).scan().collect()
    assert gaps.filter(pl.col("kind") == "lost")["missing"].to_list() == [2]
    failed = [check.check_name for check in result.get_asset_check_evaluations() if not check.passed]
    assert failed == ["nothing_lost"]


def test_the_same_recording_gives_the_same_bytes(world: World) -> None:
    record(world.config.recordings_path, "whole", SNAPSHOT, delta(2))
    digests = []
    for _ in range(2):
        assert take(world, "whole").success
        digests.append([world.lake.slice(table(name)).manifests[0].sha256 for name in RECORDING_TABLES])
    assert digests[0] == digests[1]


def test_a_recording_that_is_being_written_is_refused(world: World) -> None:
    root = world.config.recordings_path
    with Recorder(root / "live", ABOUT) as recorder:
        recorder.write(Frame(1_770_000_000_000_000_000, 1, 0, SNAPSHOT))
        assert isinstance(tick(world), dg.SkipReason)
        assert not take(world, "live").success
    assert not world.lake.manifests(table("raw/recordings"))
