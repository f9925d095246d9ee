"""DuckDB connections over the lake, with slices (rows of some partitions) as views.

SQL is written in Python only here and in the construction of the warehouse: statements of quoted names and quoted text.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether import places
from bellwether.errors import LakeError, SchemaError
from bellwether.lake.slices import Slice
from bellwether.tables import Table

#: Limited because several steps of a run compute at the same time.
THREADS = min(4, os.cpu_count() or 1)
_HTTPFS = "duckdb_extension_httpfs"
#: Characters of patterns of file names.
_GLOB = re.compile(r"[*?[]")
_TYPES: dict[pl.DataType, str] = {
    pl.String(): "VARCHAR",
    pl.Boolean(): "BOOLEAN",
    pl.Date(): "DATE",
    pl.Int8(): "TINYINT",
    pl.Int32(): "INTEGER",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Datetime("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
    # DuckDB has no zoned nanoseconds: it truncates such a column to microseconds.
    pl.Datetime("ns", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def sql_type(dtype: pl.DataType) -> str:
    """Return the DuckDB type of a column's dtype; raises `SchemaError` for an unsupported dtype."""
    if isinstance(dtype, pl.Decimal):
        return f"DECIMAL({dtype.precision},{dtype.scale})"
    if isinstance(dtype, pl.List):
        return f"{sql_type(pl.Series(dtype=dtype.inner).dtype)}[]"
    try:
        return _TYPES[dtype]
    except KeyError:
        raise SchemaError(f"{dtype} has no DuckDB type in bellwether.lake.duckdb_connection; add it there") from None


def identifier(name: str) -> str:
    """Quote `name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote `text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def file_pattern(location: str) -> str:
    """Return the pattern that matches exactly the file `location` where DuckDB expands patterns, even for existing files."""
    return _GLOB.sub(r"[\g<0>]", location)


@contextmanager
def writable_path(path: Path) -> Iterator[Path]:
    """Yield a path under which DuckDB can write the file `path`. With a `?` in it, DuckDB misplaces its log: a temporary file then replaces it."""
    if "?" not in str(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="bellwether-") as folder:
        draft = Path(folder) / "draft.duckdb"
        if path.exists():
            shutil.copyfile(path, draft)
        yield draft
        shutil.copyfile(draft, path)


@contextmanager
def connect(path: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an embedded DuckDB until the end of the block: in memory, or in the new file `path`.

    It downloads nothing and shows times in UTC.
    """
    settings: dict[str, Any] = {
        "threads": THREADS,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "temp_directory": str(Path(tempfile.gettempdir()) / f"bellwether-duckdb-{os.getpid()}"),
    }
    if path:
        # Readable by DuckDB 1.5 and newer, whichever version writes it.
        settings["storage_compatibility_version"] = "v1.5.0"
    connection = duckdb.connect(str(path or ":memory:"), config=settings)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    finally:
        connection.close()


def find_httpfs() -> Path | None:
    """Return the path of DuckDB's extension for object stores; None if the package for this DuckDB version is not installed."""
    spec = find_spec(_HTTPFS)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "extensions" / f"v{duckdb.__version__}" / "httpfs.duckdb_extension"
        if path.is_file():
            return path
    return None


def allow_s3(connection: duckdb.DuckDBPyConnection) -> None:
    """Enable `connection` to read s3:// files with the S3 options of the environment. Raises `LakeError` if DuckDB's extension is not installed."""
    extension = find_httpfs()
    if extension is None:
        raise LakeError(
            f"reading an s3:// lake with DuckDB {duckdb.__version__}: its extension httpfs is not installed; "
            f"install the package duckdb-extension-httpfs=={duckdb.__version__}"
        )
    connection.execute(f"LOAD {literal(str(extension))}")
    fields = "".join(f", {name} {literal(value)}" for name, value in places.for_duckdb(places.s3_options()).items())
    connection.execute(f"CREATE OR REPLACE SECRET lake (TYPE s3{fields})")
    # Files of the lake are never replaced, so their sizes can be cached.
    connection.execute("SET enable_http_metadata_cache = true")


def select_statement(table: Table, files: tuple[str, ...]) -> str:
    """Return the SQL that selects the table's rows from `files`. Without files the query has the table's columns and no rows."""
    if not files:
        nulls = ", ".join(f"CAST(NULL AS {sql_type(column.dtype)}) AS {identifier(column.name)}" for column in table.columns)
        return f"SELECT {nulls} WHERE false"
    names = ", ".join(map(identifier, table.names))
    quoted = ", ".join(literal(file_pattern(file)) for file in files)
    return f"SELECT {names} FROM read_parquet([{quoted}], hive_partitioning = false)"  # noqa: S608 - every name and text is quoted


def add_input(connection: duckdb.DuckDBPyConnection, name: str, rows: Slice | pl.DataFrame) -> None:
    """Make `rows` readable in SQL under `name`. Raises `LakeError` for a damaged file."""
    if isinstance(rows, pl.DataFrame):
        connection.register(name, rows.to_arrow())
        return
    connection.execute(f"CREATE VIEW {identifier(name)} AS {select_statement(rows.table, rows.check())}")
