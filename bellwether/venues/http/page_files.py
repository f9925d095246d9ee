"""Files of verbatim pages: one per page during a pull, and one for all pages of a finished pull.

During a pull, a page is stored as a line of JSON and the verbatim bytes: cheap to write, and verified when read. Finally all pages of the
pull are stored in one Parquet file, `pages.parquet`, in the order of the steps; it is read a few megabytes at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.exceptions import PolarsError

from bellwether.lake.memory import release_memory
from bellwether.lake.storage import Storage
from bellwether.tables.schema import TIME
from bellwether.venues.http.page import VenuePage

#: The file of all pages of a pull.
PAGES = "pages.parquet"
#: Bytes of bodies that are held while pages are written, and read at once.
_ROW_GROUP = 4 * 2**20

_PAGE = {
    "request": pl.String(),
    "status": pl.Int32(),
    "fetched_at": TIME,
    "ordinal": pl.Int32(),
    "sent": pl.Binary(),
    "body": pl.Binary(),
}


@cache
def _schema() -> pa.Schema:
    """Return the columns of the file. Not a constant: the conversion starts Polars' threads, and a process with threads cannot be forked."""
    return pl.DataFrame(schema={"step": pl.String(), **_PAGE}).to_arrow().schema


def dump(page: VenuePage) -> bytes:
    """Serialize a page for a running pull."""
    content = page.sent + page.body
    head = {
        "request": page.request,
        "status": page.status,
        "fetched_at": page.fetched_at.isoformat(),
        "ordinal": page.ordinal,
        "sent": len(page.sent),
        "bytes": len(content),
        "crc32": zlib.crc32(content),
    }
    return orjson.dumps(head) + b"\n" + content


def load(stored: bytes) -> VenuePage | None:
    """Parse a page that `dump` serialized; None if it is incomplete."""
    head, _, content = stored.partition(b"\n")
    try:
        told = orjson.loads(head)
        if len(content) != told["bytes"] or zlib.crc32(content) != told["crc32"]:
            return None
        sent, at = told["sent"], datetime.fromisoformat(told["fetched_at"])
        return VenuePage(told["request"], told["status"], at, content[sent:], told["ordinal"], content[:sent])
    except (ValueError, TypeError, KeyError):
        return None


def load_parquet(stored: bytes) -> VenuePage | None:
    """Parse a page that an earlier version stored as its own Parquet file; None if it is incomplete."""
    try:
        row = pl.read_parquet(BytesIO(stored), columns=list(_PAGE)).row(0, named=True)
    except (PolarsError, OSError, IndexError):
        return None
    return VenuePage(row["request"], row["status"], row["fetched_at"], row["body"], row["ordinal"], row["sent"])


def write(path: Path, pages: Iterable[tuple[str, VenuePage]]) -> None:
    """Write the pages of a pull, each with its step, as one Parquet file; equal pages give equal bytes."""
    held: list[tuple[Any, ...]] = []
    size = written = 0
    # No dictionary of bodies, which hardly repeat: it would hold them once more.
    how: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "write_statistics": False, "use_dictionary": ["step", "request"]}
    with pq.ParquetWriter(path, _schema(), **how) as writer:
        for step, page in pages:
            if held and size + len(page.body) > _ROW_GROUP:
                writer.write_table(_table(held))
                held, size = [], 0
            held.append((step, page.request, page.status, page.fetched_at, page.ordinal, page.sent, page.body))
            size += len(page.body)
            written += len(page.body)
        if held:
            writer.write_table(_table(held))
    del held
    release_memory(written)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, _schema(), strict=True)], schema=_schema()
    )


class PageFile:
    """Open file of all pages of a pull. Only the most recently read file keeps pages in memory, because a run reads many files."""

    _holder: ClassVar[PageFile | None] = None

    def __init__(self, storage: Storage, name: str) -> None:
        self._file = storage.open(name)
        self._parquet = pq.ParquetFile(self._file, pre_buffer=False)
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        for group in range(self._parquet.num_row_groups):
            keys = self._parquet.read_row_group(group, columns=["step", "ordinal"], use_threads=False)
            found = zip(keys["step"].to_pylist(), keys["ordinal"].to_pylist(), strict=True)
            self._places.update({key: (group, row) for row, key in enumerate(found)})
        self._group = -1
        self._rows: list[dict[str, Any]] = []

    @classmethod
    def open(cls, storage: Storage, name: str) -> PageFile | None:
        """Open the file `name`; None if it is missing or damaged."""
        with suppress(OSError, pa.ArrowException):
            return cls(storage, name)
        return None

    def page(self, step: str, ordinal: int) -> VenuePage | None:
        """Return one page; None if it is missing or damaged."""
        place = self._places.get((step, ordinal))
        if place is None:
            return None
        group, row = place
        if group != self._group:
            try:
                rows = self._parquet.read_row_group(group, use_threads=False).to_pylist()
            except (OSError, pa.ArrowException):
                return None
            self._hold(group, rows)
            release_memory(sum(len(row["body"]) for row in rows))
        found = self._rows[row]
        return VenuePage(found["request"], found["status"], found["fetched_at"], found["body"], found["ordinal"], found["sent"])

    def _hold(self, group: int, rows: list[dict[str, Any]]) -> None:
        other = PageFile._holder
        if other is not None and other is not self:
            other._rows, other._group = [], -1
        PageFile._holder = self
        self._rows, self._group = rows, group

    def close(self) -> None:
        """Close the file."""
        self._rows, self._group = [], -1
        self._parquet.close()
        self._file.close()
