"""Store of verbatim pages, from which a pull can be resumed, and parsed again without requests.

A step is a named group of a pull's requests, and a page's ordinal is its number in the step. A pull may extend a finished one, its base.
The note of a finished pull is the JSON object in `done.json`.

`raw/<venue>_pages/<listing>/<partition>/<pull>/` contains a pull. During the pull each page is a file, `<step>/00000.page`; finally all
pages are in one file, `pages.parquet`, and `done.json`, written last, marks the pull as finished. Finished pulls never change: a refresh
creates the next pull.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from bellwether.errors import LakeError
from bellwether.lake.storage import Storage, StorageEntry, writing
from bellwether.lake.vacuum import VacuumResult, require_grace_period
from bellwether.venues.http import page_files
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.page_files import PAGES, PageFile

DONE = "done.json"

#: Maximum bytes of a pull's pages that stay in memory after they were stored, so that a small day is not read back.
CACHED_BYTES = 2**20

Note = Mapping[str, Any]


class _PageCache:
    """Cache of a pull: the open `pages.parquet`, and up to `CACHED_BYTES` of page bodies, without their parsed JSON."""

    def __init__(self) -> None:
        self.file: PageFile | None = None
        self._pages: dict[tuple[str, int], VenuePage] = {}
        self._bytes = 0

    def keep(self, step: str, page: VenuePage) -> None:
        """Add a page, unless the cached bodies would take too much memory."""
        previous = self._pages.pop((step, page.ordinal), None)
        self._bytes += len(page.body) - (len(previous.body) if previous else 0)
        if self._bytes <= CACHED_BYTES:
            self._pages[step, page.ordinal] = replace(page)
        else:
            self._bytes -= len(page.body)

    def page(self, step: str, ordinal: int) -> VenuePage | None:
        page = self._pages.get((step, ordinal))
        return replace(page) if page else None


@dataclass(frozen=True, slots=True)
class StoredPull:
    """Pages of one pull in a folder; the pull is finished if it has a note.

    folder: relative to the root of the storage. files: names of the files that existed when the pull was opened. note: `done.json`. base: the
    finished pull that this one extends; steps missing here are read from the base.
    """

    storage: Storage
    folder: str
    files: frozenset[str] = frozenset()
    note: Note | None = None
    cache: _PageCache = field(default_factory=_PageCache, repr=False, compare=False)
    base: StoredPull | None = None

    def find(self, step: str, ordinal: int) -> VenuePage | None:
        """Return a page that was stored before the pull was opened; None if it is missing or damaged and must be fetched."""
        return self._read_running(step, ordinal) if self.note is None else self._read_combined(step, ordinal)

    def pages(self, step: str) -> Iterator[VenuePage]:
        """Yield the pages of a step of a finished pull, in order. Raises `LakeError` if one is missing or damaged."""
        for ordinal in range(self.count(step)):
            yield self.page(step, ordinal)

    def count(self, step: str) -> int:
        """Return the number of pages of a step of a finished pull."""
        pages = self._finished()["pages"]
        return self.base.count(step) if self.base and step not in pages else int(pages.get(step, 0))

    def page(self, step: str, ordinal: int) -> VenuePage:
        """Return one page of a finished pull, or a page just written. Raises `LakeError` if it is missing or damaged."""
        if self.base and self.note and step not in self.note["pages"]:
            return self.base.page(step, ordinal)
        page = self.cache.page(step, ordinal) or (
            self._read_combined(step, ordinal) if self.note else self._read_running(step, ordinal, written=True)
        )
        if page is None:
            name = f"{self.folder}/{PAGES}" if self.note else self._name(step, ordinal)
            raise LakeError(
                f"reading the stored page {self.storage.location(name)}: page {ordinal} of {step} is gone or damaged; pull again with --refresh"
            )
        return page

    def write(self, step: str, page: VenuePage) -> None:
        """Store a page atomically. Raises `LakeError` if it cannot be stored.

        The page survives the end of the process, but not always a power loss.
        """
        self.storage.stash(self._name(step, page.ordinal), page_files.dump(page))
        self.cache.keep(step, page)

    def finish(self, pages: Mapping[str, int], note: Note) -> StoredPull:
        """Store all pages in one file, then the `note`, and return the finished pull. pages: number of pages by step. Raises `LakeError`
        for a missing or damaged page.
        """
        name = f"{self.folder}/{PAGES}"
        stored = ((step, self.page(step, ordinal)) for step, count in pages.items() for ordinal in range(count))
        with self.storage.draft(name) as draft:
            with writing(self.storage.location(name)):
                page_files.write(draft, stored)
            self.storage.delete(name)
            self.storage.publish(draft, name)
        self._close()
        for entry in self.storage.files(self.folder):
            if entry.name != name:
                self.storage.delete(entry.name)
        self.storage.prune(self.folder)
        note = {**note, "pages": dict(pages), **({"base": self.base.folder} if self.base else {})}
        self.storage.put(f"{self.folder}/{DONE}", orjson.dumps(note, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2))
        return StoredPull(self.storage, self.folder, frozenset({name}), note, self.cache, self.base)

    def has_begun(self, step: str) -> bool:
        """Return True if the pull had pages of a step when it was opened."""
        return any(name.startswith(f"{self.folder}/{step}/") for name in self.files)

    def _read_running(self, step: str, ordinal: int, *, written: bool = False) -> VenuePage | None:
        """Read a page of a pull in progress from its own file or `pages.parquet`.
        written: the page's own file may be newer than the opening of the pull.
        """
        name = self._name(step, ordinal)
        if written or name in self.files:
            stored = self.storage.read([name]).get(name)
            page = page_files.load(stored) if stored is not None else None
            if page is not None:
                return page
        return self._read_combined(step, ordinal)

    def _read_combined(self, step: str, ordinal: int) -> VenuePage | None:
        """Read a page from `pages.parquet`."""
        if f"{self.folder}/{PAGES}" not in self.files:
            return None
        if self.cache.file is None:
            self.cache.file = PageFile.open(self.storage, f"{self.folder}/{PAGES}")
        return self.cache.file.page(step, ordinal) if self.cache.file else None

    def _close(self) -> None:
        if self.cache.file is not None:
            self.cache.file.close()
            self.cache.file = None

    def _finished(self) -> Note:
        if self.note is None:
            raise LakeError(f"reading the pull {self.folder}: it is not finished; run it again to complete it")
        return self.note

    def _name(self, step: str, ordinal: int) -> str:
        return f"{self.folder}/{step}/{ordinal:05d}.page"


class PageStore:
    """Stored pulls of one venue, numbered 0001, 0002, … within each partition of a listing."""

    def __init__(self, storage: Storage, venue: str = "kalshi") -> None:
        self._storage = storage
        self._root = f"raw/{venue}_pages"

    def open(self, listing: str, partition: str, *, refresh: bool = False, reuse: Callable[[Note], bool] = bool) -> StoredPull:
        """Return the last pull of the partition if it is unfinished, or if `reuse` accepts its note; otherwise a new pull.

        refresh: always return a new pull, without reading the stored pages and notes, which may be damaged.
        """
        folder, names = self._latest(listing, partition)
        if not names:
            return StoredPull(self._storage, folder)
        latest = StoredPull(self._storage, folder) if refresh else self._pull(folder, names)
        if not refresh and (latest.note is None or reuse(latest.note)):
            return latest
        return self.next_pull(latest)

    def next_pull(self, pull: StoredPull) -> StoredPull:
        """Return a new, empty pull with the number after `pull`."""
        partition, number = pull.folder.rsplit("/", 1)
        return StoredPull(self._storage, f"{partition}/{int(number) + 1:04d}")

    def latest(self, listing: str, partition: str) -> StoredPull | None:
        """Return the last pull of a partition, finished or not; None if it has no pull. Raises `LakeError` for an unreadable note."""
        folder, names = self._latest(listing, partition)
        return self._pull(folder, names) if names else None

    def _latest(self, listing: str, partition: str) -> tuple[str, list[str]]:
        """Return the folder of the partition's last pull (number 0001 if there is no pull yet), and the files of all pulls of the
        partition.
        """
        prefix = f"{self._root}/{listing}/{partition}"
        names = [entry.name for entry in self._storage.files(prefix)]
        numbers = {name.removeprefix(f"{prefix}/").split("/")[0] for name in names}
        return f"{prefix}/{max(numbers, key=int, default='0001')}", names

    def latest_finished(self, listing: str, partition: str) -> StoredPull | None:
        """Return the last finished pull of a partition; None if no pull is finished. Raises `LakeError` for an unreadable note."""
        names = [entry.name for entry in self._storage.files(f"{self._root}/{listing}/{partition}")]
        ended = [name.removesuffix(f"/{DONE}") for name in names if name.endswith(f"/{DONE}")]
        return self._pull(max(ended, key=lambda folder: int(folder.rsplit("/", 1)[1])), names) if ended else None

    def _pull(self, folder: str, names: list[str]) -> StoredPull:
        files = frozenset(name for name in names if name.startswith(f"{folder}/"))
        note = self._note(f"{folder}/{DONE}") if f"{folder}/{DONE}" in files else None
        base = self._pull(note["base"], names) if note and note.get("base") else None
        return StoredPull(self._storage, folder, files, note, base=base)

    def list_finished(self, listing: str) -> list[StoredPull]:
        """Return the last pull of each partition of a listing, sorted by partition; unfinished pulls are left out."""
        prefix = f"{self._root}/{listing}"
        partitions = {entry.name.removeprefix(f"{prefix}/").split("/")[0] for entry in self._storage.files(prefix)}
        latest = [self.latest(listing, partition) for partition in sorted(partitions)]
        return [pull for pull in latest if pull is not None and pull.note is not None]

    def vacuum(self, older_than: timedelta, now: datetime, *, keep: Collection[str] = ()) -> VacuumResult:
        """Delete pulls that have not changed for `older_than`, except the last one of each partition and those in `keep`.

        keep: folders of pulls, as in raw/<venue>_pulls; their base pulls are kept too. Raises `LakeError` if the grace period is too short.
        """
        require_grace_period(older_than)
        pulls: dict[str, dict[int, list[StorageEntry]]] = {}
        for entry in self._storage.files(self._root):
            partition, number = split_name(entry.name, self._root)
            pulls.setdefault(partition, {}).setdefault(number, []).append(entry)
        deleted = []
        for partition, numbers in pulls.items():
            protected = self._list_protected(partition, numbers, keep)
            for number, entries in numbers.items():
                if number not in protected and max(entry.modified for entry in entries) < now - older_than:
                    for entry in entries:
                        self._storage.delete(entry.name)
                    self._storage.prune(f"{self._root}/{partition}/{number:04d}")
                    deleted += entries
        return VacuumResult(tuple(entry.name for entry in deleted), sum(entry.bytes for entry in deleted))

    def _list_protected(self, partition: str, numbers: Collection[int], keep: Collection[str]) -> set[int]:
        """Return the numbers of the pulls to keep: the last, the last finished, those in `keep`, and the finished pulls that any of these
        extends.
        """
        if len(numbers) == 1:
            return set(numbers)
        listing, name = partition.split("/")
        ended = self.latest_finished(listing, name)
        folders = {f"{self._root}/{partition}/{max(numbers):04d}", *((ended.folder,) if ended else ()), *keep}
        named = {number for number in numbers if f"{self._root}/{partition}/{number:04d}" in folders}
        notes = [f"{self._root}/{partition}/{number:04d}/{DONE}" for number in named]
        bases = [self._note(note).get("base") for note in self._storage.read(notes)]
        return named | {int(base.rsplit("/", 1)[1]) for base in bases if base}

    def _note(self, name: str) -> Note:
        try:
            return orjson.loads(self._storage.read([name])[name])
        except (KeyError, orjson.JSONDecodeError) as error:
            raise LakeError(
                f"reading {self._storage.location(name)}: it is no note of a finished pull ({error}); pull again with --refresh"
            ) from error


def split_name(name: str, root: str) -> tuple[str, int]:
    """Split the name of a file below `root` into "listing/partition" and the number of the pull."""
    listing, partition, number, *_ = name.removeprefix(f"{root}/").split("/")
    return f"{listing}/{partition}", int(number)
