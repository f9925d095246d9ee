"""Places of a published warehouse: a local file, or an object store with one object per publication and a pointer to the latest.

Readers of a store open a copy in this machine's cache and keep it while newer publications arrive.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Protocol

from bellwether.database import AdvisoryLock
from bellwether.errors import LakeError
from bellwether.files import checksum, locked, sync, try_lock
from bellwether.lake import build
from bellwether.lake.storage import TEMPORARY, S3Store, reading, writing
from bellwether.settings import settings

#: Object that names the latest publication of a store.
POINTER = "pointer.json"
#: Retention of an object of a store after its upload. A reader whose download is interrupted by a deletion reads the pointer again.
GRACE = timedelta(days=1)
_TRIES = 4
_POLL_SECONDS = 0.05


class Place(Protocol):
    """Place of a published warehouse, of which each publication replaces the previous one.

    Attributes:
        name: absolute path or URL.
    """

    name: str

    def state(self) -> build.BuildState | None:
        """Return the build state (row of `meta.publication`) of the latest publication; None if there is no readable publication."""

    def modified(self) -> int:
        """Return the time of the latest publication in nanoseconds since 1970; 0 without a publication."""

    def open_file(self) -> AbstractContextManager[Path]:
        """Provide a local file with the latest publication until the block ends. Raises `LakeError` if nothing is published."""

    def lock_publishing(self, timeout: float) -> AbstractContextManager[None]:
        """Hold the publishers' lock until the block ends or the process dies. Raises `LakeError` after waiting `timeout` seconds."""

    def draft(self) -> Path:
        """Return a local path for building the next publication, and delete drafts of publishers that died. Requires the lock."""

    def remove_drafts(self) -> None:
        """Delete all drafts. Requires the lock."""

    def replace(self, draft: Path, built: build.BuildResult) -> bool:
        """Publish a finished draft.
        Return False if another publisher replaced the publication since `draft`. built: the result of building the draft.
        """


def open_place(where: Path | str) -> Place:
    """Return the place of a warehouse at a local path or an `s3://` URL. Raises `ConfigError` for another scheme."""
    name = str(where)
    if "://" not in name:
        return FilePlace(Path(name).expanduser().absolute())
    return StorePlace(S3Store(name))


class FilePlace:
    """Warehouse in a local file. A publication renames a draft over the file; readers that have the file open keep the previous one."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def state(self) -> build.BuildState | None:
        return build.read_state(self._path)

    def modified(self) -> int:
        try:
            return os.stat(self._path).st_mtime_ns
        except FileNotFoundError:
            return 0

    @contextmanager
    def open_file(self) -> Iterator[Path]:
        if not self._path.is_file():
            raise _not_published_error(f"there is no file {self._path}")
        yield self._path

    @contextmanager
    def lock_publishing(self, timeout: float) -> Iterator[None]:
        with writing(self.name):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with _file_lock(self._path.with_name(f"{self._path.name}.lock"), self.name, timeout):
            yield

    def draft(self) -> Path:
        self.remove_drafts()
        return self._path.with_name(f"{self._path.name}{TEMPORARY}{secrets.token_hex(4)}")

    def remove_drafts(self) -> None:
        _remove_files(self._path.parent, f"{glob.escape(self._path.name)}{TEMPORARY}*")

    def replace(self, draft: Path, built: build.BuildResult) -> bool:
        with writing(self.name):
            build.stamp_publication(draft, built.published_at)
            sync(draft)
            # Another tool may have left a log of the old file.
            self._path.with_name(f"{self._path.name}.wal").unlink(missing_ok=True)
            os.replace(draft, self._path)
            sync(self._path.parent)
        return True


@dataclass(frozen=True, slots=True)
class Pointer:
    """Contents of the pointer object in a store: the latest publication."""

    object: str
    size: int
    sha256: str
    state: build.BuildState

    def dump(self) -> bytes:
        """Serialize as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat, indent=1).encode()

    @classmethod
    def load(cls, text: bytes) -> Pointer:
        """Parse JSON. Raises `ValueError`, `KeyError` or `TypeError` if that is not a pointer of this version."""
        stored = json.loads(text)
        published_at = datetime.fromisoformat(stored["state"]["published_at"])
        state = build.BuildState(**{**stored["state"], "published_at": published_at})
        return cls(str(stored["object"]), int(stored["size"]), str(stored["sha256"]), state)


class StorePlace:
    """Warehouse below a URL of an object store: an immutable object per publication, and a pointer to the latest, replaced by a conditional write."""

    def __init__(self, store: S3Store) -> None:
        self.name = store.uri
        self._store = store
        self._cache = settings().cache_path / "warehouse" / hashlib.sha256(self.name.encode()).hexdigest()[:16]
        self._replaced: str | None = None

    def state(self) -> build.BuildState | None:
        pointer, _ = self._read_pointer()
        return pointer.state if pointer else None

    def modified(self) -> int:
        pointer, _ = self._read_pointer()
        return build.to_nanoseconds(pointer.state.published_at) if pointer else 0

    @contextmanager
    def open_file(self) -> Iterator[Path]:
        path, file = self._open_latest()
        with file:
            yield path

    @contextmanager
    def lock_publishing(self, timeout: float) -> Iterator[None]:
        postgres = settings().postgres
        with writing(str(self._cache)):
            self._cache.mkdir(parents=True, exist_ok=True)
        lock = (
            _postgres_lock(postgres.get_secret_value(), self.name, timeout)
            if postgres
            else _file_lock(self._cache / "publisher.lock", self.name, timeout)
        )
        with lock:
            yield

    def draft(self) -> Path:
        self.remove_drafts()
        _, self._replaced = self._read_pointer()
        return self._cache / f"draft{TEMPORARY}{secrets.token_hex(4)}"

    def remove_drafts(self) -> None:
        _remove_files(self._cache, f"draft{TEMPORARY}*")

    def replace(self, draft: Path, built: build.BuildResult) -> bool:
        build.stamp_publication(draft, built.published_at)
        state, name = build.read_state(draft), f"{built.published_at:%Y%m%dT%H%M%S%f}Z-{secrets.token_hex(8)}.duckdb"
        assert state is not None
        new = Pointer(name, draft.stat().st_size, checksum(draft), state)
        self._store.publish(draft, new.object)  # names are random: an existing object is this upload, retried
        if not self._switch_pointer(new, self._replaced):
            return False
        with suppress(OSError):
            os.replace(draft, self._cache / new.object)
        self._remove_unused(new.object)
        self._vacuum(new)
        return True

    def _switch_pointer(self, new: Pointer, etag: str | None) -> bool:
        """Make `new` the pointer if the present one still has `etag`. Returns True too if the write succeeded but its response was lost."""
        failure = None
        try:
            if self._store.swap(POINTER, new.dump(), etag):
                return True
        except OSError as error:
            failure = error
        pointer, current = self._read_pointer()
        if pointer and pointer.object == new.object:
            return True
        if failure and current == etag:
            raise LakeError(f"writing {self.name}/{POINTER}: {failure}. The previous publication stays; publish again") from failure
        return False

    def _vacuum(self, pointer: Pointer) -> None:
        """Delete objects other than the pointer's whose grace period is over, also uploads that were never published."""
        since = datetime.now(UTC) - GRACE
        with suppress(LakeError):  # deleted by the next publication
            for entry in self._store.files(""):
                if entry.name.endswith(".duckdb") and entry.modified < since and entry.name != pointer.object:
                    self._store.delete(entry.name)

    def _read_pointer(self) -> tuple[Pointer | None, str | None]:
        """Return the pointer and its ETag, or None for both if nothing is published."""
        try:
            with reading(f"{self.name}/{POINTER}"):
                text, etag = self._store.get(POINTER)
        except FileNotFoundError:
            return None, None
        try:
            return Pointer.load(text), etag
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LakeError(
                f"reading {self.name}/{POINTER}: it is damaged or of another version ({error!r}); delete it and publish again: `bellwether warehouse`"
            ) from error

    def _open_latest(self) -> tuple[Path, IO[bytes]]:
        """Open a local copy of the latest publication, locked against removal. Raises `LakeError` if nothing is published."""
        for _ in range(_TRIES):
            pointer, _ = self._read_pointer()
            if pointer is None:
                raise _not_published_error(f"nothing is published at {self.name}")
            with suppress(FileNotFoundError):  # replaced and removed meanwhile
                return self._open_cached(pointer)
        raise LakeError(f"opening the warehouse {self.name}: its object is missing; publish it again: `bellwether warehouse`")

    def _open_cached(self, pointer: Pointer) -> tuple[Path, IO[bytes]]:
        """Open a local copy of a publication, downloaded if necessary and locked against removal. Raises `FileNotFoundError` if its object is gone."""
        path = self._cache / pointer.object
        if not _is_intact_copy(path, pointer):
            with locked(self._cache / "download.lock"):
                if not _is_intact_copy(path, pointer):
                    self._download(pointer, path)
        file = path.open("rb")
        if try_lock(file, shared=True) and os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()
        raise FileNotFoundError(path)

    def _download(self, pointer: Pointer, path: Path) -> None:
        """Download a publication to `path` in the cache and verify its checksum. Requires the cache's lock."""
        _remove_files(self._cache, f"download{TEMPORARY}*")
        draft = self._cache / f"download{TEMPORARY}{secrets.token_hex(4)}"
        for _ in range(_TRIES):
            with reading(f"{self.name}/{pointer.object}"):
                self._store.download(pointer.object, draft)
            if draft.stat().st_size == pointer.size and checksum(draft) == pointer.sha256:
                build.stamp_publication(draft, pointer.state.published_at)
                os.replace(draft, path)
                self._remove_unused(pointer.object)
                return
        draft.unlink()
        raise LakeError(
            f"reading {self.name}/{pointer.object}: it is not the file that was published (size or checksum differ); publish it again: `bellwether warehouse`"
        )

    def _remove_unused(self, latest: str) -> None:
        """Delete cached publications other than `latest` that no reader has open."""
        for path in self._cache.glob("*.duckdb"):
            if path.name != latest:
                with suppress(FileNotFoundError), path.open("rb") as file:
                    if try_lock(file):
                        path.unlink()


def _is_intact_copy(path: Path, pointer: Pointer) -> bool:
    """Return True if a cached file is an unmodified copy of the publication."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (pointer.size, build.to_nanoseconds(pointer.state.published_at))


def _not_published_error(reason: str) -> LakeError:
    return LakeError(f"opening the warehouse: {reason}; publish it with `bellwether warehouse`, or create a first one with `make demo`")


def _remove_files(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink(missing_ok=True)


@contextmanager
def _file_lock(path: Path, place: str, timeout: float) -> Iterator[None]:
    """Hold the lock of this machine's publishers until the block ends. The system releases it if the process dies."""
    with writing(str(path)):
        file = path.open("w")
    with file:
        _wait_for_lock(lambda: try_lock(file), place, timeout)
        yield


@contextmanager
def _postgres_lock(url: str, place: str, timeout: float) -> Iterator[None]:
    """Hold the lock of all machines' publishers until the block ends."""
    key = int.from_bytes(hashlib.sha256(f"warehouse {place}".encode()).digest()[:8], signed=True)
    with closing(AdvisoryLock(url, key, "BELLWETHER_POSTGRES")) as lock:
        _wait_for_lock(lambda: lock.acquire(wait=False), place, timeout)
        yield


def _wait_for_lock(take: Callable[[], bool], place: str, timeout: float) -> None:
    """Call `take` until it succeeds. Raises `LakeError` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not take():
        if time.monotonic() > deadline:
            raise LakeError(
                f"publishing {place}: the lock of publishers was not free within {timeout:g} s; wait for the other publisher, or end it if it hangs"
            )
        time.sleep(_POLL_SECONDS)
