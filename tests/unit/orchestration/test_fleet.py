"""Dagster's configuration in a fleet, and the detection of lost workers, with Celery's messages and results in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import dagster as dg
import psycopg2
import pytest
import yaml
from click.testing import CliRunner

from bellwether.errors import ConfigError
from bellwether.settings import Fleet, Settings, settings
from cli.main import main
from orchestration import fleet, launcher, server
from orchestration.definitions import build_defs
from orchestration.fleet import CELERY, HEADER, missing_settings, write_settings
from orchestration.home import prepare
from orchestration.launcher import CeleryLauncher

SECRET = "hunter2"
CELERY_FLEET = {
    "fleet": Fleet.CELERY,
    "workers": 3,
    "postgres": f"postgresql://bellwether:{SECRET}@db.internal/fleet",
    "broker": f"redis://:{SECRET}@redis.internal:6379/0",
    "store": "/srv/bellwether",
}
TASK = "dagster-celery/task_id"


def config(tmp_path: Path, **changes: Any) -> Settings:
    return Settings(home=tmp_path, **{**CELERY_FLEET, **changes})


@pytest.mark.parametrize("kind", list(Fleet))
def test_dagster_yaml_of_a_fleet_follows_the_settings_without_a_secret(tmp_path: Path, kind: Fleet) -> None:
    target = tmp_path / "dagster.yaml"
    write_settings(config(tmp_path, fleet=kind, store="s3://bucket/prefix"), target)
    text = target.read_text()
    assert SECRET not in text and "db.internal" not in text
    written = yaml.safe_load(text)
    assert written["concurrency"]["runs"]["max_concurrent_runs"] == 6
    assert written["run_launcher"]["class"] == {Fleet.CELERY: "CeleryLauncher", Fleet.KUBERNETES: "K8sRunLauncher"}[kind]
    logs = written["compute_logs"]
    assert (logs["class"], logs["config"]["bucket"], logs["config"]["prefix"]) == (
        "S3ComputeLogManager",
        "bucket",
        "prefix/sandbox/compute-logs",
    )
    write_settings(config(tmp_path, fleet=kind, workers=1), target)
    assert yaml.safe_load(target.read_text())["concurrency"]["runs"]["max_concurrent_runs"] == 2


def test_a_read_only_home_with_a_file_of_the_operator_is_used_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(config(tmp_path), tmp_path / "dagster.yaml")
    own = (tmp_path / "dagster.yaml").read_text().removeprefix(f"{HEADER}\n").replace("max_retries: 3", "max_retries: 1")
    (tmp_path / "dagster.yaml").write_text(own)
    for name in ("DAGSTER_POSTGRES_URL", "DAGSTER_CELERY_BROKER_URL"):
        monkeypatch.setenv(name, "former")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert prepare(config(tmp_path, workers=9)) == tmp_path
    assert (tmp_path / "dagster.yaml").read_text() == own
    assert [path.name for path in tmp_path.iterdir()] == ["dagster.yaml"]
    assert os.environ["DAGSTER_POSTGRES_URL"] == f"postgresql+psycopg2://bellwether:{SECRET}@db.internal/fleet"


def test_a_run_of_a_fleet_is_one_process(tmp_path: Path) -> None:
    assert build_defs(config=config(tmp_path)).executor is dg.in_process_executor
    assert build_defs(config=Settings(home=tmp_path)).executor is not dg.in_process_executor


def test_what_a_fleet_lacks_is_named_at_once(tmp_path: Path) -> None:
    assert missing_settings(config(tmp_path)) == []
    assert missing_settings(Settings(home=tmp_path)) == []
    lacking = missing_settings(config(tmp_path, postgres=None, broker=None))
    assert [text.split()[0] for text in lacking] == ["BELLWETHER_POSTGRES", "BELLWETHER_BROKER"]
    assert len(missing_settings(config(tmp_path, fleet=Fleet.KUBERNETES, broker=None))) == 0


@pytest.mark.parametrize("url", [f"mysql://u:{SECRET}@db/x", f"{SECRET}"])
def test_a_wrong_address_of_postgres_is_refused_without_its_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"BELLWETHER_POSTGRES.*postgresql://") as refused:
        fleet.export_urls(config(tmp_path, postgres=url))
    assert SECRET not in str(refused.value)


def test_a_worker_without_a_fleet_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.cache_clear()
    result = CliRunner().invoke(main, ["worker"])
    settings.cache_clear()
    assert result.exit_code == 1 and "BELLWETHER_FLEET=celery" in result.output


class Postgres:
    """A dialect whose server refuses connections until a time."""

    name = "postgresql"
    loaded_dbapi = psycopg2

    def __init__(self, back: float) -> None:
        self.now, self.back = 0.0, back

    def connect(self, *_: object, **__: object) -> str:
        if self.now < self.back:
            raise psycopg2.OperationalError("connection refused")
        return "connection"

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("back", "connects"), [(0, True), (60, True), (600, False)])
def test_a_worker_waits_two_minutes_for_postgres(monkeypatch: pytest.MonkeyPatch, back: float, connects: bool) -> None:
    server = Postgres(back)
    monkeypatch.setattr(fleet.time, "sleep", server.sleep)
    monkeypatch.setattr(fleet.time, "monotonic", lambda: server.now)
    if connects:
        assert fleet._connect_patiently(server, None, (), {}) == "connection"
        assert server.now == back
    else:
        with pytest.raises(psycopg2.OperationalError):
            fleet._connect_patiently(server, None, (), {})
        assert 120 <= server.now < 125


class Broker:
    """Celery's result backend in memory, with the replies of workers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launcher = CeleryLauncher(
            default_queue="dagster", broker="memory://", backend="cache+memory://", config_source={**CELERY, "broker_transport_options": {}}
        )
        self.task, self.now, self.asked = uuid4().hex, 0.0, []
        self.active: dict[str, bool] = {}
        monkeypatch.setattr(launcher.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(self.launcher.celery.control, "inspect", self.inspect)

    def inspect(self, destination: list[str] | None, timeout: float) -> Broker:
        self.asked.append(destination)
        return self

    def query_task(self, task: str) -> dict[str, Any] | None:
        return {worker: {task: ["active", {}]} if executes else {} for worker, executes in self.active.items()} or None

    def store(self, state: str, **details: object) -> None:
        self.launcher.celery.backend.store_result(self.task, details or None, state)

    def status(self, run_status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED) -> str:
        run = dg.DagsterRun(job_name="days", run_id="run", tags={TASK: self.task}, status=run_status)
        return self.launcher.check_run_worker_health(run).status.name


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def test_a_run_without_heartbeats_is_lost_unless_its_worker_reports_it(broker: Broker) -> None:
    broker.store("STARTED", hostname="celery@w1")
    assert broker.status() == "RUNNING"
    for beat in range(10):
        broker.now += 20
        broker.store("STARTED", hostname="celery@w1", heartbeat=beat)
        assert broker.status() == "RUNNING"
    broker.now += 29
    assert broker.status() == "RUNNING" and broker.asked == []
    broker.now += 2
    broker.active = {"celery@w1": True}
    assert broker.status() == "RUNNING" and broker.asked == [["celery@w1"]]
    broker.active = {"celery@w1": False}  # a worker with the same name was restarted
    assert broker.status() == "FAILED"


def test_a_task_that_the_broker_forgot_is_sought_on_all_workers(broker: Broker) -> None:
    assert broker.status() == "RUNNING"
    broker.now += 31
    broker.active = {"celery@w2": True}
    assert broker.status() == "RUNNING" and broker.asked == [None]
    broker.active = {"celery@w2": False}
    assert broker.status() == "FAILED"


def test_a_starting_run_waits_in_the_queue_and_is_lost_with_the_worker_that_took_it(broker: Broker) -> None:
    app = broker.launcher.celery
    app.send_task("waiting", queue="dagster")
    for _ in range(3):
        assert broker.status(dg.DagsterRunStatus.STARTING) == "RUNNING"
        broker.now += 31
    with app.connection_for_write() as connection:
        connection.default_channel.queue_purge("dagster")
    assert broker.status(dg.DagsterRunStatus.STARTING) == "RUNNING" and broker.asked == []
    broker.now += 31
    assert broker.status(dg.DagsterRunStatus.STARTING) == "FAILED" and broker.asked == [None]


def test_a_run_whose_worker_was_lost_before_its_start_is_reported_as_failed(broker: Broker, tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance._run_launcher = broker.launcher
        run = instance.add_run(dg.DagsterRun("days", run_id=uuid4().hex, tags={TASK: broker.task}, status=dg.DagsterRunStatus.STARTING))
        broker.store("STARTED", hostname="celery@w1")
        for expected in ("STARTING", "FAILURE"):
            fleet.end_lost_starts(instance)
            assert instance.get_run_by_id(run.run_id).status.value == expected
            broker.now += 31


@pytest.mark.parametrize("state", ["SUCCESS", "FAILURE", "REVOKED"])
def test_a_task_that_ended_without_the_end_of_its_run_is_lost(broker: Broker, state: str) -> None:
    broker.store("STARTED", hostname="celery@w1")
    assert broker.status() == "RUNNING"
    broker.launcher.celery.backend.store_result(broker.task, ValueError("killed") if state != "SUCCESS" else 0, state)
    assert broker.status() == "FAILED"


def test_a_broker_that_does_not_answer_condemns_no_run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.store("STARTED", hostname="celery@w1")
    assert broker.status() == "RUNNING"
    broker.now += 60
    backend = broker.launcher.celery.backend
    with monkeypatch.context() as away:
        away.setattr(backend, "get_task_meta", lambda task: (_ for _ in ()).throw(ConnectionError("refused")))
        with pytest.raises(ConnectionError):
            broker.status()
    assert broker.status() == "RUNNING" and broker.asked == []


def test_a_ui_survives_a_restart_of_postgres_and_ends_when_another_one_has_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    restarting = ConfigError("locking in Postgres: the server closed the connection")
    lock = Mock(acquire=Mock(side_effect=[restarting, True, True, False]))
    end_lost = Mock(side_effect=ConnectionError("the broker restarts"))
    monkeypatch.setattr(server, "end_lost_starts", end_lost)
    for _ in range(3):
        server._check_fleet(lock, Mock())
    with pytest.raises(ConfigError, match="another UI serves this fleet now"):
        server._check_fleet(lock, Mock())
    assert end_lost.call_count == 2
