"""Dagster's configuration in a fleet (several machines with one UI): storage in Postgres, a run launcher, run monitoring and retries.

`dagster.yaml` is generated from the settings and contains no secret: it refers to variables of the environment, which `export_urls` sets.
Not here: the launcher of Celery and its workers (launcher.py, worker.py).
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import yaml
from sqlalchemy import Dialect, Engine, event

from bellwether.database import AdvisoryLock, parse_url
from bellwether.doctor.deployment import missing_settings
from bellwether.errors import ConfigError
from bellwether.files import atomic_file
from bellwether.settings import Fleet, Settings

#: Runs that a worker executes at once.
RUNS_PER_WORKER = 2
#: First line of a generated dagster.yaml. A file without it belongs to the operator.
HEADER = "# Generated from the BELLWETHER_ settings at every start. Remove this line to edit the file yourself."
#: Variables to which dagster.yaml refers.
_POSTGRES, _BROKER = "DAGSTER_POSTGRES_URL", "DAGSTER_CELERY_BROKER_URL"
#: Variable of our own with Dagster's database.
_SETTING = "BELLWETHER_POSTGRES"
#: Keys of advisory locks: of the node that creates Dagster's tables, and of the only daemon.
_TABLES_LOCK, _DAEMON_LOCK = 0x62656C6C00, 0x62656C6C01
_WORLD = "bellwether/world"
#: Time for which a worker waits for Postgres.
_OUTAGE_SECONDS = 120
#: Settings of Celery that daemon and workers share. A task is acknowledged when its execution starts: it is executed once at most.
CELERY = {
    "broker_connection_max_retries": None,
    "broker_connection_retry_on_startup": True,
    # An unacknowledged task is only on its way to a process that is free.
    "broker_transport_options": {"visibility_timeout": 60, "socket_timeout": 10, "socket_connect_timeout": 5},
    "result_backend_always_retry": True,
    "result_expires": 30 * 24 * 3600,
    "task_acks_late": False,
    "task_track_started": True,
    "worker_disable_prefetch": True,
    "worker_hijack_root_logger": False,
    "worker_prefetch_multiplier": 1,
    "worker_redirect_stdouts": False,
}


def require_settings(config: Settings) -> None:
    """Raise `ConfigError` if settings of a fleet are missing; the message names all of them."""
    if missing := missing_settings(config):
        raise ConfigError(f"reading BELLWETHER_FLEET={config.fleet}: {'; '.join(missing)}")


def export_urls(config: Settings) -> None:
    """Set the environment variables to which dagster.yaml refers, for this process and its children."""
    if config.postgres is not None:
        os.environ[_POSTGRES] = _dagster_url(config)
    if config.broker is not None:
        os.environ[_BROKER] = config.broker.get_secret_value()


def instance_settings(config: Settings) -> dict[str, Any]:
    """Return the content of a fleet's dagster.yaml as a mapping."""
    shared = yaml.safe_load((files("orchestration") / "dagster.yaml").read_text())
    del shared["event_log_storage"]
    slots = RUNS_PER_WORKER * config.workers
    shared["concurrency"]["runs"]["max_concurrent_runs"] = slots
    shared["concurrency"]["runs"]["tag_concurrency_limits"][0]["limit"] = slots - 1
    return {
        **shared,
        "storage": {"postgres": {"postgres_url": {"env": _POSTGRES}}},
        "run_launcher": _launcher(config),
        "compute_logs": _compute_logs(config) or shared["compute_logs"],
        "run_monitoring": {
            "enabled": True,
            "poll_interval_seconds": config.heartbeat,
            "start_timeout_seconds": 900,  # tasks wait for a free worker; `end_lost_starts` ends those of lost ones
            "cancel_timeout_seconds": 30,
            "free_slots_after_run_end_seconds": 5,
        },
        "run_retries": {"enabled": True, "max_retries": 3, "retry_on_asset_or_op_failure": False},
    }


def celery_settings() -> dict[str, Any]:
    """Return the arguments that dagster.yaml gives to `CeleryRunLauncher`."""
    return {"broker": {"env": _BROKER}, "backend": {"env": _BROKER}, "config_source": CELERY}


def _launcher(config: Settings) -> dict[str, Any]:
    if config.fleet is Fleet.CELERY:
        return {"module": "orchestration.launcher", "class": "CeleryLauncher", "config": celery_settings()}
    return {
        "module": "dagster_k8s",
        "class": "K8sRunLauncher",
        # Names of deploy/; an operator with others keeps a dagster.yaml of their own, as Dagster's Helm chart does.
        "config": {
            "service_account_name": "dagster",
            "instance_config_map": "dagster-instance",
            "job_image": {"env": "DAGSTER_CURRENT_IMAGE"},
            "dagster_home": "/opt/dagster/dagster_home",
            "job_namespace": {"env": "DAGSTER_K8S_NAMESPACE"} if os.environ.get("DAGSTER_K8S_NAMESPACE") else "default",
            "env_config_maps": ["bellwether"],
            "env_secrets": ["bellwether"],
        },
    }


def _compute_logs(config: Settings) -> dict[str, Any] | None:
    """Return the setting that keeps the output of steps in the object store; None if no S3 store is set, so that local folders are used."""
    store = urlsplit(config.world_store)
    if store.scheme != "s3":
        return None
    place = {"bucket": store.netloc, "prefix": f"{store.path.strip('/')}/compute-logs", "local_dir": {"env": "DAGSTER_HOME"}}
    return {"module": "dagster_aws.s3.compute_log_manager", "class": "S3ComputeLogManager", "config": place}


def is_own(file: Path) -> bool:
    """Return True if the operator wrote this dagster.yaml, not `write_settings`. False if the file is missing."""
    return file.exists() and not file.read_text(encoding="utf-8").startswith(HEADER)


def write_settings(config: Settings, target: Path) -> None:
    """Write a fleet's dagster.yaml if the file is missing or out of date. target: its path."""
    written = f"{HEADER}\n{yaml.safe_dump(instance_settings(config), sort_keys=False)}"
    if not target.exists() or target.read_text(encoding="utf-8") != written:
        with atomic_file(target) as draft:
            draft.write_text(written, encoding="utf-8")


def create_tables(config: Settings) -> None:
    """Create Dagster's tables in Postgres, and reserve the database for this world. Concurrent calls wait for one another.

    Raises:
        ConfigError: the database belongs to another world.
        BellwetherError: Postgres does not answer.
    """
    lock = AdvisoryLock(_stated(config), _TABLES_LOCK, _SETTING)
    lock.acquire()
    with closing(lock), dg.DagsterInstance.get() as instance:
        instance.get_runs_count()
        instance.get_asset_keys(limit=1)
        instance.all_instigator_state()
        cursors = instance.daemon_cursor_storage
        owner = cursors.get_cursor_values({_WORLD}).get(_WORLD)
        if owner is None:
            cursors.set_cursor_values({_WORLD: config.world.value})
        elif owner != config.world.value:
            raise ConfigError(
                f"BELLWETHER_POSTGRES is the storage of the world {owner!r}; the world {config.world.value!r} needs a database of its own"
            )


def end_lost_starts(instance: dg.DagsterInstance) -> None:
    """Report runs as failed whose worker was lost before they started, so that Dagster retries them. Raises if Postgres or the broker does not
    answer.
    """
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING])):
        health = instance.run_launcher.check_run_worker_health(run)
        present = instance.get_run_by_id(run.run_id)
        if health.status.name == "FAILED" and present is not None and present.status is run.status:
            instance.report_run_failed(run, health.msg)


def daemon_lock(config: Settings) -> AdvisoryLock:
    """Return the lock of the fleet's only daemon."""
    return AdvisoryLock(_stated(config), _DAEMON_LOCK, _SETTING)


def wait_for_postgres() -> None:
    """Let later connections of this process and its forks wait while Postgres restarts, instead of failing."""
    event.listen(Engine, "do_connect", _connect_patiently)


def _connect_patiently(dialect: Dialect, _: object, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if dialect.name != "postgresql":
        return None
    end = time.monotonic() + _OUTAGE_SECONDS
    while True:
        try:
            return dialect.connect(*positional, **named)
        except dialect.loaded_dbapi.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


def _stated(config: Settings) -> str:
    """Return BELLWETHER_POSTGRES, empty if it is not set."""
    return config.postgres.get_secret_value() if config.postgres else ""


def _dagster_url(config: Settings) -> str:
    """Return BELLWETHER_POSTGRES as a URL that names psycopg2, the driver of dagster-postgres. SQLAlchemy 2.1 would choose another driver.

    Raises `ConfigError` for other text.
    """
    url = parse_url(_stated(config), _SETTING)
    if url.get_backend_name() != "postgresql":
        raise ConfigError(f"reading {_SETTING}: {url.drivername!r} is not Postgres; use postgresql://user:password@host/database")
    return url.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
