"""Dagster's SQLite storage of runs with connections that stay open, and statements that are compiled once.

Dagster's own makes an engine for each statement: opening and closing the file, and compiling the statement anew, cost several times what the
statement does.

Not here: events of runs (event_log.py). `dagster.yaml` names this class; the file is that of Dagster's own, and either reads it.
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._serdes import ConfigurableClassData

from orchestration.home import CODE, LOCATION
from orchestration.orphans import TAG
from orchestration.sqlite import engine

#: The code location's definitions, as Dagster names them.
_REPOSITORY = RemoteRepositoryOrigin(
    ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name=CODE), LOCATION), SINGLETON_REPOSITORY_NAME
)


class RunStorage(SqliteRunStorage):
    """The runs below DAGSTER_HOME."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine = engine(conn_string)
        super().__init__(conn_string, inst_data)

    @classmethod
    def config_type(cls) -> Any:
        """`home`: DAGSTER_HOME."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> RunStorage:
        """The runs at the place that Dagster's own would take."""
        return cls.from_local(str(Path(config_value["home"]) / "history"), inst_data=inst_data)

    @contextmanager
    def connect(self) -> Iterator[db.Connection]:
        """A connection in a transaction, which ends with the block."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def add_run(self, dagster_run: dg.DagsterRun) -> dg.DagsterRun:
        """Store a run. One that a command executes becomes one of the code location's: the UI's start page shows no other."""
        if TAG in dagster_run.tags and dagster_run.remote_job_origin is None:
            dagster_run = dagster_run._replace(remote_job_origin=RemoteJobOrigin(_REPOSITORY, dagster_run.job_name))
        return super().add_run(dagster_run)

    def dispose(self) -> None:
        """Close the file."""
        self._engine.dispose()
