"""Dagster's history through our event log is Dagster's own history."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

from bellwether.settings import Settings
from orchestration.event_log import EventLog
from orchestration.home import prepare

ROOT = Path(__file__).resolve().parents[2]


@dg.asset(partitions_def=dg.StaticPartitionsDefinition([str(number) for number in range(20)]))
def numbers(context: dg.AssetExecutionContext) -> None:
    context.log.info("counted")


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.DagsterInstance:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    prepare(Settings(home=tmp_path))
    return dg.DagsterInstance.get()


def materialize(instance: dg.DagsterInstance, partition: str) -> str:
    return dg.materialize([numbers], instance=instance, partition_key=partition).run_id


def test_the_home_of_a_world_uses_it_and_dagsters_own_storage_reads_it(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert isinstance(instance.event_log_storage, EventLog)
    run = materialize(instance, "3")
    written = [str(event) for event in instance.all_logs(run)]
    own = SqliteEventLogStorage(str(tmp_path / "dagster" / "history" / "runs"))
    assert [str(event) for event in own.get_logs_for_run(run)] == written
    assert own.get_materialized_partitions(dg.AssetKey("numbers")) == {"3"}


@pytest.mark.slow
def test_processes_share_it(instance: dg.DagsterInstance) -> None:
    code = (
        "import sys, dagster as dg\n"
        "from tests.orchestration.test_event_log import numbers\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    for key in sys.argv[1:]: dg.materialize([numbers], instance=instance, partition_key=key)"
    )
    halves = [[str(number) for number in range(start, start + 4)] for start in (0, 4)]
    processes = [subprocess.Popen([sys.executable, "-c", code, *half], cwd=ROOT, stderr=subprocess.DEVNULL) for half in halves]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert instance.get_materialized_partitions(dg.AssetKey("numbers")) == {str(number) for number in range(8)}
