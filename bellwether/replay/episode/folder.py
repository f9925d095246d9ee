"""Folder of an episode: read and written with the same checks, which refuse an episode with an error.

Equal content is written as the same bytes, atomically.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from bellwether.errors import ConfigError, SchemaError
from bellwether.files import atomic_folder, local_copy
from bellwether.places import place
from bellwether.replay.arrow import first_null, values_of
from bellwether.replay.episode.checks import Report, RowError, check_content, check_rows, check_trade_rows
from bellwether.replay.episode.content import EXOGENOUS, ORDERBOOK, SCHEMAS, TRADES, BookColumns, Content, Trades, join_chunks, series_of
from bellwether.replay.episode.model import (
    METADATA,
    SETTLEMENT,
    Metadata,
    dump_metadata,
    dump_settlements,
    parse_metadata,
    parse_settlements,
    read_json,
)


@dataclass(frozen=True, eq=False)
class Episode:
    """Episode whose content has passed all checks. digest: hex SHA-256 of its content. warnings: findings that a user should look at."""

    folder: Path
    content: Content
    digest: str
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Name of the episode."""
        return self.metadata.episode_id

    @property
    def metadata(self) -> Metadata:
        """Window, markets and gaps."""
        return self.content.metadata

    @property
    def tickers(self) -> tuple[str, ...]:
        """Tickers in the order of their codes."""
        return self.metadata.tickers


def load(folder: Path) -> Episode:
    """Load and check the episode in `folder`, local or in an object store. Raises `SchemaError` naming file, row and value of the errors."""
    folder = place(folder)
    content, report = _examine(folder)
    report.require_valid()
    assert content is not None and report.digest is not None
    return Episode(folder, content, report.digest, tuple(finding.message for finding in report.warnings))


def validate(folder: Path) -> Report:
    """Run all checks of the episode in `folder` and return the findings. `load` refuses an episode with errors.

    Invalid content of files is a finding, never an exception.
    """
    return _examine(place(folder))[1]


def _examine(folder: Path) -> tuple[Content | None, Report]:
    """Read and check all files of an episode. Returns the content (None if a file cannot be read) and the report of findings."""
    report = Report(folder.name)
    local = local_copy(folder, METADATA)
    metadata = settlements = book = trades = exogenous = stated = None
    with report.collecting_errors("metadata", METADATA):
        values = read_json(local, METADATA)
        metadata, stated = parse_metadata(values), values.get("digest")
    if metadata is None:
        return None, report
    with report.collecting_errors("settlement", SETTLEMENT):
        settlements = parse_settlements(read_json(local, SETTLEMENT), metadata.tickers)
    with report.collecting_errors("book", ORDERBOOK):
        book = check_rows(BookColumns.of(_read_table(local, ORDERBOOK)), metadata)
    with report.collecting_errors("trades", TRADES):
        trades = check_trade_rows(Trades.of(_read_table(local, TRADES)), metadata)
    with report.collecting_errors("exogenous", EXOGENOUS):
        exogenous = _read_exogenous(local, metadata)
    if settlements is None or book is None or trades is None or exogenous is None:
        return None, report
    content = Content(metadata, settlements, book, trades, exogenous)
    check_content(content, stated, report)
    return content, report


def _read_table(folder: Path, name: str) -> pa.Table:
    """Read a Parquet file of an episode. Raises `SchemaError` if it is missing, unreadable, has other columns, or a null."""
    path, schema = folder / name, SCHEMAS[name]
    if not path.is_file():
        raise SchemaError(f"reading {folder.name}: {name} is missing; an episode has one")
    try:
        table = pq.ParquetFile(path).read(use_threads=False).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise SchemaError(f"reading {name}: not a readable Parquet file ({str(error).splitlines()[0]}); restore it") from None
    for column in schema:
        if table.schema.names.count(column.name) != 1 or table.schema.field(column.name).type != column.type:
            stated = ", ".join(f"{other.name} {other.type}" for other in table.schema)
            raise SchemaError(f"reading {name}: it must have one column {column.name} of type {column.type}; it has {stated}")
        for chunk in table.column(column.name).chunks:
            values = chunk.flatten() if pa.types.is_list(chunk.type) else chunk
            if chunk.null_count or values.null_count:
                raise RowError(name, max(first_null(chunk), 0), f"{column.name} is missing")
    return table.select(schema.names)


def _read_exogenous(folder: Path, metadata: Metadata) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Read the exogenous series by name: (ts int64, ns UTC, non-decreasing; value float64). Raises `SchemaError` for an invalid file."""
    names = [series.name for series in metadata.exogenous]
    if not names:
        return {}
    table = _read_table(folder, EXOGENOUS)
    series = series_of(table, names)
    values = values_of(join_chunks(table["value"]))
    for valid, problem in (
        (np.isin(np.array(table["name"].to_pylist(), object), names), "name is not a series of metadata.json"),
        (np.isfinite(values), "value is no finite number"),
    ):
        if not valid.all():
            raise RowError(EXOGENOUS, int(np.argmin(valid)), problem)
    if any((np.diff(at) < 0).any() for at, _ in series.values()):
        raise SchemaError(f"reading {EXOGENOUS}: ts decreases; sort the rows by time")
    return series


_ROW_GROUP = 262_144


def write(folder: Path, content: Content) -> Episode:
    """Write content as the episode in `folder`, replacing an episode that is there. Returns the written episode.

    Raises `SchemaError` as `load` does, and `ConfigError` for a folder with other content; nothing is written then.
    """
    folder, metadata = place(folder), content.metadata
    if folder.exists() and not (folder / METADATA).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"writing the episode {metadata.episode_id}: {folder} contains something other than an episode; name another folder"
        )
    check_rows(content.book, metadata)
    check_trade_rows(content.trades, metadata)
    report = Report(metadata.episode_id)
    check_content(content, None, report)
    report.require_valid()
    assert report.digest is not None
    tables = {ORDERBOOK: content.book.table(), TRADES: content.trades.table()}
    if metadata.exogenous:
        tables[EXOGENOUS] = content.exogenous_table()
    with atomic_folder(folder, METADATA) as new:
        for name, table in tables.items():
            pq.write_table(table, new / name, compression="zstd", use_dictionary=False, row_group_size=_ROW_GROUP, store_schema=True)
        _write_json(new / SETTLEMENT, dump_settlements(content.settlements))
        _write_json(new / METADATA, dump_metadata(metadata, report.digest))
    return Episode(folder, content, report.digest, tuple(finding.message for finding in report.warnings))


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
