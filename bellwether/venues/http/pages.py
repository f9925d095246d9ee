"""Store of verbatim pages, from which a pull can be resumed, and parsed again without requests; and the requests of a pull, which fetch and
store only missing pages.

A step is a named group of a pull's requests, and a page's ordinal is its number in the step. A pull may extend a finished one, its base.

`raw/<venue>_pages/<listing>/<partition>/<pull>/` contains a pull: `0000.parquet`, `0001.parquet`, …, each with a few megabytes of pages in
the order in which they arrived, and `done.json`, the pull's note, which is written last and marks the pull as finished. Finished pulls never
change: a refresh creates the next pull.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import astuple, replace
from datetime import datetime, timedelta
from functools import cache, partial
from io import BytesIO
from typing import Any, TypeVar

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bellwether.concurrency import together
from bellwether.errors import LakeError
from bellwether.lake.parquet import release_memory
from bellwether.lake.storage import Storage, StorageEntry, VacuumResult, require_grace_period
from bellwether.tables.schema import TIME
from bellwether.venues.http.client import HttpClient
from bellwether.venues.http.page import VenueCall, VenuePage
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.http.retry import RefusedError

DONE = "done.json"
#: Bytes and seconds for which pages wait in memory to be written together; a process that is killed loses these.
_FILE_BYTES, _WAIT = 4 * 2**20, 5.0

T = TypeVar("T")
Note = Mapping[str, Any]
Place = tuple[str, int]
Pages = dict[Place, VenuePage]


@cache
def _schema() -> pa.Schema:
    """Return the Arrow schema of the files. Not a constant, because Polars starts threads, and a process with threads cannot be forked."""
    fields = {
        "request": pl.String(),
        "status": pl.Int32(),
        "fetched_at": TIME,
        "body": pl.Binary(),
        "ordinal": pl.Int32(),
        "sent": pl.Binary(),
    }
    return pl.DataFrame(schema={"step": pl.String(), **fields}).to_arrow().schema


def _dump(pages: Pages) -> bytes:
    """Serialize pages as a Parquet file."""
    columns = zip(*((step, *astuple(page)) for (step, _), page in pages.items()), strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, _schema(), strict=True)]
    target = BytesIO()
    # No dictionary of bodies, which hardly repeat: it would keep a second copy of them.
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=_schema()),
        target,
        compression="zstd",
        compression_level=1,
        write_statistics=False,
        use_dictionary=["step", "request"],
        write_page_checksum=True,
    )
    return target.getvalue()


def _load(stored: bytes) -> Pages:
    """Parse a file of pages; return none if it is damaged."""
    try:
        rows = pq.read_table(BytesIO(stored), use_threads=False, page_checksum_verification=True).to_pylist()
        return {(row.pop("step"), row["ordinal"]): VenuePage(**row) for row in rows}
    except (OSError, pa.ArrowException):
        return {}


def _number(name: str) -> int:
    """Return the number in the name of a file of pages."""
    return int(name.rpartition("/")[2].partition(".")[0])


class StoredPull:
    """Pages of one pull in a folder; the pull is finished if it has a note.

    folder: relative to the root of the storage. note: `done.json`. base: the finished pull that this one extends; steps missing here are
    read from the base.
    """

    #: The file that was read last, by location, with its pages. One for all pulls, because a run reads many.
    _loaded: tuple[str, Pages] = ("", {})

    def __init__(
        self,
        storage: Storage,
        folder: str,
        *,
        files: Collection[str] = (),
        note: Note | None = None,
        base: StoredPull | None = None,
    ) -> None:
        self.storage, self.folder, self.note, self.base = storage, folder, note, base
        self._files = sorted(files)
        self._unwritten: Pages = {}
        self._bytes, self._since = 0, 0.0
        # The note has the file of each page; without it, later files replace pages of earlier ones.
        self._places: dict[Place, str] = {}
        for step, numbers in note["pages"].items() if note else ():
            self._places.update({(step, ordinal): self._name(number) for ordinal, number in enumerate(numbers)})
        for name in self._files if note is None else ():
            self._places.update(dict.fromkeys(self._read(name), name))

    @property
    def steps(self) -> set[str]:
        """Steps of which the pull has pages."""
        return {step for step, _ in self._places}

    def find(self, step: str, ordinal: int) -> VenuePage | None:
        """Return a stored page; None if it is missing or damaged."""
        place = (step, ordinal)
        page = self._unwritten.get(place)
        if page is None and place in self._places:
            page = self._read(self._places[place]).get(place)
        # A copy, because the JSON of a page takes several times its bytes.
        return None if page is None else replace(page)

    def page(self, step: str, ordinal: int) -> VenuePage:
        """Return one page. Raises `LakeError` if it is missing or damaged."""
        if self.base and self.note and step not in self.note["pages"]:
            return self.base.page(step, ordinal)
        page = self.find(step, ordinal)
        if page is None:
            raise self._missing(step, ordinal)
        return page

    def pages(self, step: str) -> Iterator[VenuePage]:
        """Yield the pages of a step of a finished pull, in order. Raises `LakeError` if one is missing or damaged."""
        return (self.page(step, ordinal) for ordinal in range(self.count(step)))

    def count(self, step: str) -> int:
        """Return the number of pages of a step of a finished pull."""
        if self.note is None:
            raise LakeError(f"reading the pull {self.folder}: it is not finished; run it again to complete it")
        return self.base.count(step) if self.base and step not in self.note["pages"] else len(self.note["pages"].get(step, ()))

    def write(self, step: str, page: VenuePage) -> None:
        """Add a page, and write the pages that wait if they are large or have waited for long. Raises `LakeError` if they cannot be stored."""
        self._since = self._since if self._unwritten else time.monotonic()
        self._unwritten[step, page.ordinal] = replace(page)
        self._bytes += len(page.body)
        if self._bytes >= _FILE_BYTES or time.monotonic() - self._since >= _WAIT:
            self.flush()

    def flush(self) -> None:
        """Write the pages that wait in memory. Raises `LakeError` if they cannot be stored."""
        if not self._unwritten:
            return
        name = self._name(_number(self._files[-1]) + 1 if self._files else 0)
        self.storage.put(name, _dump(self._unwritten))
        self._files.append(name)
        self._places.update(dict.fromkeys(self._unwritten, name))
        release_memory(self._bytes)
        self._unwritten, self._bytes = {}, 0

    def finish(self, pages: Mapping[str, int], note: Note) -> None:
        """Store the `note`, which finishes the pull. pages: number of pages by step. Raises `LakeError` for a missing page."""
        self.flush()
        numbers = {step: [self._number(step, ordinal) for ordinal in range(count)] for step, count in pages.items()}
        note = {**note, "pages": numbers, **({"base": self.base.folder} if self.base else {})}
        self.storage.put(f"{self.folder}/{DONE}", orjson.dumps(note, option=orjson.OPT_SORT_KEYS))
        self.note = note

    def _number(self, step: str, ordinal: int) -> int:
        """Return the number of the file that has a page."""
        if (step, ordinal) not in self._places:
            raise self._missing(step, ordinal)
        return _number(self._places[step, ordinal])

    def _missing(self, step: str, ordinal: int) -> LakeError:
        name = self.storage.location(self._places.get((step, ordinal), self.folder))
        return LakeError(f"reading the stored pages {name}: page {ordinal} of {step} is gone or damaged; pull again with --refresh")

    def _name(self, number: int) -> str:
        return f"{self.folder}/{number:04d}.parquet"

    def _read(self, name: str) -> Pages:
        """Return the pages of a file; none if it is missing or damaged."""
        location = self.storage.location(name)
        if StoredPull._loaded[0] != location:
            pages = _load(self.storage.read(name) or b"")
            StoredPull._loaded = location, pages
            release_memory(sum(len(page.body) for page in pages.values()))
        return StoredPull._loaded[1]


class PageStore:
    """Stored pulls of one venue, numbered 0001, 0002, … within each partition of a listing."""

    def __init__(self, storage: Storage, venue: str = "kalshi") -> None:
        self._storage = storage
        self._root = f"raw/{venue}_pages"

    def open(self, listing: str, partition: str, *, refresh: bool = False, reuse: Callable[[Note], bool] = bool) -> StoredPull:
        """Return the last pull of the partition if it is unfinished, or if `reuse` accepts its note; otherwise a new pull.

        refresh: always return a new pull, without reading the stored pages and notes, which may be damaged.
        """
        pulls = self._list(listing, partition)
        folder = max(pulls, default=f"{self._root}/{listing}/{partition}/0000")
        latest = self._open(folder, pulls) if pulls and not refresh else None
        if latest is not None and (latest.note is None or reuse(latest.note)):
            return latest
        return self.next_pull(StoredPull(self._storage, folder))

    def next_pull(self, pull: StoredPull) -> StoredPull:
        """Return a new, empty pull with the number after `pull`."""
        partition, number = pull.folder.rsplit("/", 1)
        return StoredPull(self._storage, f"{partition}/{int(number) + 1:04d}")

    def latest_finished(self, listing: str, partition: str) -> StoredPull | None:
        """Return the last finished pull of a partition; None if no pull is finished. Raises `LakeError` for an unreadable note."""
        pulls = self._list(listing, partition)
        finished = [folder for folder, names in pulls.items() if f"{folder}/{DONE}" in names]
        return self._open(max(finished), pulls) if finished else None

    def list_finished(self, listing: str) -> list[StoredPull]:
        """Return the last finished pull of each partition of a listing, sorted by partition."""
        prefix = f"{self._root}/{listing}"
        partitions = {entry.name.removeprefix(f"{prefix}/").split("/")[0] for entry in self._storage.files(prefix)}
        latest = [self.latest_finished(listing, partition) for partition in sorted(partitions)]
        return [pull for pull in latest if pull is not None]

    def vacuum(self, older_than: timedelta, now: datetime, *, keep: Collection[str] = ()) -> VacuumResult:
        """Delete pulls that have not changed for `older_than`, except the last one and the last finished one of each partition, those in
        `keep`, and the bases of all these.

        keep: folders of pulls, as in raw/<venue>_pulls. Raises `LakeError` if the grace period is too short.
        """
        require_grace_period(older_than)
        partitions: dict[str, dict[str, list[StorageEntry]]] = {}
        for entry in self._storage.files(self._root):
            folder = entry.name.rpartition("/")[0]
            partitions.setdefault(folder.rpartition("/")[0], {}).setdefault(folder, []).append(entry)
        deleted = []
        for pulls in partitions.values():
            finished = [folder for folder, entries in pulls.items() if any(entry.name.endswith(f"/{DONE}") for entry in entries)]
            kept = {max(pulls), *([max(finished)] if finished else []), *(set(keep) & pulls.keys())}
            kept |= {base for folder in kept & set(finished) if len(pulls) > 1 and (base := self._read_note(folder).get("base"))}
            for folder in pulls.keys() - kept:
                if max(entry.modified for entry in pulls[folder]) < now - older_than:
                    for entry in pulls[folder]:
                        self._storage.delete(entry.name)
                    self._storage.prune(folder)
                    deleted += pulls[folder]
        return VacuumResult(tuple(entry.name for entry in deleted), sum(entry.bytes for entry in deleted))

    def _list(self, listing: str, partition: str) -> dict[str, set[str]]:
        """Return the names of the files of each pull of a partition, by the pull's folder."""
        pulls: dict[str, set[str]] = {}
        for entry in self._storage.files(f"{self._root}/{listing}/{partition}"):
            pulls.setdefault(entry.name.rpartition("/")[0], set()).add(entry.name)
        return pulls

    def _open(self, folder: str, pulls: Mapping[str, set[str]]) -> StoredPull:
        note = self._read_note(folder) if f"{folder}/{DONE}" in pulls[folder] else None
        base = self._open(note["base"], pulls) if note and note.get("base") else None
        return StoredPull(self._storage, folder, files=[name for name in pulls[folder] if name.endswith(".parquet")], note=note, base=base)

    def _read_note(self, folder: str) -> Note:
        name = f"{folder}/{DONE}"
        try:
            return orjson.loads(self._storage.read(name) or b"")
        except orjson.JSONDecodeError as error:
            raise LakeError(
                f"reading {self._storage.location(name)}: it is no note of a finished pull ({error}); pull again with --refresh"
            ) from error


#: Receives a line of text every few pages.
Progress = Callable[[str], None]
#: Fetched pages between two lines of progress.
_PAGES_PER_LINE = 20
#: Status with which venues refuse a cursor that has expired.
_BAD_REQUEST = 400


class Puller:
    """Pull in progress; `requests` is the number of pages fetched from the venue."""

    def __init__(self, client: HttpClient, pull: StoredPull, progress: Progress | None = None) -> None:
        self.client = client
        self.pull = pull
        self.requests = 0
        self._progress = progress
        self._counts: Counter[str] = Counter()

    async def request_all(
        self,
        step: str,
        calls: Sequence[VenueCall],
        *,
        accept: frozenset[int] = frozenset(),
        client: HttpClient | None = None,
    ) -> None:
        """Make the calls of a step concurrently, except those whose response is stored, and store the responses. client: default: that of the
        pull. accept: see `HttpClient.fetch`.
        """
        if self.pull.note is not None:
            return
        client = client or self.client

        async def fetch(ordinal: int, call: VenueCall) -> None:
            stored = self.pull.find(step, ordinal)
            if stored is None or stored.request != call.request:
                self._store(step, await client.fetch(call, ordinal=ordinal, accept=accept))

        await together((partial(fetch, *numbered) for numbered in enumerate(calls)), most=client.limits.connections)
        self._counts[step] = len(calls)

    async def follow(self, step: str, listings: Iterable[Listing]) -> AsyncGenerator[VenuePage, None]:
        """Yield the pages of several listings in order, numbered consecutively; a finished pull yields its stored pages instead. The caller
        has to report holes (`Listing.is_hole`).
        """
        if self.pull.note is not None:
            for page in self.pull.pages(step):
                yield page
            return
        fetched: set[int] = set()

        async def fetch(call: VenueCall, *, ordinal: int) -> VenuePage:
            stored = self.pull.find(step, ordinal)
            if stored is not None and stored.request == call.request:
                return stored
            fetched.add(ordinal)
            return await self.client.fetch(call, ordinal=ordinal)

        for listing in listings:
            async with aclosing(iterate_pages(listing, fetch, first=self._counts[step], pause=self.client.pause, holes=True)) as pages:
                async for page in pages:
                    if page.ordinal in fetched:
                        self._store(step, page)
                    self._counts[step] += 1
                    yield page

    def pages(self, step: str) -> Iterator[VenuePage]:
        """Yield the stored pages of a step. A step that this pull has not begun is read from its base pull."""
        if self.pull.note is not None:
            return self.pull.pages(step)
        if step in self._counts:
            return (self.pull.page(step, ordinal) for ordinal in range(self._counts[step]))
        return self.pull.base.pages(step) if self.pull.base else iter(())

    def _store(self, step: str, page: VenuePage) -> None:
        self.pull.write(step, page)
        self.requests += 1
        if self._progress and self.requests % _PAGES_PER_LINE == 0:
            self._progress(f"{self.pull.folder}: {self.requests} pages so far, now {step} {page.ordinal}")

    def finish(self, note: Note) -> None:
        """Finish the pull, unless it is already finished."""
        if self.pull.note is None:
            self.pull.finish(self._counts, note)
            if self._progress:
                self._progress(f"{self.pull.folder}: done, {self.requests} pages fetched, {self._counts.total()} in all")


async def run_pull(
    client: HttpClient, store: PageStore, pull: StoredPull, work: Callable[[Puller], Awaitable[T]], progress: Progress | None
) -> T:
    """Run `work` on `pull`, and store what was fetched even if it fails. If the venue refuses a request of a pull that was interrupted, whose
    cursors may have expired, start again with a new pull.
    """
    was_interrupted = pull.note is None and bool(pull.steps)
    try:
        return await work(Puller(client, pull, progress))
    except RefusedError as refused:
        if not was_interrupted or refused.status != _BAD_REQUEST:
            raise
        return await run_pull(client, store, store.next_pull(pull), work, progress)
    finally:
        pull.flush()
