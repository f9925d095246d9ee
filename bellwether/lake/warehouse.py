"""The warehouse: one DuckDB file built from the lake. Each publication replaces the whole file, and open readers keep the previous one.

Big tables are views over exactly the current files; marts contain their rows; `meta` describes the publication.
A place is a local path or an `s3://` URL (`bellwether.lake.publications`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from os.path import commonpath
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import ConfigError, LakeError
from bellwether.lake import build, duckdb_connection
from bellwether.lake.build import Publication
from bellwether.lake.duckdb_connection import file_pattern, identifier, literal
from bellwether.lake.lake import Lake
from bellwether.lake.publications import PUBLISH_AGAIN, open_place
from bellwether.lake.sql import sql_text
from bellwether.places import is_s3
from bellwether.tables import TABLES, Table

#: Name of the warehouse's database on a connection.
DATABASE = "warehouse"
#: Maximum total size, in bytes, of a query's tables for which whole files are downloaded from a store.
_WHOLE_FILES = 64 * 2**20
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s*\(\s*(ANALYZE|FORMAT)\b[^)]*\)|\s+ANALYZE\b)?", re.IGNORECASE)
#: DuckDB creates a temporary type for a PIVOT. Any other created object is in memory: the warehouse is attached read-only.
_READ_ONLY = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.CREATE})


def publish(
    lake: Lake,
    path: Path | str,
    *,
    tables: Iterable[Table] = tuple(TABLES.values()),
    self_contained: bool = False,
    lock_timeout: float = 60.0,
) -> Publication:
    """Publish a warehouse of the lake at `path`, a local path or an `s3://` URL.

    self_contained: store the rows of every table, so that the file can be moved and shared; otherwise big tables are views over the lake's files.
    Publishers of a local file wait for one another, for `lock_timeout` seconds at most; on a store, one that was outrun starts again for as long.
    Open readers keep the previous file.
    New files of the lake are verified against their checksums. Partitions of another version, and those with a missing or damaged file,
    are left out and reported. Raises `LakeError` if the lock is not free in time or the file cannot be written; the
    previous publication is then unchanged.
    """
    place, chosen = open_place(path), [replace(table, mart=True) if self_contained else table for table in tables]
    return place.publish(lambda draft: build.build(lake, chosen, draft, place=place.name), lock_timeout)


@contextmanager
def connect(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a read-only connection to a published warehouse until the end of the block, with times shown in UTC.

    It shows the latest publication at the time of opening. Raises `LakeError` if nothing is published, the file is not a warehouse, or it is a
    copy, which would show the lake it was copied from.
    """
    # A separate connection: DuckDB would reuse an older file of the same name that this process has open.
    with open_place(path).open_file() as file, duckdb_connection.connect() as connection:
        try:
            connection.execute(f"ATTACH {literal(str(file))} AS {DATABASE} (READ_ONLY)")
            connection.execute(f"USE {DATABASE}")
            remote = any(map(is_s3, _listed_files(connection)))
            _require_own_lake(connection, path)
        except duckdb.Error as error:
            raise LakeError(f"opening the warehouse {file}: {error}; {PUBLISH_AGAIN}") from error
        if remote and duckdb_connection.find_httpfs():
            duckdb_connection.allow_s3(connection)
        yield connection


def _require_own_lake(connection: duckdb.DuckDBPyConnection, place: Path | str) -> None:
    """Raise `LakeError` if the file was copied together with its lake, because its views would still read the original lake."""
    row = connection.execute("SELECT lake, place FROM meta.publication").fetchone()
    if row is None or "://" in row[0] or "://" in row[1] or not os.path.isdir(row[0]):
        return
    path = Path(place).absolute()
    if row[1] == str(path):
        return
    beside = os.path.normpath(path.parent / os.path.relpath(row[0], os.path.dirname(row[1])))
    if os.path.isdir(beside) and not os.path.samefile(beside, row[0]):
        raise LakeError(f"opening the warehouse {path}: it is a copy, and shows the lake {row[0]} instead of {beside}; {PUBLISH_AGAIN}")


def query(path: Path | str, sql: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Return the rows of one query on a published warehouse, which only reads. params: values of the `$name` parameters.

    Raises `LakeError` as `connect` does, `ConfigError` for invalid SQL and for SQL that does more than read.
    """
    with connect(path) as connection:
        try:
            _require_read_only(connection, sql)
            _require_parameters(connection, sql, params or {})
            files = _listed_files(connection)
            if any(map(is_s3, files)) and duckdb_connection.find_httpfs():
                _choose_requests(connection, sql)
            _restrict_access(connection, files)
            relation = connection.sql(sql, params=dict(params) if params else None)
            return _fetch(relation) if relation is not None else pl.DataFrame()
        except duckdb.IOException as error:
            raise LakeError(
                f"querying the warehouse {path}: {error}. Its views name files of the lake; publish it again after moving the lake: `bellwether warehouse`"
            ) from error
        except duckdb.Error as error:
            raise ConfigError(f"querying the warehouse {path}: {error}") from error
        except RuntimeError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise


def _fetch(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Compute the rows of a relation; intervals become text, because Polars has no such type."""
    intervals = [identifier(name) for name, dtype in zip(relation.columns, relation.types, strict=True) if dtype == "INTERVAL"]
    if intervals:
        relation = relation.project(f"* REPLACE ({', '.join(f'{name}::VARCHAR AS {name}' for name in intervals)})")
    # Ctrl-C interrupts `execute`, but not the conversion.
    return relation.execute().pl()


def _choose_requests(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Make DuckDB download files as a whole, with one request each, if the files that the query reads are small. Does nothing for queries on `views`."""
    described = (
        "SELECT table_name, sum(bytes) FROM meta.tables JOIN meta.partitions USING (table_name) WHERE stored_as = 'view' GROUP BY ALL"
    )
    sizes = [size for name, size in connection.execute(described).fetchall() if name in sql]
    if sizes and sum(sizes) <= _WHOLE_FILES and "views." not in sql:
        connection.execute("SET force_download = true")


def publication_time(path: Path | str) -> datetime | None:
    """Return the time of the latest publication, UTC; None if nothing is published. Raises `LakeError` for an unreadable store."""
    state = open_place(path).state()
    return state.published_at if state else None


def _listed_files(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [file for (file,) in connection.execute(sql_text("meta/files")).fetchall()]


def describe_unpublished(lake: Lake, path: Path | str, tables: Iterable[Table]) -> str:
    """Describe in one sentence which of `tables` have rows in the lake that the published warehouse lacks; empty without such rows, and for a
    warehouse of another lake. Tables that are written many times per hour do not count.
    """
    state = open_place(path).state()
    if state is None or state.lake != lake.uri:
        return ""
    late = [table.name for table in tables_written_since(lake, path, tables) if not table.often]
    return f"The warehouse of {state.published_at:%Y-%m-%d %H:%M} UTC lacks later rows of {', '.join(late)}." if late else ""


def tables_written_since(lake: Lake, path: Path | str, tables: Iterable[Table] = tuple(TABLES.values())) -> list[Table]:
    """Return the tables that were written since the warehouse was published: all of them if nothing of this lake is published."""
    state, heads = open_place(path).state(), lake.catalog.heads()
    # A restored or rebuilt catalog begins with lower numbers.
    if state is None or state.lake != lake.uri or max(heads.values(), default=0) < state.number:
        return list(tables)
    return [table for table in tables if heads.get(table.name, 0) > state.number]


def _require_read_only(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise `ConfigError` for SQL that does more than read one result. Invalid SQL raises `duckdb.Error`."""
    statements = connection.extract_statements(sql)
    results = [statement for statement in statements if statement.type != duckdb.StatementType.CREATE]
    if not statements or len(results) > 1:
        raise ConfigError(f"querying the warehouse: give one SELECT, not {len(results)} statements")
    for statement in statements:
        if statement.type == duckdb.StatementType.EXPLAIN and (begin := _EXPLAIN.match(statement.query)):
            _require_read_only(connection, statement.query[begin.end() :])
        elif statement.type not in _READ_ONLY:
            raise ConfigError(
                f"querying the warehouse with {statement.type.name}: it is read-only; use SELECT, or another DuckDB client for anything else"
            )


def _require_parameters(connection: duckdb.DuckDBPyConnection, sql: str, names: Collection[str]) -> None:
    """Raise `ConfigError` unless `names` are exactly the `$name` parameters in the SQL. Invalid SQL raises `duckdb.Error`."""
    wanted = {name for statement in connection.extract_statements(sql) for name in statement.named_parameters}
    if missing := sorted(wanted - set(names)):
        values = " ".join(f"--set {name}=VALUE" for name in missing)
        raise ConfigError(f"querying the warehouse: no value for {', '.join(f'${name}' for name in missing)}; give {values}")
    if unknown := sorted(set(names) - wanted):
        have = ", ".join(f"${name}" for name in sorted(wanted)) or "no parameter"
        raise ConfigError(f"querying the warehouse: the query does not use ${unknown[0]}; it has {have}")


def _restrict_access(connection: duckdb.DuckDBPyConnection, files: Iterable[str]) -> None:
    """Allow `connection` to read no files except below the common folder of `files`, and lock its settings."""
    folders = [name.rpartition("/")[0] for name in files]
    common = f"{_common_folder(folders)}/" if folders else ""
    # DuckDB compares both the pattern of a view and the files that it matches.
    allowed = f"[{literal(common)}, {literal(file_pattern(common))}]" if folders else "[]"
    connection.execute(f"SET allowed_directories = {allowed}; SET enable_external_access = false; SET lock_configuration = true")


def _common_folder(folders: list[str]) -> str:
    """Return the deepest folder, or prefix of an object store, that contains all `folders`."""
    scheme, separator, _ = folders[0].rpartition("://")
    return scheme + separator + commonpath([folder.removeprefix(scheme + separator) for folder in folders])
