"""Dagster's SQLite storage of schedules and sensors with connections that stay open, and evaluations of automation conditions that are compressed.

An evaluation names the partitions at every node of its condition: 180 kB of text for a table of days, most of it repeated from node to node. Every
update of a table leaves several that request nothing; the latest say why.

Not here: for how long evaluations are kept (history.py). `dagster.yaml` names this class; the file is that of Dagster's own, whose evaluations of
before this class still reads.
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.definitions.declarative_automation.serialized_objects import AutomationConditionEvaluationWithRunIds
from dagster._core.storage.schedules.schema import AssetDaemonAssetEvaluationsTable
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._serdes import ConfigurableClassData

from orchestration.sqlite import engine

#: Evaluations of an asset that are kept though they requested nothing.
_IDLE = 3
#: How Dagster writes the class of an evaluation.
_EVALUATION = '{"__class__": "AssetConditionEvaluationWithRunIds"'


def _packed(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    """Parameters of a statement with their evaluations compressed."""
    return tuple(
        zlib.compress(value.encode(), 9) if isinstance(value, str) and value.startswith(_EVALUATION) else value for value in parameters
    )


def _unpacked(_cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its evaluations as text: a `sqlite3.Connection.row_factory`."""
    return tuple(zlib.decompress(value).decode() if isinstance(value, bytes) else value for value in row)


class ScheduleStorage(SqliteScheduleStorage):
    """Ticks and evaluations below DAGSTER_HOME."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine = engine(conn_string)

        @db.event.listens_for(self._engine, "connect")
        def _unpack(connection: Any, record: Any) -> None:
            connection.row_factory = _unpacked

        @db.event.listens_for(self._engine, "before_cursor_execute", retval=True)
        def _pack(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
            return statement, [_packed(row) for row in parameters] if isinstance(parameters, list) else _packed(parameters)

        super().__init__(conn_string, inst_data)

    @classmethod
    def config_type(cls) -> Any:
        """`home`: DAGSTER_HOME."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> ScheduleStorage:
        """The storage at the place that Dagster's own would take."""
        made: Any = cls.from_local(str(Path(config_value["home"]) / "schedules"), inst_data=inst_data)
        return made

    def add_auto_materialize_asset_evaluations(
        self, evaluation_id: int, asset_evaluations: Sequence[AutomationConditionEvaluationWithRunIds[Any]]
    ) -> None:
        """Store the evaluations of a tick. Of those of an asset that requested nothing, the latest stay."""
        super().add_auto_materialize_asset_evaluations(evaluation_id, asset_evaluations)
        stored = AssetDaemonAssetEvaluationsTable.c
        with self.connect() as connection:
            for key in {one.key.to_db_string() for one in asset_evaluations}:
                idle = (stored.asset_key == key) & (stored.num_requested == 0)
                latest = db.select(stored.id).where(idle).order_by(stored.evaluation_id.desc()).limit(_IDLE)
                connection.execute(AssetDaemonAssetEvaluationsTable.delete().where(idle & stored.id.not_in(latest)))

    @contextmanager
    def connect(self) -> Iterator[db.Connection]:
        """A connection in a transaction, which ends with the block."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def dispose(self) -> None:
        """Close the file."""
        self._engine.dispose()
