"""Reading of an episode's folder. All content is checked, and an episode with an error is refused.

A *receipt* is a file in a cache that records a passed check, so that unchanged files need not be checked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bellwether.errors import SchemaError
from bellwether.files import atomic_file, checked, local_copy, with_checksum
from bellwether.places import place
from bellwether.replay.arrow import first_null, plain_memory, values_of
from bellwether.replay.episode.checks import (
    ERROR,
    Findings,
    Report,
    RowError,
    check_content,
    check_metadata,
    check_rows,
    check_trade_rows,
    check_winners,
)
from bellwether.replay.episode.content import EXOGENOUS, ORDERBOOK, SCHEMAS, TRADES, BookColumns, Content, join_chunks, series_of
from bellwether.replay.episode.content import Trades as TradeColumns
from bellwether.replay.episode.model import METADATA, SETTLEMENT, Metadata, Settlement, parse_metadata, parse_settlements, read_json

#: Incremented whenever the checks change, so that episodes are checked again.
CHECKS_VERSION = 5
FILES = (METADATA, SETTLEMENT, ORDERBOOK, TRADES, EXOGENOUS)


@dataclass(frozen=True, eq=False)
class Episode:
    """Episode whose content has passed all checks. id: its name. digest: hex SHA-256 of its content."""

    id: str
    folder: Path
    metadata: Metadata
    settlements: tuple[Settlement, ...]
    digest: str

    @property
    def tickers(self) -> tuple[str, ...]:
        """Tickers in the order of their codes."""
        return self.metadata.tickers

    @cached_property
    def content(self) -> Content:
        """Books, trades and series. If the episode was loaded by receipt, the files are read now and must be unchanged."""
        content, report = examine(self.folder)
        if content is None or report.digest != self.digest:
            raise SchemaError(f"reading the episode {self.id}: {self.folder} changed since it was loaded; load it again")
        return content

    @classmethod
    def of(cls, folder: Path, content: Content, digest: str) -> Episode:
        """Return the episode of checked content, whose files are in `folder`."""
        episode = cls(content.metadata.episode_id, folder, content.metadata, content.settlements, digest)
        episode.__dict__["content"] = content
        return episode

    def counts(self) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
        """Return two mappings by ticker: number of book rows, and (number of trades, lots traded)."""
        book, trades, count = self.content.book, self.content.trades, len(self.tickers)
        rows = np.bincount(book.ticker, minlength=count).tolist()
        prints = np.bincount(trades.ticker, minlength=count).tolist()
        lots = np.zeros(count, np.int64)
        np.add.at(lots, trades.ticker, trades.lots)
        traded = zip(prints, lots.tolist(), strict=True)
        return dict(zip(self.tickers, rows, strict=True)), dict(zip(self.tickers, traded, strict=True))

    @property
    def exogenous(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Exogenous series by name: (ts int64, ns UTC, non-decreasing; value float64)."""
        content: Content | None = self.__dict__.get("content")
        return read_exogenous(local_copy(self.folder, METADATA), self.metadata) if content is None else content.exogenous


def load(folder: Path, *, cache: Path | None = None) -> Episode:
    """Load the episode in `folder`, local or in an object store.

    cache: folder of receipts of checked files; unchanged files are then not read and checked again until the content is used. Raises
    `SchemaError` naming file, row and value of the errors.
    """
    folder = place(folder)
    files = None if cache is None else _files_digest(local_copy(folder, METADATA))
    if cache is not None and files is not None and (digest := _read_receipt(cache, files)) is not None:
        local = local_copy(folder, METADATA)
        metadata = parse_metadata(read_json(local, METADATA))
        settlements = parse_settlements(read_json(local, SETTLEMENT), metadata.tickers)
        return Episode(metadata.episode_id, folder, metadata, settlements, digest)
    content, report = examine(folder)
    report.require_valid()
    assert content is not None and report.digest is not None
    # Files that change while being read get no receipt.
    if cache is not None and files is not None and files == _files_digest(local_copy(folder, METADATA)):
        with atomic_file(cache / files) as draft:
            draft.write_bytes(with_checksum(f"{files} {report.digest}".encode()))
    return Episode.of(folder, content, report.digest)


def validate(folder: Path) -> Report:
    """Run all checks of the episode in `folder` and return the findings. `load` refuses an episode with errors.

    Invalid content of files is a finding, never an exception.
    """
    return examine(place(folder))[1]


def examine(folder: Path) -> tuple[Content | None, Report]:
    """Read and check all files of an episode. Returns the content (None after an error) and the report of findings."""
    findings = Findings()
    local = local_copy(folder, METADATA)
    metadata = settlements = book = trades = exogenous = stated = None
    with findings.collecting_errors("metadata", METADATA):
        values = read_json(local, METADATA)
        metadata, stated = parse_metadata(values), values.get("digest")
    if metadata is None:
        return None, findings.report(folder.name)
    check_metadata(metadata, findings)
    with findings.collecting_errors("settlement", SETTLEMENT):
        settlements = parse_settlements(read_json(local, SETTLEMENT), metadata.tickers)
        check_winners(metadata, settlements, findings)
    with findings.collecting_errors("book", ORDERBOOK), plain_memory():
        book = check_rows(BookColumns.of(_read_table(local, ORDERBOOK)), metadata)
    with findings.collecting_errors("trades", TRADES), plain_memory():
        trades = check_trade_rows(TradeColumns.of(_read_table(local, TRADES)), metadata)
    with findings.collecting_errors("exogenous", EXOGENOUS):
        exogenous = read_exogenous(local, metadata)
    if settlements is None or book is None or trades is None or exogenous is None:
        return None, findings.report(folder.name)
    content = Content(metadata, settlements, book, trades, exogenous)
    check_content(content, findings)
    digest = content.digest()
    if stated not in (None, digest):
        message = f"digest is {str(stated)!r:.80}, the content has {digest}; restore the files, or remove the digest"
        findings.add(ERROR, "digest", f"reading {METADATA}: {message}", METADATA)
    report = findings.report(folder.name, digest)
    return (content if report.is_valid else None), report


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


def read_exogenous(folder: Path, metadata: Metadata) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
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


def _files_digest(folder: Path) -> str:
    """Compute the SHA-256, in hex, of an episode's files and of the version of the checks: the name of a receipt."""
    digest = hashlib.sha256(str(CHECKS_VERSION).encode())
    for name in FILES:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                digest.update(f":{name}:{hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()


def _read_receipt(cache: Path, files: str) -> str | None:
    """Read the digest of the content from the receipt of files. None if the receipt is missing or damaged."""
    try:
        content = checked((cache / files).read_bytes())
    except OSError:
        return None
    stated, _, digest = ("" if content is None else bytes(content).decode()).partition(" ")
    return digest if stated == files else None
