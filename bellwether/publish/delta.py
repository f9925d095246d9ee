"""Copies of the lake's tables in the format Delta Lake. Each update of a copy is one commit that replaces the changed partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from bellwether.errors import BellwetherError, ConfigError
from bellwether.lake import Lake
from bellwether.lake.duckdb_connection import literal
from bellwether.lake.partitions import Partition, partition_values
from bellwether.lake.slices import Slice
from bellwether.places import is_s3, s3_options
from bellwether.tables import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Key of a commit's metadata with the digest of each partition's file, as JSON.
_RECORD = "bellwether_partitions"
#: Maximum number of changed partitions; with more, the whole table is rewritten, because the nesting of predicates grows with their number.
_MOST_CHANGED = 200
#: Number of commits searched for the last export; if it is not found, the table is rewritten.
_COMMITS = 200
#: Number of recorded characters of a digest.
_DIGITS = 16
#: A percent escape in a location.
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
#: Colours and arrows in messages of deltalake.
_DECORATION = re.compile("\x1b\\[\\d+m|\u21b3")
_NANOSECONDS = pl.Datetime("ns", "UTC")


@dataclass(frozen=True, slots=True)
class DeltaCopy:
    """Result of updating the copy of one table.
    written, removed, unchanged: numbers of partitions. cut: time columns shortened from nano- to microseconds.
    """

    table: str
    location: str
    written: int
    removed: int
    unchanged: int
    cut: tuple[str, ...]


def update_copies(lake: Lake, url: str, tables: Iterable[Table]) -> Iterator[DeltaCopy]:
    """Update the Delta table `<url>/<group>/<name>` of each table, and yield the results. Tables that have no partitions and no copy are skipped.

    url: folder or object-store URL; credentials come from the environment. Without changes nothing is committed. Other programs may compact and
    vacuum a copy; rows that they change are replaced when their partition changes.
    Raises `ConfigError` without the extra `delta` and for a location with a percent escape, and `BellwetherError` if a copy cannot be written; it
    then keeps its previous state.
    """
    try:
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise ConfigError("exporting to Delta Lake needs the extra `delta`; install it: pip install 'bellwether[delta]'") from None
    scheme, _, _ = url.rpartition("://")
    root = url.rstrip("/") if scheme else str(Path(url).expanduser().absolute())
    if _ESCAPE.search(root):
        raise ConfigError(
            f"exporting to {url!r}: readers of Delta Lake decode {_ESCAPE.findall(root)[0]!r}; name a location without percent escapes"
        )
    options = {**s3_options(), "aws_conditional_put": "etag"} if is_s3(url) else {}
    for table in tables:
        location = f"{root}/{table.name}"
        try:
            change = _update(lake.slice(table), location, options)
        except (DeltaError, OSError) as error:
            reason = " ".join(_DECORATION.sub(" ", str(error)).split())
            raise BellwetherError(
                f"exporting {table.name} to {location}: {reason}; correct the location, or run the export again"
            ) from error
        if change is not None:
            yield change


def _update(source: Slice, location: str, options: dict[str, str]) -> DeltaCopy | None:
    """Update the copy of one table. Returns None if there is neither a copy nor a partition."""
    from deltalake import CommitProperties, DeltaTable, write_deltalake
    from deltalake.exceptions import TableNotFoundError

    table, digests = source.table, {manifest.partition: manifest.digest[:_DIGITS] for manifest in source.manifests}
    try:
        copy = DeltaTable(location, storage_options=options)
    except TableNotFoundError:
        copy = None
    if copy is None and not digests:
        return None
    former = None if copy is None else _read_record(copy, table)
    changed = [partition for partition, digest in digests.items() if former is None or former.get(partition) != digest]
    removed = [partition for partition in former or () if partition not in digests]
    whole = former is None or not table.partitioned_by or len(changed) + len(removed) > _MOST_CHANGED
    written = (list(digests) if whole else changed) if changed or removed else []
    if written or removed or copy is None:
        source.restrict(written).check()
        if "://" not in location:
            Path(location).mkdir(parents=True, exist_ok=True)
        schema = _schema(table)
        write_deltalake(
            copy or location,
            pa.RecordBatchReader.from_batches(schema, _batches(source, written, schema)),
            mode="overwrite",
            predicate=None if whole else " OR ".join(_condition(table, partition) for partition in (*changed, *removed)),
            schema_mode="overwrite" if whole else None,
            partition_by=list(table.partitioned_by) or None,
            name=table.name,
            description=table.row,
            storage_options=options,
            commit_properties=CommitProperties(custom_metadata={_RECORD: json.dumps([[*key, digest] for key, digest in digests.items()])}),
        )
    cut = tuple(name for name, dtype in table.schema.items() if dtype == _NANOSECONDS)
    return DeltaCopy(table.name, location, len(written), len(removed), len(digests) - len(written), cut)


def _read_record(copy: DeltaTable, table: Table) -> dict[Partition, str] | None:
    """Return the digest of each partition at the last update; None if no recent commit states them, or if the columns have changed since."""
    from deltalake import Schema

    if copy.metadata().name != table.name:
        raise BellwetherError(
            f"exporting {table.name} to {copy.table_uri}: another program made the Delta table there; name an empty location"
        )
    if _columns(copy.schema()) != _columns(Schema.from_arrow(_schema(table))):
        return None
    for commit in copy.history(_COMMITS):
        if _RECORD in commit:
            return {tuple(key): digest for *key, digest in json.loads(commit[_RECORD])}
    return None


def _columns(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema.fields]


def _schema(table: Table) -> pa.Schema:
    """Build the Arrow schema of a copy, with times in microseconds and descriptions as comments."""
    plain = _in_microseconds(table.empty()).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    comments = {column.name: {"comment": column.description} for column in table.columns}
    return pa.schema([field.with_metadata(comments[field.name]) for field in plain])


def _batches(source: Slice, written: list[Partition], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the partitions `written`, in the schema of the copy."""
    for partition in written:
        rows = _in_microseconds(source.restrict([partition]).read())
        yield from rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema).to_batches()


def _in_microseconds(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col(_NANOSECONDS).dt.cast_time_unit("us"))


def _condition(table: Table, partition: Partition) -> str:
    """Build the SQL condition that selects the rows of a partition."""
    values = partition_values(table, partition)
    return "(" + " AND ".join(f"{name} = {literal(str(value))}" for name, value in values.items()) + ")"
