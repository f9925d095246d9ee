"""File formats of verbatim pages: one file per page during a pull, then one Parquet file for the finished pull.

During a pull, a page is a line of JSON followed by the verbatim bytes, which is cheap to write and has a checksum. The finished pull has
`pages.parquet`, in the order of the steps, which is read a few megabytes at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bellwether.lake.memory import release_memory
from bellwether.lake.storage import Storage
from bellwether.tables.schema import TIME
from bellwether.venues.http.page import VenuePage

#: File with all pages of a finished pull.
PAGES = "pages.parquet"
#: Maximum bytes of bodies in memory while pages are written or read.
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
    """Return the Arrow schema of the file. Not a constant, because Polars starts threads, and a process with threads cannot be forked."""
    return pl.DataFrame(schema={"step": pl.String(), **_PAGE}).to_arrow().schema


def dump(page: VenuePage) -> bytes:
    """Serialize one page as a file of a running pull."""
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
        fields = orjson.loads(head)
        if len(content) != fields["bytes"] or zlib.crc32(content) != fields["crc32"]:
            return None
        sent, at = fields["sent"], datetime.fromisoformat(fields["fetched_at"])
        return VenuePage(fields["request"], fields["status"], at, content[sent:], fields["ordinal"], content[:sent])
    except (ValueError, TypeError, KeyError):
        return None


def _to_page(row: Mapping[str, Any]) -> VenuePage:
    return VenuePage(row["request"], row["status"], row["fetched_at"], row["body"], row["ordinal"], row["sent"])


def write(path: Path, pages: Iterable[tuple[str, VenuePage]]) -> None:
    """Write the pages of a pull, each with the name of its step (group of requests), as one Parquet file; equal pages give equal bytes."""
    rows: list[tuple[Any, ...]] = []
    size = written = 0
    # No dictionary of bodies, which hardly repeat: it would keep a second copy of them.
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 1,
        "write_statistics": False,
        "use_dictionary": ["step", "request"],
    }
    with pq.ParquetWriter(path, _schema(), **options) as writer:
        for step, page in pages:
            if rows and size + len(page.body) > _ROW_GROUP:
                writer.write_table(_table(rows))
                rows, size = [], 0
            rows.append((step, page.request, page.status, page.fetched_at, page.ordinal, page.sent, page.body))
            size += len(page.body)
            written += len(page.body)
        if rows:
            writer.write_table(_table(rows))
    del rows
    release_memory(written)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, _schema(), strict=True)], schema=_schema()
    )


class PageFile:
    """An open file `pages.parquet` of a pull. Only the file that was read last keeps pages in memory, because a run reads many files."""

    _holder: ClassVar[PageFile | None] = None

    def __init__(self, storage: Storage, name: str) -> None:
        self._file = storage.open(name)
        self._parquet = pq.ParquetFile(self._file, pre_buffer=False)
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        for group in range(self._parquet.num_row_groups):
            keys = self._parquet.read_row_group(group, columns=["step", "ordinal"], use_threads=False)
            pages = zip(keys["step"].to_pylist(), keys["ordinal"].to_pylist(), strict=True)
            self._places.update({page: (group, row) for row, page in enumerate(pages)})
        self._group = -1
        self._rows: list[dict[str, Any]] = []

    @classmethod
    def open(cls, storage: Storage, name: str) -> PageFile | None:
        """Open the file `name`; return None if it is missing or damaged."""
        with suppress(OSError, pa.ArrowException):
            return cls(storage, name)
        return None

    def page(self, step: str, ordinal: int) -> VenuePage | None:
        """Read one page; return None if it is missing or damaged."""
        place = self._places.get((step, ordinal))
        if place is None:
            return None
        group, row = place
        if group != self._group:
            try:
                rows = self._parquet.read_row_group(group, use_threads=False).to_pylist()
            except (OSError, pa.ArrowException):
                return None
            self._cache(group, rows)
            release_memory(sum(len(row["body"]) for row in rows))
        return _to_page(self._rows[row])

    def _cache(self, group: int, rows: list[dict[str, Any]]) -> None:
        """Keep the rows of one row group (`group`) in memory, and drop those of any other file."""
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
