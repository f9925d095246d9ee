"""The warehouse: one DuckDB file over the lake, built under another name and published as a whole, so that readers never meet a writer.

Big tables are views over exactly the files that their manifests named; marts contain their rows; `meta` describes the publication.
A place is a local path or an `s3://` URL (`bellwether.lake.publications`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether import places
from bellwether.errors import ConfigError, LakeError
from bellwether.lake import build, duckdb_connection, query_access
from bellwether.lake.duckdb_connection import literal
from bellwether.lake.lake import Lake
from bellwether.lake.publications import Place, place_of
from bellwether.lake.sql import sql_text
from bellwether.lake.storage import writing
from bellwether.lake.upgrades import renew
from bellwether.tables import TABLES, Table

#: Name of the warehouse's database on a connection.
DATABASE = "warehouse"
#: What an error says of a file that no longer serves.
PUBLISH_AGAIN = "publish it again: `bellwether warehouse`"
#: Most bytes of the files of a query's tables for which whole files are fetched from a store, with one request each.
_WHOLE_FILES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Published:
    """One publication.

    Attributes:
        path: the file, or the URL of the store.
        tables, partitions, rows: what it shows; `bytes` is its own size.
        known_at: the latest `known_at` in it; None when it has no rows.
        complete: whether every partition was looked at, not only the tables that were written since the last publication.
        outdated: partitions left out because other rules than the table's made them, as `table partition`.
        damaged: partitions left out because their file is missing or not as it was written, with the reason, as `table partition` -> reason.
    """

    path: Path | str
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
    """Publish a warehouse of the lake at `path`, a local path or an `s3://` URL.

    self_contained: store the rows of every table, so that the file can be moved and shared; otherwise big tables are views over the lake's files.
    complete_every: age of the last publication that looked at every partition from which this one does; a younger one is copied, and
    updated in the tables that were written since.
    Publishers wait for one another, for `lock_timeout` seconds at most. Open readers keep the previous file.
    A file of the lake that the previous publication did not show is compared with its checksum; a partition whose manifest or file is missing or
    damaged is left out by name; one of an older version is renewed where possible. Raises `LakeError` when the lock is not free in time, or the file
    cannot be written; the previous publication then stays.
    """
    tables = tuple(tables)
    renew(lake, tables)
    place, chosen = place_of(path), [replace(table, mart=True) if self_contained else table for table in tables]
    with place.only_publisher(lock_timeout):
        try:
            done, size = _publish(lake, place, chosen, complete_every, lock_timeout)
        finally:
            place.discard()
    where = place.name if "://" in place.name else Path(place.name)
    return Published(where, done.tables, done.partitions, done.rows, size, done.known_at, done.complete, done.outdated, done.damaged)


def _publish(lake: Lake, place: Place, tables: list[Table], complete_every: timedelta, patience: float) -> tuple[build.Built, int]:
    """Build and publish, for `patience` seconds again if another publisher without the lock was faster; the result and the file's bytes."""
    deadline = time.monotonic() + patience
    while True:
        draft = place.draft()
        with place.former() as former:
            done = build.build(lake, tables, former, draft, place=place.name, complete_every=complete_every)
        with writing(place.name):
            size = draft.stat().st_size
        if place.replace(draft, done):
            return done, size
        if time.monotonic() > deadline:
            raise LakeError(
                f"publishing {place.name}: other publishers were faster for {patience:g} s; set BELLWETHER_POSTGRES on every machine"
            )


@contextmanager
def connect(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to a published warehouse, closed at the end, with times shown in UTC.

    It shows the publication that was the latest when it was opened. Raises `LakeError` if nothing is published, the file is no warehouse, or the
    file is a copy: that would show the lake it was copied from.
    """
    with _opened(path) as connection:
        _require_own_lake(connection, path)
        yield connection


@contextmanager
def _opened(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """See `connect`; also of a copy."""
    # Attached to a connection of its own: DuckDB would hand out an older file of the same name that this process has open.
    with place_of(path).opened() as file, duckdb_connection.connect() as connection:
        try:
            connection.execute(f"ATTACH {literal(str(file))} AS {DATABASE} (READ_ONLY)")
            connection.execute(f"USE {DATABASE}")
            remote = any(
                duckdb_connection.is_s3(file) for (file,) in connection.execute(sql_text("meta/files"), {"tables": None}).fetchall()
            )
        except duckdb.Error as error:
            raise LakeError(f"opening the warehouse {file}: {error}; {PUBLISH_AGAIN}") from error
        if remote and duckdb_connection.httpfs():
            duckdb_connection.allow_s3(connection, places.resolve({}))
        yield connection


def _require_own_lake(connection: duckdb.DuckDBPyConnection, place: Path | str) -> None:
    """Raise `LakeError` for a file that was copied together with its lake: another one lies where its own would, and its views read the original."""
    try:
        row = connection.execute("SELECT lake, place FROM meta.publication").fetchone()
    except duckdb.Error:
        return  # published by an older version, which did not note its place
    if row is None or "://" in row[0] or "://" in row[1] or not os.path.isdir(row[0]):
        return
    path = Path(place).absolute()
    if row[1] == str(path):
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
            query_access.require_reading(connection, sql)
            query_access.require_values(connection, sql, params or {})
            files = [file for (file,) in connection.execute(sql_text("meta/files"), {"tables": None}).fetchall()]
            if any(map(duckdb_connection.is_s3, files)) and duckdb_connection.httpfs():
                _choose_requests(connection, sql)
            query_access.confine(connection, files)
            relation = connection.sql(sql, params=dict(params) if params else None)
            return relation.pl() if relation is not None else pl.DataFrame()
        except duckdb.IOException as error:
            raise LakeError(
                f"querying the warehouse {path}: {error}. It shows files of the lake by their places; publish it again after a move: `bellwether warehouse`"
            ) from error
        except duckdb.Error as error:
            raise ConfigError(f"querying the warehouse {path}: {error}") from error


def _choose_requests(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Fetch small files of a store whole, with one request each, instead of asking for their size, footer and columns. Views of views are not looked into."""
    described = (
        "SELECT table_name, sum(bytes) FROM meta.tables JOIN meta.partitions USING (table_name) WHERE stored_as = 'view' GROUP BY ALL"
    )
    sizes = [size for name, size in connection.execute(described).fetchall() if name in sql]
    if sizes and sum(sizes) <= _WHOLE_FILES and "views." not in sql:
        connection.execute("SET force_download = true")


def modified(path: Path | str) -> int:
    """Time of the latest publication in nanoseconds since 1970; 0 when nothing is published. Raises `LakeError` for a store that cannot be read."""
    return place_of(path).modified()


def named_files(path: Path | str, tables: Iterable[Table] | None = None) -> frozenset[str]:
    """Locations of the lake's files that a published warehouse covers, of `tables` or of all, including damaged ones that it leaves out.

    Empty without a warehouse.
    """
    if not modified(path):
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
        for name, manifest in lake.entries(table):
            if isinstance(manifest, LakeError):
                found.add(lake.storage.location(name))
            elif manifest.version == table.version:
                found.add(lake.storage.location(manifest.file))
    return frozenset(found)


def written_since(lake: Lake, path: Path | str, tables: Iterable[Table] = tuple(TABLES.values())) -> list[Table]:
    """The tables that may have been written since the warehouse was published, by the marks of the lake's tables.

    It sees what `Lake.write` does, not a file that is changed by hand: that is found by a complete publication.
    """
    state = place_of(path).state()
    if state is None or state.lake != lake.uri:
        return list(tables)
    tables = list(tables)
    marks = lake.marks(tables)
    return [table for table in tables if marks[table.name] is None or marks[table.name] != state.marks.get(table.name)]
