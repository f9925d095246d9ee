"""Declaration of a table: columns with dtype, unit and meaning, primary key, and partition columns.

Used for writing, validation, the data dictionary, Dagster's column metadata and DuckDB's comments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import polars as pl

from bellwether.errors import SchemaError

TIME = pl.Datetime("us", "UTC")
PRICE = pl.Decimal(10, 6)
#: Prices that are not multiples of a tick: quotients of on-chain amounts.
EXACT_PRICE = pl.Decimal(38, 20)
SIZE = pl.Decimal(18, 2)
#: Sums of contracts, and volumes in USDC.
LARGE_SIZE = pl.Decimal(30, 2)
#: Amounts of USDC and of shares.
USDC = pl.Decimal(24, 6)
MONEY = pl.Decimal(18, 6)
#: Sums of money, and amounts of the arena: a bet of at most 10^15 dollars at a millionth of a dollar per share pays 10^21 dollars. DuckDB sums
#: 10^8 of the largest values without an overflow.
LARGE_MONEY = pl.Decimal(30, 6)
TEXT = pl.String()
PROBABILITY = pl.Float64()

#: `Table.max_age` of tables with daily and with weekly updates.
DAILY, WEEKLY = timedelta(hours=36), timedelta(days=8)

DOLLARS = "dollars per contract"
CONTRACTS = "contracts"
UTC = "UTC"


def day_start(day: pl.Expr) -> pl.Expr:
    """Return the start of a day (a date) as a time in UTC."""
    return day.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table. unit: unit of the values, such as dollars per contract or UTC; None for values without a unit."""

    name: str
    dtype: pl.DataType
    description: str
    unit: str | None = None
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """Declaration of a table in the lake.

    Attributes:
        name: `group/name`; also names the asset key, the folder of the lake and the DuckDB view.
        row: one sentence that describes a row.
        columns: in stored order.
        key: columns that identify a row within its partition.
        partitioned_by: columns that contain the partition key, in its order; () if unpartitioned.
        sort: order of the rows of a partition; default: the key.
        mart: whether the warehouse stores the rows instead of a view over the lake.
        often: whether it is written many times per hour; such changes alone are published at most once per hour.
        history: names of time-partitioned inputs of which a partition reads all partitions up to its own.
        ignored: names of inputs whose changes do not make it outdated.
        max_age: maximum age of its newest partition, if a schedule updates it.
        outside: whether it represents files outside the lake, such as a report, of which only the inputs are recorded.
        version: version of the rules that make the rows; part of every manifest.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    mart: bool = False
    often: bool = False
    history: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    max_age: timedelta | None = None
    version: str = "1"
    outside: bool = False

    def __post_init__(self) -> None:
        names = self.names
        if len(set(names)) != len(names):
            raise SchemaError(f"table {self.name}: a column is declared twice")
        for column in (*self.key, *self.partitioned_by, *self.sort):
            if column not in names:
                raise SchemaError(f"table {self.name}: key, partition or sort names the undeclared column {column!r}")

    @property
    def group(self) -> str:
        """Part of the name before the slash: the schema in DuckDB, and the asset group in Dagster."""
        return self.name.split("/")[0]

    @property
    def short_name(self) -> str:
        """Part of the name after the slash."""
        return self.name.split("/")[1]

    @property
    def sql_name(self) -> str:
        """Name in SQL: `schema.table`."""
        return f"{self.group}.{self.short_name}"

    @property
    def names(self) -> list[str]:
        """Column names in stored order."""
        return [column.name for column in self.columns]

    @cached_property
    def schema(self) -> pl.Schema:
        """Polars schema, with the columns in stored order. The object is shared and must not be changed."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    @property
    def order(self) -> tuple[str, ...]:
        """Columns by which the rows within a partition are sorted."""
        return self.sort or self.key

    def empty(self) -> pl.DataFrame:
        """Return a frame with all columns and no rows."""
        return self._empty.clone()

    def frame(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        """Build a frame from one dictionary per row. Columns missing in a dictionary are null."""
        return pl.DataFrame(rows, schema=self.schema, orient="row") if rows else self.empty()

    def validate(self, frame: pl.DataFrame, *, unique: bool = True) -> pl.DataFrame:
        """Check that `frame` fits the declaration, and return it with its columns in stored order. Raises `SchemaError` otherwise.

        Checks names, dtypes, nulls in non-nullable columns and (with `unique`) the uniqueness of the key. Nothing is cast or repaired.
        """
        names, schema = self.names, frame.schema
        missing = [name for name in names if name not in schema]
        extra = [name for name in schema if name not in self.schema]
        if missing or extra:
            raise SchemaError(
                f"table {self.name}: the frame's columns differ from the declaration"
                f"{'; missing ' + ', '.join(missing) if missing else ''}"
                f"{'; not declared ' + ', '.join(extra) if extra else ''}"
                " (declared in bellwether/tables)"
            )
        frame = frame.select(names)
        for column in self.columns:
            dtype = schema[column.name]
            if dtype != column.dtype:
                raise SchemaError(f"table {self.name}: column {column.name} is {dtype}, declared {column.dtype}")
        for column in self.columns:
            if not column.nullable and frame[column.name].null_count():
                row = frame.filter(pl.col(column.name).is_null()).select(self.key).row(0, named=True)
                raise SchemaError(f"table {self.name}: column {column.name} may not be null; first null at {row}")
        if unique and self.key and frame.height and frame.select(pl.struct(self.key).n_unique()).item() != frame.height:
            keys = frame.select(self.key)
            row = keys.filter(keys.is_duplicated()).row(0, named=True)
            raise SchemaError(f"table {self.name}: the key {', '.join(self.key)} is not unique; first duplicate {row}")
        return frame


def external_table(name: str, *partitioned_by: str) -> Table:
    """Declare files outside the lake, such as reports, as a table. The lake records only the inputs they were made from."""
    columns = tuple(Column(column, TEXT, "partition") for column in partitioned_by)
    return Table(name, "One file outside the lake.", columns, key=partitioned_by, partitioned_by=partitioned_by, outside=True)
