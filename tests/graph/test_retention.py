"""Old runs are deleted, except those that built the current version of a partition, and a home grows slowly."""

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.raw import runs
from bellwether.lake import Lake
from bellwether.settings import Settings
from bellwether.tables.raw import KALSHI_PULLS
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import PageStore
from orchestration.definitions import build_defs
from orchestration.home import prepare
from orchestration.retention import PRUNE, prune
from orchestration.runner import Runner
from resources import LakeResource
from tests.demo_home import LAST

#: Maximum growth of the home in bytes for a run over one day of both venues.
MOST_BYTES = 1_300_000
NUMBERS = dg.AssetKey("numbers")
MATERIALIZATION = dg.DagsterEventType.ASSET_MATERIALIZATION


@dg.asset(partitions_def=dg.StaticPartitionsDefinition([str(number) for number in range(20)]))
def numbers(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    context.log.info("counted")
    if context.run.tags.get("broken"):
        raise ValueError("broken")
    return dg.MaterializeResult(metadata={"number": int(context.partition_key)})


@dg.asset_check(asset=numbers)
def whole() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    prepare(Settings(home=tmp_path))
    with dg.DagsterInstance.get() as opened:
        yield opened


def materialize(instance: dg.DagsterInstance, partition: str, **tags: str) -> str:
    return dg.materialize([numbers, whole], instance=instance, partition_key=partition, tags=tags, raise_on_error=False).run_id


def ids(instance: dg.DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs()}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.nightly
def test_a_run_over_one_day_adds_little_to_the_home(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    runner = Runner(build_defs(config=Settings(home=tmp_path)), instance)
    runs.pull_series(runner)
    sizes = []
    for day in (LAST - timedelta(days=1), LAST):
        runs.pull_days(runner, day, day)
        sizes.append(size(Path(instance.root_directory)))
    runner.close()
    assert sizes[1] - sizes[0] <= MOST_BYTES, sizes


def test_old_runs_are_deleted_unless_they_made_the_present_version_of_a_partition(instance: dg.DagsterInstance) -> None:
    superseded, of_two, of_one = (materialize(instance, partition) for partition in ("1", "2", "1"))
    failed = materialize(instance, "2", broken="yes")
    made = instance.get_latest_storage_id_by_partition(NUMBERS, MATERIALIZATION)
    assert sorted(prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=61))) == sorted([superseded, failed])
    assert ids(instance) == {of_two, of_one}
    assert instance.all_logs(superseded) == []
    assert instance.get_latest_storage_id_by_partition(NUMBERS, MATERIALIZATION) == made
    assert len(instance.fetch_materializations(NUMBERS, limit=10).records) == 2
    materialize(instance, "2")
    assert prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=61)) == [of_two]


def test_young_runs_and_unfinished_ones_stay(instance: dg.DagsterInstance) -> None:
    first, second = materialize(instance, "1"), materialize(instance, "1")
    unfinished = instance.create_run_for_job(
        dg.define_asset_job("some").resolve(asset_graph=dg.Definitions([numbers]).resolve_asset_graph())
    )
    assert prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=59)) == []
    assert prune(instance, timedelta(days=1), datetime.now(UTC) + timedelta(days=9)) == [first]
    assert ids(instance) == {second, unfinished.run_id}


def test_the_schedules_job_prunes_runs_and_pages(instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [materialize(instance, "1"), materialize(instance, "1")]
    monkeypatch.setattr("orchestration.retention.settings", lambda: Settings(home=tmp_path, keep_runs_days=1))
    with instance.run_storage.connect() as connection:  # type: ignore[attr-defined]  # of Dagster's SQL storages
        connection.exec_driver_sql("UPDATE runs SET create_timestamp = '2026-01-01 00:00:00'")
    lake = Lake(str(tmp_path / "lake"))
    store = PageStore(lake.storage)
    for _ in range(3):
        pull = store.open("day", "2026-03-14", reuse=lambda note: False)
        pull.write("markets", VenuePage("GET /markets", 200, datetime(2026, 3, 15, tzinfo=UTC), b"{}"))
        pull.finish({"markets": 1}, {})
    row = {"day": date(2026, 3, 14), "pull": "raw/kalshi_pages/day/2026-03-14/0002", "final": True, "requests": 1}
    times = dict.fromkeys(("started_at", "finished_at", "known_at"), datetime(2026, 3, 15, tzinfo=UTC))
    lake.write(KALSHI_PULLS, ("2026-03-14",), KALSHI_PULLS.frame([{**row, **times}]), run_id="pull")
    for path in (tmp_path / "lake" / "raw" / "kalshi_pages").rglob("*.*"):
        os.utime(path, (0, 0))
    done = PRUNE.execute_in_process(instance=instance, resources={"lake": LakeResource(uri=str(tmp_path / "lake"))})
    assert done.success
    assert ids(instance) == {old[1], done.run_id}
    assert sorted(path.name for path in (tmp_path / "lake/raw/kalshi_pages/day/2026-03-14").iterdir()) == ["0002", "0003"]
