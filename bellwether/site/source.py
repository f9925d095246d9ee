"""Read access to the published warehouse, restricted to the declared tables and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import Lake, duckdb_connection, warehouse
from bellwether.lake.sql import sql_text
from bellwether.lake.staleness import describe_delays, find_delays
from bellwether.settings import settings
from bellwether.tables import TABLES, Table, table
from bellwether.tables.exports import redact_rows


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Row count of a table and the time of its newest fact."""

    rows: int
    known_at: datetime | None


class SiteSource:
    """Published warehouse, open for reading. Raises `LakeError` if it cannot be read or has another version."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path | str) -> None:
        self.path = path
        self._connection = connection

    @cached_property
    def tables(self) -> Mapping[str, TableFacts]:
        """Row count and newest fact of each table, by name (`group/name`), without the group `meta`."""
        rows = self.described.select("table_name", "rows", "known_at").sort("table_name").iter_rows()
        return {name.replace(".", "/", 1): TableFacts(count, known_at) for name, count, known_at in rows if not name.startswith("meta.")}

    @cached_property
    def columns(self) -> pl.DataFrame:
        """Rows of `meta.columns`: a description of each column of each table."""
        return self._all("meta.columns").sort("table_name", "ordinal")

    @cached_property
    def described(self) -> pl.DataFrame:
        """Rows of `meta.tables`: a description of each table."""
        return self._all("meta.tables").sort("table_name")

    @cached_property
    def _publication(self) -> Mapping[str, Any]:
        return self._all("meta.publication").row(0, named=True)

    @cached_property
    def published_at(self) -> datetime:
        """Time of publication."""
        published: datetime = self._publication["published_at"]
        return published

    @cached_property
    def world(self) -> str:
        """Name of the published world."""
        return str(self._publication["world"])

    @cached_property
    def delays(self) -> str:
        """Tables of the warehouse's lake whose rebuild failed or is overdue, as a sentence; empty without any."""
        lake = Lake.of(settings())
        return describe_delays(find_delays(lake, TABLES.values())) if lake.uri == self._publication["lake"] else ""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each forecaster, agent and family, by name; the number determines the colour."""
        return {name: number for number, name in enumerate(dict.fromkeys(self.query("names")["name"]))}

    def rows(self, name: str) -> int:
        """Return the row count of a table; 0 if the table is missing."""
        return self.tables[name].rows if name in self.tables else 0

    def frame(self, name: str, *columns: str, **equal: Any) -> pl.DataFrame:
        """Read the rows of a table, sorted; empty if the table is missing.

        columns: names (default: all). equal: only rows that have these values, by column. Credentials in rows of earlier versions are removed.
        """
        declared = table(name)
        chosen = list(columns) or declared.names
        if not self.rows(name):
            return declared.empty().select(chosen)
        try:
            relation = self._rows_of(declared, equal)
            for column, value in equal.items():
                relation = relation.filter(duckdb.ColumnExpression(column) == duckdb.ConstantExpression(value))
            read_columns = [*chosen, *(one for one in declared.order if one not in chosen)]
            rows = relation.select(*(duckdb.ColumnExpression(one) for one in read_columns)).pl()
        except duckdb.Error as error:
            raise LakeError(f"reading {declared.sql_name} of {self.path}: {error}; {warehouse.PUBLISH_AGAIN}") from error
        return redact_rows(name, rows.sort(declared.order, nulls_last=True).select(chosen))

    def query(self, name: str, quoting: str = "", **params: Any) -> pl.DataFrame:
        """Run `sql/site/<name>.sql` with bound parameters, and return its rows.

        quoting: table whose texts of models the rows quote, from which credentials are removed.
        """
        try:
            rows = self._connection.sql(sql_text(f"site/{name}"), params=params).pl()
        except duckdb.Error as error:
            raise LakeError(f"reading {self.path}: {error}; {warehouse.PUBLISH_AGAIN}") from error
        return redact_rows(quoting, rows)

    def _rows_of(self, declared: Table, equal: Mapping[str, Any]) -> duckdb.DuckDBPyRelation:
        """Return the relation of a table. A view is limited to the files of the partitions in `equal`, since opening all files is slow."""
        first = declared.partitioned_by[0] if declared.partitioned_by else None
        if first is None or first not in equal or declared.sql_name not in self._views:
            return self._relation(declared.sql_name)
        chosen = (pl.col("table_name") == declared.sql_name) & pl.col("partition").str.starts_with(str(equal[first]))
        return self._connection.sql(duckdb_connection.select_statement(declared, tuple(self._files.filter(chosen)["file"])))

    @cached_property
    def _views(self) -> frozenset[str]:
        return frozenset(self.described.filter(pl.col("stored_as") == "view")["table_name"])

    @cached_property
    def _files(self) -> pl.DataFrame:
        return self._all("meta.partitions").filter("published").sort("table_name", "partition")

    def _relation(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return the relation of a table or view named `schema.table`."""
        return self._connection.sql(
            "FROM " + ".".join(duckdb_connection.identifier(part) for part in (warehouse.DATABASE, *name.split(".", 1)))
        )

    def _all(self, name: str) -> pl.DataFrame:
        try:
            return self._relation(name).pl()
        except duckdb.Error as error:
            raise LakeError(
                f"reading {name} of {self.path}: {error}; it is not a warehouse of this version; {warehouse.PUBLISH_AGAIN}"
            ) from error


@contextmanager
def open_source(path: Path | str) -> Iterator[SiteSource]:
    """Open the latest publication of the warehouse at `path`, until the context ends."""
    with warehouse.connect(path) as connection:
        # Files are read once: one thread, little memory and no file cache suffice.
        connection.execute("SET memory_limit = '128MB'")
        connection.execute("SET enable_external_file_cache = false")
        connection.execute("SET threads = 1")
        yield SiteSource(connection, path)
