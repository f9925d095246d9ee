"""The events of finished runs, small: a run's file is compressed as a whole, and what the index keeps of it row by row.

A run over one day of markets leaves 0.9 MB in a file of its own and as much in the index: text that hardly differs from run to run.
`<run>.db.xz` is the run's SQLite file, unpacked by `xz -d`. In the index, bytes instead of text are an event, compressed.

Not here: which runs are finished and for how long they are kept (history.py).
"""

from __future__ import annotations

import lzma
import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from bellwether.files import atomic_file
from orchestration.event_dictionary import DICTIONARY

SUFFIX = ".xz"
#: First byte of a compressed event: the version of the dictionary.
_VERSION = b"\x01"
#: Deflate without header and checksum, which would be a tenth of a small event.
_RAW = -15
#: Settings of xz that suit text.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 1, "lc": 4, "pb": 0}]
_EVENT = '{"__class__": "EventLogEntry"'
_CHECKS = ("ASSET_CHECK_EVALUATION_PLANNED", "ASSET_CHECK_EVALUATION")
#: Bytes per page of a compressed run: SQLite's own 4,096 split most events, which then compress worse by 7 %.
_PAGE = 16_384
#: Plans that came true, of a run that succeeded, and older ones for the same asset and partition.
_FULFILLED = """
DELETE FROM event_logs WHERE id < (SELECT max(id) FROM event_logs) AND id IN (
    SELECT earlier.id FROM event_logs AS planned JOIN event_logs AS earlier ON earlier.asset_key = planned.asset_key
        AND earlier.dagster_event_type = planned.dagster_event_type AND earlier.partition IS planned.partition AND earlier.id <= planned.id
    WHERE planned.run_id = :run AND planned.dagster_event_type = 'ASSET_MATERIALIZATION_PLANNED'
        AND EXISTS (SELECT 1 FROM event_logs WHERE run_id = :run AND dagster_event_type = 'PIPELINE_SUCCESS')
        AND EXISTS (SELECT 1 FROM event_logs AS made WHERE made.run_id = :run AND made.dagster_event_type = 'ASSET_MATERIALIZATION'
            AND made.asset_key = planned.asset_key AND made.partition IS planned.partition)
)
"""


def pack(event: str) -> bytes:
    """An event's JSON, compressed."""
    stream = zlib.compressobj(9, wbits=_RAW, zdict=DICTIONARY)
    return _VERSION + stream.compress(event.encode()) + stream.flush()


def unpack(stored: bytes) -> str:
    """What `pack` was given."""
    stream = zlib.decompressobj(wbits=_RAW, zdict=DICTIONARY)
    return (stream.decompress(stored[1:]) + stream.flush()).decode()


def unpacked(_cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its events as text: a `sqlite3.Connection.row_factory`."""
    return tuple(unpack(value) if isinstance(value, bytes) else value for value in row)


def packed(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    """Parameters of a statement with their events compressed."""
    return tuple(pack(value) if isinstance(value, str) and value.startswith(_EVENT) else value for value in parameters)


def archived(file: Path) -> Path:
    """Where the run's file is when it is compressed."""
    return file.with_name(file.name + SUFFIX)


def archive(file: Path) -> None:
    """Put the compressed file of a run in the place of its file, without the indexes, which memory does not need. Nothing happens without a file."""
    if not file.exists():
        return
    with closing(sqlite3.connect(":memory:")) as image:
        image.execute(f"PRAGMA page_size = {_PAGE}")
        image.execute("ATTACH ? AS stored", (str(file),))
        for name, definition in image.execute("SELECT name, sql FROM stored.sqlite_master WHERE type = 'table'").fetchall():
            image.execute(definition)
            image.execute(f'INSERT INTO "{name}" SELECT * FROM stored."{name}"')  # noqa: S608
        image.commit()
        content = lzma.compress(image.serialize(), filters=_FILTERS)
    with atomic_file(archived(file)) as draft, draft.open("wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())
    remove(file)


def restore(file: Path) -> None:
    """Put the run's file back in its place, to be written to."""
    with atomic_file(file) as draft, closing(sqlite3.connect(draft)) as target, closing(opened(file)) as image:
        image.backup(target)
        target.execute("PRAGMA journal_mode = WAL")
    archived(file).unlink(missing_ok=True)


def opened(file: Path) -> sqlite3.Connection:
    """A connection to a copy of the run's compressed file in memory. Raises `FileNotFoundError` when there is none."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.deserialize(lzma.decompress(archived(file).read_bytes()))
    return connection


def remove(file: Path) -> None:
    """Delete the run's file with SQLite's two beside it."""
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def shrink(index: sqlite3.Connection, run_id: str) -> None:
    """Delete what the index has of an ended run and nobody reads, and compress what was stored before events were.

    Events of checks have a table of their own beside their copies. In that table, a check that was planned for a partition and evaluated for
    the asset as a whole has two rows, of which the first stays planned. Dagster asks for the last plan of a partition to find what is under
    way or has failed; one that came true says nothing that the materialization does not.
    """
    marks = ", ".join("?" * len(_CHECKS))
    index.execute(
        f"DELETE FROM event_logs WHERE run_id = ? AND dagster_event_type IN ({marks}) AND id < (SELECT max(id) FROM event_logs)",  # noqa: S608
        (run_id, *_CHECKS),
    )
    index.execute(
        "DELETE FROM asset_check_executions AS planned WHERE run_id = ? AND execution_status = 'PLANNED' AND EXISTS ("
        "SELECT 1 FROM asset_check_executions AS done WHERE done.run_id = planned.run_id AND done.asset_key = planned.asset_key "
        "AND done.check_name = planned.check_name AND done.execution_status != 'PLANNED')",
        (run_id,),
    )
    index.execute(_FULFILLED, {"run": run_id})
    for table, column in (("event_logs", "event"), ("asset_check_executions", "evaluation_event")):
        found = index.execute(f"SELECT id, {column} FROM {table} WHERE run_id = ? AND typeof({column}) = 'text'", (run_id,))  # noqa: S608
        rows = [(pack(event), number) for number, event in found.fetchall()]
        index.executemany(f"UPDATE {table} SET {column} = ? WHERE id = ?", rows)  # noqa: S608


def forget(index: sqlite3.Connection, run_ids: list[str]) -> None:
    """Delete what the index has of runs, but for the latest materialization and check of every partition: what was made when stays known."""
    index.execute("CREATE TEMP TABLE IF NOT EXISTS forgotten (run_id TEXT PRIMARY KEY)")
    index.execute("DELETE FROM forgotten")
    index.executemany("INSERT INTO forgotten VALUES (?)", [(run_id,) for run_id in run_ids])
    of_runs = "run_id IN (SELECT run_id FROM forgotten)"
    index.execute(
        f"DELETE FROM event_logs WHERE {of_runs} AND id < (SELECT max(id) FROM event_logs) AND id NOT IN ("  # noqa: S608
        "SELECT max(id) FROM event_logs WHERE dagster_event_type IN ('ASSET_MATERIALIZATION', 'ASSET_OBSERVATION') "
        "GROUP BY dagster_event_type, asset_key, partition)"
    )
    index.execute("DELETE FROM asset_event_tags WHERE event_id NOT IN (SELECT id FROM event_logs)")
    index.execute(
        f"DELETE FROM asset_check_executions WHERE {of_runs} AND id NOT IN ("  # noqa: S608
        "SELECT max(id) FROM asset_check_executions GROUP BY asset_key, check_name, partition)"
    )


def compact(index: sqlite3.Connection, *, always: bool) -> None:
    """Rewrite the index without gaps, if it has grown by an eighth since, or `always`. Raises `sqlite3.OperationalError` when it is in use."""
    ((pages,),) = index.execute("PRAGMA page_count")
    ((compacted,),) = index.execute("PRAGMA user_version")
    if always or pages > compacted + compacted // 8:
        index.execute("VACUUM")
        ((pages,),) = index.execute("PRAGMA page_count")
        index.execute(f"PRAGMA user_version = {pages}")
