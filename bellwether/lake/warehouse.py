"""The warehouse: one DuckDB file over the lake, built beside and renamed over, so that readers never meet a writer.

Big tables are views over exactly the files that their manifests named; marts hold their rows; `meta` says what was published.
"""

from __future__ import annotations

import glob
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import ConfigError, LakeError
from bellwether.files import sync, try_lock
from bellwether.lake import build, confine, duck, s3
from bellwether.lake.duck import literal
from bellwether.lake.lake import Lake
from bellwether.lake.manifest import FILE_NAME
from bellwether.lake.renewing import renew
from bellwether.lake.sql import sql_text
from bellwether.lake.storage import TEMPORARY, writing
from bellwether.tables import TABLES, Table

#: Name of the warehouse's database on a connection.
DATABASE = "warehouse"
#: What an error says of a file that no longer serves.
PUBLISH_AGAIN = "publish it again: `bellwether warehouse`"
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Published:
    """One publication.

    Attributes:
        path: the file.
        tables, partitions, rows: what it shows; `bytes` is its own size.
        known_at: the latest `known_at` in it; None when it has no rows.
        complete: whether every partition was looked at, not only the tables that were written since the last publication.
        outdated: partitions left out because other rules than the table's made them, as `table partition`.
        damaged: partitions left out because their file is missing or not as it was written, with the reason, as `table partition` -> reason.
    """

    path: Path
    tables: int
    partitions: int
    rows: int
    bytes: int
    known_at: datetime | None
    complete: bool
    outdated: tuple[str, ...]
    damaged: Mapping[str, str]


def publish(
    lake: Lake,
    path: Path | str,
    *,
    tables: Iterable[Table] = tuple(TABLES.values()),
    self_contained: bool = False,
    complete_every: timedelta = timedelta(0),
    lock_timeout: float = 60.0,
) -> Published:
    """Put a warehouse of the lake as it is now in the place of `path`, whole.

    self_contained: hold the rows of every table, so that the file can be moved and shared; otherwise big tables are views over the lake's files.
    complete_every: age of the last publication that looked at every partition from which this one does; a younger one is copied, and
    brought up to date in the tables that were written since.
    Publishers wait for one another, for `lock_timeout` seconds at most. Whoever has the old file open keeps reading it.
    A file of the lake that the one before did not show is compared with its checksum; a partition whose manifest or file is missing or damaged is
    left out by name; one of an older version is renewed where it can be. Raises `LakeError` when the lock is not free in time, or the file
    cannot be written; what was published before then stays.
    """
    tables = tuple(tables)
    renew(lake, tables)
    path, chosen = Path(path).absolute(), [replace(table, mart=True) if self_contained else table for table in tables]
    with writing(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _only_publisher(path, lock_timeout):
        _remove_drafts(path)
        draft = path.with_name(f"{path.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            done = build.build(lake, chosen, path, draft, complete_every)
            with writing(str(path)):
                size = _replace(draft, path, done.published_at)
        finally:
            _remove_drafts(path)
    return Published(path, done.tables, done.partitions, done.rows, size, done.known_at, done.complete, done.outdated, done.damaged)


@contextmanager
def connect(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to a published warehouse, closed at the end, with times shown in UTC.

    It shows what was published when it was opened. Raises `LakeError` if there is no file, if the file is no warehouse, or if it is a copy: that would
    show the lake it was copied from.
    """
    with _opened(path) as connection:
        _require_own_lake(connection, Path(path).absolute())
        yield connection


@contextmanager
def _opened(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """See `connect`; also of a copy."""
    path = Path(path).absolute()
    if not path.is_file():
        raise LakeError(
            f"opening the warehouse: there is no file {path}; publish it: `bellwether warehouse`, or make a first one: `make demo`"
        )
    # Attached to a connection of its own: DuckDB would hand out an older file of the same name that this process has open.
    with duck.connect() as connection:
        try:
            connection.execute(f"ATTACH {literal(str(path))} AS {DATABASE} (READ_ONLY)")
            connection.execute(f"USE {DATABASE}")
            remote = any(duck.is_s3(file) for (file,) in connection.execute(sql_text("meta/files"), {"tables": None}).fetchall())
        except duckdb.Error as error:
            raise LakeError(f"opening the warehouse {path}: {error}; {PUBLISH_AGAIN}") from error
        if remote and duck.httpfs():
            duck.allow_s3(connection, s3.resolve({}))
        yield connection


def _require_own_lake(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise `LakeError` for a file that was copied together with its lake: another one lies where its own would, and its views read the original."""
    try:
        row = connection.execute("SELECT lake, place FROM meta.publication").fetchone()
    except duckdb.Error:
        return  # published by an older version, which did not note its place
    if row is None or "://" in row[0] or row[1] == str(path) or not os.path.isdir(row[0]):
        return
    beside = os.path.normpath(path.parent / os.path.relpath(row[0], os.path.dirname(row[1])))
    if os.path.isdir(beside) and not os.path.samefile(beside, row[0]):
        raise LakeError(f"opening the warehouse {path}: it is a copy, and shows the lake {row[0]} instead of {beside}; {PUBLISH_AGAIN}")


def query(path: Path | str, sql: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """The rows of one query on a published warehouse; `$name` parameters are bound. It reads the warehouse and its lake, and writes nothing.

    Raises `LakeError` as `connect` does, `ConfigError` when DuckDB does not accept the query, or when it would do more than read.
    """
    with connect(path) as connection:
        try:
            confine.require_reading(connection, sql)
            confine.require_values(connection, sql, params or {})
            confine.confine(connection, [file for (file,) in connection.execute(sql_text("meta/files"), {"tables": None}).fetchall()])
            relation = connection.sql(sql, params=dict(params) if params else None)
            return relation.pl() if relation is not None else pl.DataFrame()
        except duckdb.IOException as error:
            raise LakeError(
                f"querying the warehouse {path}: {error}. It shows files of the lake by their places; publish it again after a move: `bellwether warehouse`"
            ) from error
        except duckdb.Error as error:
            raise ConfigError(f"querying the warehouse {path}: {error}") from error


def named_files(path: Path | str, tables: Iterable[Table] | None = None) -> frozenset[str]:
    """Locations of the lake's files that a published warehouse covers, of `tables` or of all, including damaged ones that it leaves out.

    Empty without a warehouse.
    """
    if not Path(path).is_file():
        return frozenset()
    with _opened(path) as connection:
        rows = connection.execute(
            sql_text("meta/files"), {"tables": None if tables is None else [table.sql_name for table in tables]}
        ).fetchall()
    return frozenset(file for (file,) in rows)


def published_files(path: Path | str, tables: Iterable[Table]) -> frozenset[str]:
    """As `named_files`; empty also when the warehouse cannot be read, or was published by another version of the code."""
    try:
        return named_files(path, tables)
    except LakeError:
        return frozenset()


def current_files(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values())) -> frozenset[str]:
    """Locations of the lake's files that a warehouse published now would cover."""
    found = set()
    for table in tables:
        names = [entry.name for entry in lake.storage.files(table.name) if entry.name.endswith(f"/{FILE_NAME}")]
        for name, text in lake.storage.read(names).items():
            try:
                manifest = lake.parse(table, name, text)
            except LakeError:
                found.add(lake.storage.location(name))
                continue
            if manifest.version == table.version:
                found.add(lake.storage.location(manifest.file))
    return frozenset(found)


def written_since(lake: Lake, path: Path | str, tables: Iterable[Table] = tuple(TABLES.values())) -> list[Table]:
    """The tables that may have been written since the warehouse was published; a look at the folders of the tables tells, whatever is in them.

    It sees what `Lake.write` does, not a file that is changed by hand: that is found by a complete publication.
    """
    state = build.state(Path(path).absolute())
    if state is None or state.lake != lake.uri:
        return list(tables)
    return [table for table in tables if (mark := lake.storage.mark(table.name)) is None or mark != state.marks.get(table.name)]


def _replace(draft: Path, path: Path, published_at: datetime) -> int:
    """Rename the finished draft over `path`, durably; a log that another tool left beside the old file must not meet the new one."""
    build.date(draft, published_at)
    sync(draft)
    size = draft.stat().st_size
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    os.replace(draft, path)
    sync(path.parent)
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
        while not try_lock(lock):
            if time.monotonic() > deadline:
                raise LakeError(f"publishing {path}: others have been publishing for {timeout:g} s; wait for them, or end what hangs")
            time.sleep(_POLL_SECONDS)
        yield
