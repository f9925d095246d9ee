"""Construction of the warehouse file: from the whole lake, or as a copy of the previous file in which only the changed tables are updated."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import duckdb_connection, history, meta, views
from bellwether.lake.duckdb_connection import identifier, literal
from bellwether.lake.inventory import NOTHING_KNOWN, Inventory, KnownRows, Row, take_inventory
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import partition_of_folder, partition_values
from bellwether.lake.storage import writing
from bellwether.settings import settings
from bellwether.tables import Table


@dataclass(frozen=True, slots=True)
class BuildState:
    """Row of `meta.publication` in a warehouse file: when the file was built, and from which lake."""

    published_at: datetime
    looked_at: datetime
    complete_at: datetime
    lake: str
    place: str
    declarations: str
    marks: Mapping[str, str]
    world: str


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Result of building a warehouse file: numbers of rows, tables and partitions, and the partitions left out. Fields as in `warehouse.Publication`."""

    published_at: datetime
    tables: int
    partitions: int
    rows: int
    known_at: datetime | None
    complete: bool
    outdated: tuple[str, ...]
    damaged: Mapping[str, str]


def build(lake: Lake, tables: Sequence[Table], former: Path, draft: Path, *, place: str, complete_every: timedelta) -> BuildResult:
    """Build the warehouse file `draft`. former: file of the previous publication, from which unchanged rows are copied; may be missing.
    place: where the file will be published. complete_every: maximum age of the last complete build for which only changed tables are updated.
    """
    now = datetime.now(UTC)
    # Read the marks first: tables written later have another mark.
    marks = [f"{name} {mark}" for name, mark in lake.marks(tables).items() if mark is not None]
    state = {
        "lake": lake.uri,
        "place": place,
        "declarations": _digest_declarations(tables),
        "looked_at": now,
        "complete_at": now,
        "marks": marks,
        "world": settings().world.value,
    }
    old = read_state(former)
    if old is not None and (old.lake, old.place) != (lake.uri, place):
        old = None
    if old is not None and old.declarations == state["declarations"] and now - old.complete_at < complete_every:
        state["complete_at"] = old.complete_at
        changed = [table for table in tables if f"{table.name} {old.marks.get(table.name)}" not in marks]
        known_rows = _known_rows(former, changed, old.looked_at)
        inventories = [take_inventory(lake, table, known_rows[table.name], complete=False) for table in changed]
        with writing(str(draft)):
            shutil.copyfile(former, draft)
        return _write(lake, draft, inventories, state, known_rows, tables=tables)
    known_rows = _known_rows(former, tables, old.looked_at) if old else {}
    inventories = [take_inventory(lake, table, known_rows.get(table.name, NOTHING_KNOWN)) for table in tables]
    return _write(lake, draft, inventories, state, None, tables=tables)


def read_state(path: Path) -> BuildState | None:
    """Read `meta.publication` of a warehouse file. Return None if the file is missing, written by another version, or modified after its publication."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return _read_state(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def stamp_publication(draft: Path, published_at: datetime) -> None:
    """Set the modification time of a finished file to its publication time, so that `read_state` detects later changes."""
    os.utime(draft, ns=(to_nanoseconds(published_at), to_nanoseconds(published_at)))


@lru_cache(maxsize=4)
def _read_state(path: Path, _inode: int, _size: int, modified: int) -> BuildState | None:
    """Read the state of a file last modified at `modified` (nanoseconds). The other arguments identify the file in the cache."""
    rows = _rows(path, "FROM meta.publication", {})
    if not rows or rows[0].keys() != {field.name for field in fields(BuildState)}:
        return None
    state = BuildState(**{**rows[0], "marks": dict(mark.rsplit(" ", 1) for mark in rows[0]["marks"])})
    return state if to_nanoseconds(state.published_at) == modified else None


def to_nanoseconds(instant: datetime) -> int:
    """Convert a time to an exact number of nanoseconds since 1970."""
    return (instant - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000


def _known_rows(path: Path, tables: Sequence[Table], looked_at: datetime) -> dict[str, KnownRows]:
    """Read the rows of meta.partitions of these tables from the published file `path`. looked_at: when its publisher began to read the lake."""
    rows: dict[str, list[Row]] = {table.name: [] for table in tables}
    names = {table.sql_name: table.name for table in tables}
    for row in _rows(path, "FROM meta.partitions WHERE list_contains($tables, table_name)", {"tables": list(names)}):
        rows[names[row["table_name"]]].append(row)
    return {name: KnownRows.of(own, looked_at) for name, own in rows.items()}


def _rows(path: Path, sql: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the result rows of `sql` on a published file, or no rows if the file cannot be read."""
    try:
        with duckdb_connection.connect() as connection:
            connection.execute(f"ATTACH {literal(str(path))} AS warehouse (READ_ONLY)")
            connection.execute("USE warehouse")
            return connection.execute(sql, dict(params)).pl().to_dicts()
    except duckdb.Error:
        return []


def _digest_declarations(tables: Iterable[Table]) -> str:
    """Return a digest that changes with the declared tables, the views, or the DuckDB version."""
    return hashlib.sha256(f"{duckdb.__version__} {list(tables)!r} {list(meta.ALL)!r} {views.view_texts()!r}".encode()).hexdigest()


def _write(
    lake: Lake,
    draft: Path,
    inventories: Sequence[Inventory],
    state: dict[str, Any],
    former: Mapping[str, KnownRows] | None,
    *,
    tables: Sequence[Table],
) -> BuildResult:
    """Write the tables of `draft` from the inventories (lists of partitions with their files), and return the counts.

    The history of publications is continued in the lake, too. former: inventory rows of the previous file if the draft is a copy of it, None if
    it is empty.
    """
    recorded = history.load_history(lake)
    try:
        with duckdb_connection.writable_path(draft) as path, duckdb_connection.connect(path) as connection:
            if any(duckdb_connection.is_s3(file) for inventory in inventories for file in inventory.files):
                duckdb_connection.allow_s3(connection, lake.storage.reader_options)
            connection.execute("BEGIN")
            if former is None:
                _create_all(connection, inventories)
            else:
                for inventory in inventories:
                    _update(connection, inventory, former[inventory.table.name])
                connection.execute("DELETE FROM meta.publication")
            published_at = datetime.now(UTC)
            _insert(connection, meta.PUBLICATION, meta.PUBLICATION.frame([{**state, "published_at": published_at}]))
            continued = history.continue_history(connection, [table.name for table in tables], published_at, recorded)
            for table, rows in continued.items():
                connection.execute(f"DELETE FROM {_name(table)}")  # noqa: S608 - a quoted name
                _insert(connection, table, rows)
            result = _describe(connection, published_at, complete=former is None)
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")
            history.store_history(lake, recorded, continued)
            return result
    except duckdb.Error as error:
        raise LakeError(
            f"building the warehouse {draft}: {error}. The previous publication is unchanged; fix the cause and publish again"
        ) from error


def _create_all(connection: duckdb.DuckDBPyConnection, inventories: Sequence[Inventory]) -> None:
    """Create all tables and views in an empty file."""
    tables = [inventory.table for inventory in inventories]
    for schema in sorted({table.group for table in tables} | {"meta"}):
        connection.execute(f"CREATE SCHEMA {identifier(schema)}")
    for inventory in inventories:
        files = inventory.local(inventory.files) if inventory.table.mart else inventory.files
        _create(connection, inventory.table, files)
    for table in meta.ALL:
        _create(connection, table, ())
    _comment(connection, [*tables, *meta.ALL])
    _insert(connection, meta.PARTITIONS, meta.partition_rows(inventories))
    _insert(connection, meta.TABLES, meta.table_rows(inventories))
    _insert(connection, meta.COLUMNS, meta.column_rows(tables))
    views.create_views(connection, [table.name for table in tables])


def _update(connection: duckdb.DuckDBPyConnection, inventory: Inventory, former: KnownRows) -> None:
    """Update one table in a copied file: its rows or its view, and its rows in `meta`. former: its partitions in the copied file."""
    table = inventory.table
    if not table.mart:
        connection.execute(f"DROP VIEW {_name(table)}")
        _create(connection, table, inventory.files)
        _comment(connection, [table])
    else:
        published = [file for file, row in former.rows.items() if row["published"]]
        for file in sorted(set(published) - set(inventory.files)):
            _delete(connection, table, file)
        new = tuple(file for file in inventory.files if file not in published)
        if new:
            connection.execute(f"INSERT INTO {_name(table)} {duckdb_connection.select_statement(table, inventory.local(new))}")
    connection.execute("DELETE FROM meta.partitions WHERE table_name = $name", {"name": table.sql_name})
    connection.execute("DELETE FROM meta.tables WHERE table_name = $name", {"name": table.sql_name})
    _insert(connection, meta.PARTITIONS, meta.partition_rows([inventory]))
    _insert(connection, meta.TABLES, meta.table_rows([inventory]))


def _delete(connection: duckdb.DuckDBPyConnection, table: Table, file: str) -> None:
    """Delete the rows of the partition to which `file` belongs."""
    folder = file.rpartition("/")[0].split("/")[-len(table.partitioned_by) :] if table.partitioned_by else []
    values = partition_values(table, partition_of_folder(table, "/".join((table.name, *folder))))
    condition = " AND ".join(f"{identifier(name)} = ${name}" for name in values) or "true"
    connection.execute(f"DELETE FROM {_name(table)} WHERE {condition}", values)  # noqa: S608 - every name is quoted


def _create(connection: duckdb.DuckDBPyConnection, table: Table, files: tuple[str, ...]) -> None:
    """Create a table with the rows of `files`, or a view over them, as declared."""
    connection.execute(f"CREATE {_kind(table)} {_name(table)} AS {duckdb_connection.select_statement(table, files)}")


def _comment(connection: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> None:
    """Set the descriptions of tables, views and columns as DuckDB comments. The comment of a column ends with its unit."""
    comments = []
    for table in tables:
        comments.append(f"COMMENT ON {_kind(table)} {_name(table)} IS {literal(table.row)}")
        for column in table.columns:
            text = f"{column.description} [{column.unit}]" if column.unit else column.description
            comments.append(f"COMMENT ON COLUMN {_name(table)}.{identifier(column.name)} IS {literal(text)}")
    # The optimizer would take half of the time of a thousand comments.
    connection.execute("; ".join(["PRAGMA disable_optimizer", *comments, "PRAGMA enable_optimizer"]))


def _insert(connection: duckdb.DuckDBPyConnection, table: Table, rows: pl.DataFrame) -> None:
    connection.register("new_rows", table.validate(rows).to_arrow())
    connection.execute(f"INSERT INTO {_name(table)} FROM new_rows")
    connection.unregister("new_rows")


def _kind(table: Table) -> str:
    """Return the SQL keyword for a table: TABLE for a mart, VIEW otherwise."""
    return "TABLE" if table.mart else "VIEW"


def _name(table: Table) -> str:
    return f"{identifier(table.group)}.{identifier(table.short_name)}"


def _describe(connection: duckdb.DuckDBPyConnection, published_at: datetime, *, complete: bool) -> BuildResult:
    """Count the rows, tables and partitions of the built file from its own `meta` tables, and list the partitions left out."""
    tables, partitions, rows, known_at = connection.execute(
        "SELECT count(*), sum(partitions)::BIGINT, sum(rows)::BIGINT, max(known_at) FROM meta.tables"
    ).fetchall()[0]
    left_out = connection.execute(
        "SELECT rtrim(replace(table_name, '.', '/') || ' ' || partition), damage FROM meta.partitions WHERE NOT published ORDER BY ALL"
    ).fetchall()
    return BuildResult(
        published_at=published_at,
        tables=tables,
        partitions=partitions or 0,
        rows=rows or 0,
        known_at=known_at,
        complete=complete,
        outdated=tuple(name for name, damage in left_out if damage is None),
        damaged={name: damage for name, damage in left_out if damage is not None},
    )
