"""Construction of the warehouse file from the whole lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import duckdb_connection, meta, sql
from bellwether.lake.catalog import Manifest
from bellwether.lake.duckdb_connection import identifier, literal
from bellwether.lake.lake import Lake
from bellwether.lake.storage import writing
from bellwether.places import is_s3
from bellwether.settings import settings
from bellwether.tables import Table


@dataclass(frozen=True, slots=True)
class BuildState:
    """Row of `meta.publication` in a warehouse file: when the file was built, from which lake, and the lake's latest commit at that time."""

    published_at: datetime
    number: int
    lake: str
    place: str
    world: str


@dataclass(frozen=True, slots=True)
class Publication:
    """One publication of the warehouse.

    Attributes:
        path: the file, or the URL of the store.
        bytes: size of the file.
        published_at: time at which the file was finished, UTC.
        tables, partitions, rows: numbers of published tables, partitions and rows.
        known_at: latest `known_at` of the rows; None without rows.
        outdated: partitions left out because they were written by other rules than the table's, as `table partition`.
        damaged: partitions left out because their file is missing or damaged, as `table partition` -> reason.
    """

    path: str
    bytes: int
    published_at: datetime
    tables: int
    partitions: int
    rows: int
    known_at: datetime | None
    outdated: tuple[str, ...]
    damaged: Mapping[str, str]


def build(lake: Lake, tables: Sequence[Table], draft: Path, *, place: str) -> Publication:
    """Build the warehouse file `draft` from the lake. place: where the file will be published. Raises `LakeError` if it cannot be written."""
    # Read the number first: tables written later have a higher one.
    state = {"number": lake.catalog.head(), "lake": lake.uri, "place": place, "world": settings().world.value}
    stored = {table: check_files(lake, table) for table in tables}
    try:
        with duckdb_connection.writable_path(draft) as path, duckdb_connection.connect(path) as connection:
            if is_s3(lake.uri) and any(stored.values()):
                duckdb_connection.allow_s3(connection)
            connection.execute("BEGIN")
            _create_all(connection, lake, stored)
            published_at = datetime.now(UTC)
            _insert(connection, meta.PUBLICATION, meta.PUBLICATION.frame([{**state, "published_at": published_at}]))
            facts = _describe(connection)
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise LakeError(
            f"building the warehouse {draft}: {error}. The previous publication is unchanged; fix the cause and publish again"
        ) from error
    with writing(place):
        return Publication(path=place, bytes=draft.stat().st_size, published_at=published_at, **facts)


def check_files(lake: Lake, table: Table) -> list[Manifest]:
    """Return the manifests of a table, with the damage of missing and damaged files, which is also recorded in the catalog.

    A file is verified unless a publication has found it intact and, in a folder, its size and time of change are the same since.
    """
    stored, checks = lake.manifests(table), dict[int, str | None]()
    for manifest in stored.values():
        is_known = manifest.checked_at is not None and manifest.damage is None and lake.is_unchanged(manifest, manifest.checked_at)
        if manifest.version == table.version and not is_known:
            checks[manifest.number] = _find_damage(lake, table, manifest)
    lake.catalog.record_checks(checks, lake.clock())
    return [replace(manifest, damage=checks.get(manifest.number)) for manifest in stored.values()]


def _find_damage(lake: Lake, table: Table, manifest: Manifest) -> str | None:
    """Verify the checksum of a file. Return the error's message; None for an intact file."""
    try:
        lake.slice_from(table, {manifest.partition: manifest}).check()
    except LakeError as error:
        return str(error)
    return None


def read_state(path: Path) -> BuildState | None:
    """Read `meta.publication` of a warehouse file. Return None if the file is missing, damaged, or written by another version."""
    if not path.exists():
        return None
    try:
        with duckdb_connection.connect() as connection:
            connection.execute(f"ATTACH {literal(str(path))} AS warehouse (READ_ONLY)")
            rows = connection.execute("FROM warehouse.meta.publication").pl().to_dicts()
    except duckdb.Error:
        return None
    return BuildState(**rows[0]) if rows and rows[0].keys() == {field.name for field in fields(BuildState)} else None


def _create_all(connection: duckdb.DuckDBPyConnection, lake: Lake, stored: Mapping[Table, Sequence[Manifest]]) -> None:
    """Create all tables and views in an empty file. stored: partitions by table."""
    for schema in sorted({table.group for table in stored} | {"meta"}):
        connection.execute(f"CREATE SCHEMA {identifier(schema)}")
    for table, manifests in stored.items():
        rows = lake.slice_from(table, {manifest.partition: manifest for manifest in manifests if meta.is_published(table, manifest)})
        _create(connection, table, rows.local() if table.mart else rows.files)
    for table in meta.ALL:
        _create(connection, table, ())
    _comment(connection, [*stored, *meta.ALL])
    _insert(connection, meta.PARTITIONS, meta.partition_rows(lake.storage.location, stored))
    _insert(connection, meta.TABLES, meta.table_rows(stored))
    _insert(connection, meta.COLUMNS, meta.column_rows(stored))
    sql.create_views(connection, [table.name for table in stored])


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


def _describe(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Count the rows, tables and partitions of the built file from its own `meta` tables, and list the partitions left out."""
    counts = connection.execute("SELECT count(*), sum(partitions)::BIGINT, sum(rows)::BIGINT, max(known_at) FROM meta.tables").fetchall()[0]
    tables, partitions, rows, known_at = counts
    left_out = connection.execute(
        "SELECT rtrim(replace(table_name, '.', '/') || ' ' || partition), damage FROM meta.partitions WHERE NOT published ORDER BY ALL"
    ).fetchall()
    return {
        "tables": tables,
        "partitions": partitions or 0,
        "rows": rows or 0,
        "known_at": known_at,
        "outdated": tuple(name for name, damage in left_out if damage is None),
        "damaged": {name: damage for name, damage in left_out if damage is not None},
    }
