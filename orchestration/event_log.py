"""Dagster's SQLite event log with connections that stay open, events that are stored in batches, and finished runs that are compressed.

Opening and closing a file for each statement costs more than the statement: the last connection to close folds SQLite's write-ahead log back
into the file. A run over a month of days has a thousand events of partitions; each batch of them is one transaction.

Not here: what is logged, or when a run is compressed (history.py). `dagster.yaml` names this class; the files are those of Dagster's own, and
either reads them until the run is compressed.
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS, EVENT_TYPE_TO_PIPELINE_RUN_STATUS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
    SqliteEventLogStorageWatchdog,
)
from dagster._serdes import ConfigurableClassData, serialize_value
from sqlalchemy.pool import StaticPool
from watchdog.events import FileSystemEvent
from watchdog.observers import Observer

from orchestration import event_archive, sqlite

#: Most events in one transaction; Dagster batches the events of partitions, which come many at a time.
BATCH = 1000
#: What the index need not repeat of an event of a check.
_BLANK = {"event": "", "step_key": None, "asset_key": None, "partition": None}
#: Files that are kept open: those of the runs used last, and the index.
_OPEN_FILES = 16


def batch_events() -> None:
    """Let this process, and those that it starts, store events in batches."""
    os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", str(BATCH))


def _engine(address: str) -> db.Engine:
    """An engine that hands out compressed events as text; the storage's lock says whose turn it is."""
    engine = sqlite.engine(address)

    @db.event.listens_for(engine, "connect")
    def _unpack(connection: Any, record: Any) -> None:
        connection.row_factory = event_archive.unpacked

    return engine


def _index_engine(address: str) -> db.Engine:
    """An engine that stores events compressed: what the index holds of a run stays when the run's file is compressed."""
    engine = _engine(address)

    @db.event.listens_for(engine, "before_cursor_execute", retval=True)
    def _pack(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        rows = [event_archive.packed(row) for row in parameters] if isinstance(parameters, list) else event_archive.packed(parameters)
        return statement, rows

    return engine


def _archive_engine(path: Path) -> db.Engine:
    """An engine on a compressed run, which is in memory and only read."""
    return db.create_engine("sqlite://", creator=lambda: event_archive.opened(path), poolclass=StaticPool)


class EventLog(SqliteEventLogStorage):
    """The event log below DAGSTER_HOME."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: OrderedDict[str, db.Engine] = OrderedDict()
        self._tables: set[str] = set()
        self._empty: bytes | None = None
        super().__init__(base_dir, inst_data)

    @classmethod
    def config_type(cls) -> Any:
        """`home`: DAGSTER_HOME."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> EventLog:
        """The log at the place that Dagster's own would take."""
        batch_events()
        return cls(str(Path(config_value["home"]) / "history" / "runs"), inst_data=inst_data)

    # --- connections -----------------------------------------------------------------------------------------------

    @contextmanager
    def _connect(self, shard: str) -> Iterator[db.Connection]:
        with self._db_lock:
            engine = self._opened(shard)
            if shard not in self._initialized_dbs:
                if not self._is_archived(shard):
                    self._prepare(shard, engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection

    def _prepare(self, shard: str, engine: db.Engine) -> None:
        """Make the tables of a file. Those of a new run are copied from the first one's: Dagster's migrations take half a second each time."""
        path = Path(self.path_for_shard(shard))
        is_new = not path.exists()
        if is_new and self._empty is not None:
            draft = path.with_suffix(f".{secrets.token_hex(4)}.tmp")
            with draft.open("wb") as file:
                file.write(self._empty)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(draft, path)
            draft.unlink()
            return
        self._initdb(engine)
        if is_new and shard != INDEX_SHARD_NAME:
            with engine.connect() as connection:
                self._empty = _sqlite(connection).serialize()

    def _opened(self, shard: str) -> db.Engine:
        """The engine of a file. A file that was removed (`dagster run wipe` in another process) is opened anew."""
        engine = self._engines.get(shard)
        if engine is not None:
            in_memory = engine.url.database is None
            if in_memory != self._is_archived(shard) or not (in_memory or os.path.exists(self.path_for_shard(shard))):
                self._close(shard)
                engine = None
        if engine is None:
            engine = self._engines[shard] = self._engine_of(shard)
        self._engines.move_to_end(shard)
        while len(self._engines) > _OPEN_FILES:
            self._close(next(iter(self._engines)))
        return engine

    def _engine_of(self, shard: str) -> db.Engine:
        if self._is_archived(shard):
            return _archive_engine(Path(self.path_for_shard(shard)))
        make = _index_engine if shard == INDEX_SHARD_NAME else _engine
        return make(self.conn_string_for_shard(shard))

    def _close(self, shard: str) -> None:
        engine = self._engines.pop(shard, None)
        if engine is not None:
            engine.dispose()
        self._initialized_dbs.discard(shard)

    def _close_all(self) -> None:
        with self._db_lock:
            for shard in list(self._engines):
                self._close(shard)

    def wipe(self) -> None:
        """Remove all events."""
        self._close_all()
        for path in Path(self._base_dir).glob(f"*.db{event_archive.SUFFIX}"):
            path.unlink(missing_ok=True)
        super().wipe()

    # --- finished runs ---------------------------------------------------------------------------------------------

    def archive(self, run_id: str) -> None:
        """Compress a finished run: its file, and what the index has of it. Readers see the same events as before."""
        with self._db_lock:
            self._close(run_id)
            event_archive.archive(Path(self.path_for_shard(run_id)))
        with self.index_connection() as connection:
            event_archive.shrink(_sqlite(connection), run_id)
        self._compact_index()

    def forget(self, run_ids: Sequence[str]) -> None:
        """Delete the events of runs, but for the latest materialization and check of every partition; then give free space back."""
        with self._db_lock:
            for run_id in run_ids:
                self._close(run_id)
                path = Path(self.path_for_shard(run_id))
                event_archive.remove(path)
                event_archive.archived(path).unlink(missing_ok=True)
        with self.index_connection() as connection:
            event_archive.forget(_sqlite(connection), list(run_ids))
        self._compact_index(always=True)

    def _compact_index(self, *, always: bool = False) -> None:
        """Give back what deleted rows have left, when the index has grown by an eighth since that was last done, unless another process is at it."""
        with self._db_lock, self._opened(INDEX_SHARD_NAME).connect() as connection, suppress(sqlite3.OperationalError):
            event_archive.compact(_sqlite(connection), always=always)

    def get_all_run_ids(self) -> Sequence[str]:
        """The runs that have events, compressed or not."""
        compressed = (path.name.partition(".")[0] for path in Path(self._base_dir).glob(f"*.db{event_archive.SUFFIX}"))
        return list(dict.fromkeys([*super().get_all_run_ids(), *compressed]))

    def delete_events(self, run_id: str) -> None:
        """Delete all events of a run."""
        self._restore(run_id)
        super().delete_events(run_id)
        with self._db_lock:
            self._close(run_id)
            event_archive.remove(Path(self.path_for_shard(run_id)))

    def store_event(self, event: EventLogEntry) -> None:
        """Store one event."""
        self._store([event])

    def is_archived(self, run_id: str) -> bool:
        """Whether the run is compressed."""
        return self._is_archived(run_id)

    def _is_archived(self, shard: str) -> bool:
        path = Path(self.path_for_shard(shard))
        return shard != INDEX_SHARD_NAME and not path.exists() and event_archive.archived(path).exists()

    def _restore(self, run_id: str) -> None:
        """Unpack a compressed run that is written to after all."""
        with self._db_lock:
            if self._is_archived(run_id):
                self._close(run_id)
                event_archive.restore(Path(self.path_for_shard(run_id)))

    def dispose(self) -> None:
        """Stop watching and close all files."""
        super().dispose()
        self._close_all()

    def watch(self, run_id: str, cursor: str | None, callback: Any) -> None:
        """Call `callback` with the events of a run from `cursor` on, as they are stored."""
        observer: Any = self._obs
        if observer is None:
            observer = self._obs = Observer()  # type: ignore[assignment]  # Dagster's own attribute has no type
            observer.start()
        watchdog = _Watchdog(self, run_id, callback, cursor)
        self._watchers[run_id][callback] = (watchdog, observer.schedule(watchdog, self._base_dir, recursive=True))

    # --- batches ---------------------------------------------------------------------------------------------------

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """What `store_event` does for each of `events`, in one transaction for a run's file and one for the index."""
        self._store(events)

    def _store(self, events: Sequence[EventLogEntry]) -> None:
        rows = [self._event_to_row(event) for event in events]
        by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            by_run[row["run_id"]].append(row)
        for run_id, own in by_run.items():
            self._restore(run_id)
            with self.run_connection(run_id) as connection:
                connection.execute(SqlEventLogStorageTable.insert(), own)
        kinds = (ASSET_EVENTS, ASSET_CHECK_EVENTS, EVENT_TYPE_TO_PIPELINE_RUN_STATUS)
        mirrored = [
            (event, row) for event, row in zip(events, rows, strict=True) if any(event.dagster_event_type in kind for kind in kinds)
        ]
        if not mirrored:
            return
        insert = SqlEventLogStorageTable.insert().returning(SqlEventLogStorageTable.c.id, sort_by_parameter_order=True)
        with self.index_transaction() as connection:
            numbers = connection.execute(insert, [_mirrored(event, row) for event, row in mirrored]).scalars().all()
            stored = {number: event for number, (event, _) in zip(numbers, mirrored, strict=True)}
            of_assets = {number: event for number, event in stored.items() if event.dagster_event_type in ASSET_EVENTS}
            self._store_asset_event_tags(connection, list(of_assets.values()), list(of_assets))
            # An asset's entry is that of its last event of each type: every one of them would overwrite the one before.
            last = {(event.dagster_event_type, event.get_dagster_event().asset_key): number for number, event in of_assets.items()}
            for number in sorted(last.values()):
                self._store_asset_event(connection, of_assets[number], number)
        for number, event in stored.items():
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, number)

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """Dagster's own writes the event out once for each partition of the run: seconds for a month of days."""
        planned = event.get_dagster_event().asset_check_planned_data
        row = {
            "asset_key": planned.asset_key.to_string(),
            "check_name": planned.check_name,
            "run_id": event.run_id,
            "execution_status": AssetCheckExecutionRecordStatus.PLANNED.value,
            "evaluation_event": serialize_value(event),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),
            "evaluation_event_storage_id": event_id,
        }
        partitions = planned.partitions_subset.get_partition_keys() if planned.partitions_subset else [None]
        with self.index_connection() as connection:
            connection.execute(AssetCheckExecutionsTable.insert(), [{**row, "partition": partition} for partition in partitions])

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Whether a partition exists. A run asks this dozens of times, and most of what Dagster's own costs is making the statement."""
        self._check_partitions_table()
        statement = "SELECT 1 FROM dynamic_partitions WHERE partitions_def_name = ? AND partition = ? LIMIT 1"
        with self.index_connection() as connection:
            return _sqlite(connection).execute(statement, (partitions_def_name, partition_key)).fetchone() is not None

    def has_table(self, table_name: str) -> bool:
        """Whether a table exists; one that does is not looked for again."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def _has_asset_key_col_on_connection(self, conn: db.Connection, column_name: str) -> bool:
        column = f"asset_keys.{column_name}"
        if column not in self._tables and super()._has_asset_key_col_on_connection(conn, column_name):
            self._tables.add(column)
        return column in self._tables


def _mirrored(event: EventLogEntry, row: dict[str, Any]) -> dict[str, Any]:
    """The index's copy of an event. Of one of a check only its number counts: its content is in the table of checks."""
    return {**row, **_BLANK} if event.dagster_event_type in ASSET_CHECK_EVENTS else row


def _sqlite(connection: db.Connection) -> sqlite3.Connection:
    opened: Any = connection.connection.driver_connection
    return opened


class _Watchdog(SqliteEventLogStorageWatchdog):
    """Also looks at the write-ahead log, which is what changes while files stay open."""

    @property
    def patterns(self) -> list[str]:
        """The files whose changes are looked at."""
        return [self._log_path, f"{self._log_path}-wal"]

    def on_modified(self, event: FileSystemEvent) -> None:
        """Hand out what is new."""
        self._process_log()
