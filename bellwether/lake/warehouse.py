"""The warehouse: one DuckDB file over the lake, built beside and renamed over, so that readers never meet a writer.

Big tables are views over exactly the files that their manifests named; marts hold their rows; `meta` says what was published.
"""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import duckdb
import polars as pl

from bellwether.errors import ConfigError, LakeError
from bellwether.lake import confine, duck, meta, s3
from bellwether.lake.duck import identifier, literal
from bellwether.lake.lake import Lake
from bellwether.lake.manifest import Manifest
from bellwether.lake.sql import sql_text
from bellwether.lake.storage import TEMPORARY, writing
from bellwether.tables import TABLES, Table

#: Name of the warehouse's database on a connection.
DATABASE = "warehouse"
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Published:
    """One publication.

    Parameters
    ----------
    path: the file.
    tables, partitions, rows: what it shows; `bytes` is its own size.
    known_at: the latest `known_at` in it; None when it has no rows.
    outdated: partitions left out because other rules than the table's made them, as `table partition`.
    damaged: partitions left out because their file is missing or not as it was written, with the reason, as `table partition` -> reason.
    """

    path: Path
    tables: int
    partitions: int
    rows: int
    bytes: int
    known_at: datetime | None
    outdated: tuple[str, ...]
    damaged: Mapping[str, str]


def publish(
    lake: Lake,
    path: Path | str,
    *,
    tables: Iterable[Table] = tuple(TABLES.values()),
    self_contained: bool = False,
    lock_timeout: float = 60.0,
) -> Published:
    """Build the warehouse from the manifests of this moment and put it in the place of `path`, whole.

    self_contained: hold the rows of every table, so that the file can be moved and shared; otherwise big tables are views over the lake's files.
    Publishers wait for one another, for `lock_timeout` seconds at most. Whoever has the old file open keeps reading it.
    A file of the lake that the one before did not show is compared with its checksum; a partition whose file is missing or damaged is left out by
    name. Raises `LakeError` when the lock is not free in time, or the file cannot be written; what was published before then stays.
    """
    path = Path(path).absolute()
    with writing(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _only_publisher(path, lock_timeout):
        _remove_drafts(path)
        verified = _shown(path)
        seen = [_see(lake, replace(table, mart=True) if self_contained else table, verified) for table in tables]
        draft = path.with_name(f"{path.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            _build(lake, seen, draft)
            with writing(str(path)):
                size = _replace(draft, path)
        finally:
            _remove_drafts(path)
    known = [manifest.known_at for one in seen for manifest in one.slice.manifests if manifest.known_at]
    return Published(
        path=path,
        tables=len(seen),
        partitions=sum(len(one.slice.files) for one in seen),
        rows=sum(one.slice.rows for one in seen),
        bytes=size,
        known_at=max(known, default=None),
        outdated=tuple(_named(manifest) for one in seen for manifest in one.outdated),
        damaged={_named(manifest): reason for one in seen for manifest, reason in one.damaged},
    )


@contextmanager
def connect(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to a published warehouse, closed at the end, with times shown in UTC.

    It sees the file that was published when it was opened. Raises `LakeError` when there is none or it is no warehouse.
    """
    path = Path(path).absolute()
    if not path.is_file():
        raise LakeError(f"opening the warehouse: there is no file {path}; publish it first, for instance with `make demo`")
    # Attached to a connection of its own: DuckDB would hand out an older file of the same name that this process has open.
    with duck.connect() as connection:
        try:
            connection.execute(f"ATTACH {literal(str(path))} AS {DATABASE} (READ_ONLY)")
            connection.execute(f"USE {DATABASE}")
            remote = any(duck.is_s3(file) for (file,) in connection.execute(sql_text("meta/files")).fetchall())
        except duckdb.Error as error:
            raise LakeError(f"opening the warehouse {path}: {error}; publish it again") from error
        if remote and duck.httpfs():
            duck.allow_s3(connection, s3.resolve({}))
        yield connection


def query(path: Path | str, sql: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """The rows of one query on a published warehouse; `$name` parameters are bound. It reads the warehouse and its lake, and writes nothing.

    Raises `LakeError` as `connect` does, `ConfigError` when DuckDB does not accept the query, or when it would do more than read.
    """
    with connect(path) as connection:
        try:
            confine.require_reading(connection, sql)
            confine.confine(connection, [file for (file,) in connection.execute(sql_text("meta/files")).fetchall()])
            relation = connection.sql(sql, params=dict(params) if params else None)
            return relation.pl() if relation is not None else pl.DataFrame()
        except duckdb.IOException as error:
            raise LakeError(
                f"querying the warehouse {path}: {error}. It shows files of the lake by their places; publish it again after a move: `bellwether warehouse`"
            ) from error
        except duckdb.Error as error:
            raise ConfigError(f"querying the warehouse {path}: {error}") from error


def named_files(path: Path | str) -> frozenset[str]:
    """Locations of the lake's files that a published warehouse covers, including damaged ones that it leaves out; empty without a warehouse."""
    if not Path(path).is_file():
        return frozenset()
    with connect(path) as connection:
        return frozenset(file for (file,) in connection.execute(sql_text("meta/files")).fetchall())


def current_files(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values())) -> frozenset[str]:
    """Locations of the lake's files that a warehouse published now would show."""
    return frozenset(
        lake.storage.location(manifest.file)
        for table in tables
        for manifest in lake.manifests(table).values()
        if manifest.version == table.version
    )


def _named(manifest: Manifest) -> str:
    return f"{manifest.table} {'/'.join(manifest.partition)}".rstrip()


def _shown(path: Path) -> frozenset[str]:
    """Files of the lake that the warehouse shows which is to be replaced: they were verified; none where it cannot be read."""
    try:
        return named_files(path)
    except LakeError:
        return frozenset()


def _see(lake: Lake, table: Table, verified: frozenset[str]) -> meta.Seen:
    manifests = lake.manifests(table)
    outdated = tuple(manifest for manifest in manifests.values() if manifest.version != table.version)
    current = {partition: manifest for partition, manifest in manifests.items() if manifest.version == table.version}
    damaged = {}
    for partition, manifest in current.items():
        try:
            if lake.storage.location(manifest.file) not in verified:
                lake.verify(manifest)
            lake.slice_of(table, {partition: manifest}).check()
        except LakeError as error:
            damaged[partition] = str(error)
    rows = lake.slice_of(table, {partition: manifest for partition, manifest in current.items() if partition not in damaged})
    return meta.Seen(rows, outdated, tuple((current[partition], reason) for partition, reason in damaged.items()))


def _build(lake: Lake, seen: list[meta.Seen], draft: Path) -> None:
    try:
        with duck.connect(draft) as connection:
            if any(duck.is_s3(file) for one in seen for file in one.slice.files):
                duck.allow_s3(connection, lake.storage.reader_options)
            connection.execute("BEGIN")
            for schema in sorted({one.table.group for one in seen} | {"meta"}):
                connection.execute(f"CREATE SCHEMA {identifier(schema)}")
            for one in seen:
                _create(connection, one.table, duck.select(one.table, one.slice.files))
            for table, rows in meta.rows(lake, seen).items():
                connection.register("rows", table.validate(rows).to_arrow())
                _create(connection, table, "SELECT * FROM rows")
                connection.unregister("rows")
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise LakeError(
            f"building the warehouse {draft}: {error}. What was published before stays; mend the cause and publish again"
        ) from error


def _create(connection: duckdb.DuckDBPyConnection, table: Table, select: str) -> None:
    """Create the view or table with its comments: one for the row, one for each column, which ends with its unit."""
    name = f"{identifier(table.group)}.{identifier(table.short_name)}"
    kind = "TABLE" if table.mart else "VIEW"
    comments = [f"COMMENT ON {kind} {name} IS {literal(table.row)}"]
    for column in table.columns:
        text = f"{column.description} [{column.unit}]" if column.unit else column.description
        comments.append(f"COMMENT ON COLUMN {name}.{identifier(column.name)} IS {literal(text)}")
    connection.execute(f"CREATE {kind} {name} AS {select}")
    connection.execute("; ".join(comments))


def _replace(draft: Path, path: Path) -> int:
    """Rename the finished draft over `path`, durably; a log that another tool left beside the old file must not meet the new one."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    size = draft.stat().st_size
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    os.replace(draft, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def _remove_drafts(path: Path) -> None:
    """Delete what dead publishers left; only the holder of the lock may."""
    for draft in path.parent.glob(f"{glob.escape(path.name)}{TEMPORARY}*"):
        draft.unlink(missing_ok=True)


@contextmanager
def _only_publisher(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of the publishers of `path`; the system frees it when a publisher dies."""
    with writing(str(path)):
        lock = path.with_name(f"{path.name}.lock").open("w")
    with lock:
        deadline = time.monotonic() + timeout
        while not _locked(lock):
            if time.monotonic() > deadline:
                raise LakeError(f"publishing {path}: others have been publishing for {timeout:g} s; wait for them, or end what hangs")
            time.sleep(_POLL_SECONDS)
        yield


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
