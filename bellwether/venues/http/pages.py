"""Verbatim pages: every answer of a pull stored once, as it came, so that a pull can be resumed and read again without the venue.

`raw/<venue>_pages/<listing>/<partition>/<pull>/<step>/00000.parquet` holds one page; `done.json` beside the steps, written last, ends a pull.
Pulls are never changed once they are done: to ask again is to make the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import orjson
import polars as pl
from polars.exceptions import PolarsError

from bellwether.errors import LakeError
from bellwether.lake.storage import Storage
from bellwether.tables.schema import TIME
from bellwether.venues.http.page import Page

DONE = "done.json"

#: Bytes of a pull's pages that stay in memory after they were stored, of the many pulls of a run: a small day is not read back.
HELD_BYTES = 2**20

Note = Mapping[str, Any]

_SCHEMA = {
    "request": pl.String(),
    "status": pl.Int32(),
    "fetched_at": TIME,
    "ordinal": pl.Int32(),
    "sent": pl.Binary(),
    "body": pl.Binary(),
}


class _Held:
    """Pages that were just stored, up to `HELD_BYTES` of bodies; what they say as JSON is not held."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], Page] = {}
        self._bytes = 0

    def keep(self, step: str, page: Page) -> None:
        before = self._pages.pop((step, page.ordinal), None)
        self._bytes += len(page.body) - (len(before.body) if before else 0)
        if self._bytes <= HELD_BYTES:
            self._pages[step, page.ordinal] = replace(page)
        else:
            self._bytes -= len(page.body)

    def page(self, step: str, ordinal: int) -> Page | None:
        found = self._pages.get((step, ordinal))
        return replace(found) if found else None


@dataclass(frozen=True, slots=True)
class StoredPull:
    """One pull: a folder of pages, finished when it has a note.

    folder: below the root of the storage. files: the names of what was stored when the pull was opened. note: what was written at its end.
    """

    storage: Storage
    folder: str
    files: frozenset[str] = frozenset()
    note: Note | None = None
    held: _Held = field(default_factory=_Held, repr=False, compare=False)

    def find(self, step: str, ordinal: int) -> Page | None:
        """A page that was stored before the pull was opened; None when it was not, or cannot be read and has to be fetched again."""
        name = self._name(step, ordinal)
        return _read(self.storage, name) if name in self.files else None

    def pages(self, step: str) -> Iterator[Page]:
        """The pages of a step of a finished pull, in order. Raises `LakeError` when one is gone or damaged."""
        for ordinal in range(self.count(step)):
            yield self.page(step, ordinal)

    def count(self, step: str) -> int:
        """How many pages a step of a finished pull has."""
        return int(self._finished()["pages"].get(step, 0))

    def page(self, step: str, ordinal: int) -> Page:
        """One page of a finished pull. Raises `LakeError` when it is gone or damaged."""
        name = self._name(step, ordinal)
        page = self.held.page(step, ordinal) or _read(self.storage, name)
        if page is None:
            raise LakeError(f"reading the stored page {self.storage.location(name)}: it is gone or damaged; pull again with refresh")
        return page

    def write(self, step: str, page: Page) -> None:
        """Store a page whole. Raises `LakeError` when it cannot be stored."""
        row = (page.request, page.status, page.fetched_at, page.ordinal, page.sent, page.body)
        buffer = BytesIO()
        frame = pl.DataFrame([row], schema=_SCHEMA, orient="row")
        frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
        self.storage.put(self._name(step, page.ordinal), buffer.getvalue())
        self.held.keep(step, page)

    def finish(self, pages: Mapping[str, int], note: Note) -> StoredPull:
        """End the pull: `pages` counts the pages of each step. Returns it as finished."""
        note = {**note, "pages": dict(pages)}
        self.storage.put(f"{self.folder}/{DONE}", orjson.dumps(note, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2))
        return StoredPull(self.storage, self.folder, self.files, note, self.held)

    def _finished(self) -> Note:
        if self.note is None:
            raise LakeError(f"reading the pull {self.folder}: it is not finished; run it again to complete it")
        return self.note

    def _name(self, step: str, ordinal: int) -> str:
        return f"{self.folder}/{step}/{ordinal:05d}.parquet"


class PageStore:
    """The pulls of one venue below a storage; a listing's partition has pulls 0001, 0002, …"""

    def __init__(self, storage: Storage, venue: str = "kalshi") -> None:
        self._storage = storage
        self._root = f"raw/{venue}_pages"

    def open(self, listing: str, partition: str, *, reuse: Callable[[Note], bool]) -> StoredPull:
        """The pull to go on with: the latest when it is unfinished, or finished and `reuse` says yes to its note; else the next, empty."""
        latest = self.latest(listing, partition)
        if latest is not None and (latest.note is None or reuse(latest.note)):
            return latest
        return self.following(latest) if latest else StoredPull(self._storage, f"{self._root}/{listing}/{partition}/0001")

    def following(self, pull: StoredPull) -> StoredPull:
        """The pull after `pull`, empty."""
        partition, number = pull.folder.rsplit("/", 1)
        return StoredPull(self._storage, f"{partition}/{int(number) + 1:04d}")

    def latest(self, listing: str, partition: str) -> StoredPull | None:
        """The last pull of a partition, finished or not; None when there is none. Raises `LakeError` for a note that cannot be read."""
        prefix = f"{self._root}/{listing}/{partition}"
        names = [entry.name for entry in self._storage.files(prefix)]
        numbers = {name.removeprefix(f"{prefix}/").split("/")[0] for name in names}
        if not numbers:
            return None
        folder = f"{prefix}/{max(numbers, key=int)}"
        files = frozenset(name for name in names if name.startswith(f"{folder}/"))
        return StoredPull(self._storage, folder, files, self._note(f"{folder}/{DONE}") if f"{folder}/{DONE}" in files else None)

    def finished(self, listing: str) -> list[StoredPull]:
        """The last pull of every partition of a listing whose last pull is finished, in order of the partition."""
        prefix = f"{self._root}/{listing}"
        partitions = {entry.name.removeprefix(f"{prefix}/").split("/")[0] for entry in self._storage.files(prefix)}
        latest = [self.latest(listing, partition) for partition in sorted(partitions)]
        return [pull for pull in latest if pull is not None and pull.note is not None]

    def _note(self, name: str) -> Note:
        try:
            return orjson.loads(self._storage.read([name])[name])
        except (KeyError, orjson.JSONDecodeError) as error:
            raise LakeError(
                f"reading {self._storage.location(name)}: it is no note of a finished pull ({error}); remove the file and pull again"
            ) from error


def _read(storage: Storage, name: str) -> Page | None:
    """The page stored under `name`; None when there is none or it is no whole page."""
    content = storage.read([name]).get(name)
    if content is None:
        return None
    try:
        row = pl.read_parquet(BytesIO(content), columns=list(_SCHEMA)).row(0, named=True)
    except (PolarsError, OSError, IndexError):
        return None
    return Page(row["request"], row["status"], row["fetched_at"], row["body"], row["ordinal"], row["sent"])
