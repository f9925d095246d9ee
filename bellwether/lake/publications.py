"""Places of a published warehouse: a local file, or an object store with one object per publication and a pointer to the latest.

Readers of a store open a copy in this machine's cache and keep it while newer publications arrive.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from bellwether.errors import BellwetherError, LakeError
from bellwether.files import checksum, replace_version, sync, try_lock, version
from bellwether.lake import build
from bellwether.lake.checksums import Copies
from bellwether.lake.storage import TEMPORARY, S3Store, writing
from bellwether.places import place
from bellwether.settings import settings

#: Object that names the latest publication of a store.
POINTER = "pointer.json"
#: Advice for a warehouse that cannot be used.
PUBLISH_AGAIN = "publish it again: `bellwether warehouse`"
#: Retention of an object of a store after its upload. A reader whose download is interrupted by a deletion reads the pointer again.
GRACE = timedelta(days=1)
#: Retention of an unused copy of a publication. A reader that has one open keeps it.
_KEEP_COPY = timedelta(hours=1)
_POLL_SECONDS = 0.05

Build = Callable[[Path], build.Publication]


class FilePlace:
    """Warehouse in a local file. A publication renames a draft over the file; readers that have the file open keep the previous one.

    name: absolute path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def state(self) -> build.BuildState | None:
        """Return the build state (row of `meta.publication`) of the latest publication; None if there is no readable publication."""
        return build.read_state(self._path)

    @contextmanager
    def open_file(self) -> Iterator[Path]:
        """Provide a local file with the latest publication until the block ends. Raises `LakeError` if nothing is published."""
        if not self._path.is_file():
            raise _not_published_error(f"there is no file {self._path}")
        yield self._path

    def publish(self, build_file: Build, timeout: float) -> build.Publication:
        """Build a new file and replace the published one by it. Raises `LakeError` if another publisher is not done within `timeout` seconds.

        Files that dead publishers left are deleted.
        """
        with writing(self.name):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.with_name(f"{self._path.name}.lock").open("w")
        with file:
            self._wait_for_lock(file, timeout)
            self._remove_drafts()
            try:
                return self._replace(build_file)
            finally:
                self._remove_drafts()

    def _replace(self, build_file: Build) -> build.Publication:
        draft = self._path.with_name(f"{self._path.name}{TEMPORARY}{secrets.token_hex(4)}")
        publication = build_file(draft)
        with writing(self.name):
            sync(draft)
            # Another tool may have left a log of the old file.
            self._path.with_name(f"{self._path.name}.wal").unlink(missing_ok=True)
            os.replace(draft, self._path)
            sync(self._path.parent)
        return publication

    def _remove_drafts(self) -> None:
        for path in self._path.parent.glob(f"{glob.escape(self._path.name)}{TEMPORARY}*"):
            path.unlink(missing_ok=True)

    def _wait_for_lock(self, file: IO[str], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not try_lock(file):
            if time.monotonic() > deadline:
                raise LakeError(
                    f"publishing {self.name}: the lock of publishers was not free within {timeout:g} s; wait for the other publisher, or end "
                    "it if it hangs"
                )
            time.sleep(_POLL_SECONDS)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Contents of the pointer object in a store: the latest publication."""

    object: str
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
        return cls(str(stored["object"]), str(stored["sha256"]), state)


class StorePlace:
    """Warehouse below a URL of an object store: an immutable object per publication, and a pointer to the latest, replaced by a conditional write.

    name: the URL.
    """

    def __init__(self, url: str) -> None:
        self._store = S3Store(url)
        self.name = self._store.uri
        self._pointer = place(self._store.location(POINTER))
        self._cache = settings().cache_path / "warehouse"
        self._copies = Copies(self._store, self._cache, _KEEP_COPY)

    def state(self) -> build.BuildState | None:
        """Return the build state (row of `meta.publication`) of the latest publication; None if nothing is published."""
        pointer = self._read_pointer()
        return pointer.state if pointer else None

    @contextmanager
    def open_file(self) -> Iterator[Path]:
        """Provide a local file with the latest publication until the block ends. Raises `LakeError` if nothing is published."""
        yield self._fetch_latest()

    def publish(self, build_file: Build, timeout: float) -> build.Publication:
        """Build a new file, upload it, and make the pointer name it. If another publisher was faster, start again.

        Raises `LakeError` if others were faster for `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            known = version(self._pointer)
            publication = self._upload(build_file, known)
            if publication is not None:
                self._vacuum()
                return publication
            if time.monotonic() > deadline:
                raise LakeError(f"publishing {self.name}: other publishers were faster for {timeout:g} s; try again")

    def _upload(self, build_file: Build, known: str | None) -> build.Publication | None:
        """Publish a new file if the pointer still has the version `known`; otherwise return None."""
        with writing(str(self._cache)):
            self._cache.mkdir(parents=True, exist_ok=True)
        draft = self._cache / f"draft{TEMPORARY}{secrets.token_hex(4)}"
        try:
            publication, sha256 = build_file(draft), checksum(draft)
            state = build.read_state(draft)
            assert state is not None
            new = Pointer(f"{publication.published_at:%Y%m%dT%H%M%S%f}Z-{secrets.token_hex(8)}.duckdb", sha256, state)
            self._store.publish(draft, new.object)  # names are random: an existing object is this upload, retried
            if not self._switch_pointer(new, known):
                return None
            os.replace(draft, self._cache / f"{sha256}.duckdb")
            return publication
        finally:
            draft.unlink(missing_ok=True)

    def _switch_pointer(self, new: Pointer, known: str | None) -> bool:
        """Make `new` the pointer if the present one still has the version `known`. True too if the write succeeded but its response was lost."""
        failure = None
        try:
            if replace_version(self._pointer, new.dump(), known):
                return True
        except BellwetherError as error:
            failure = error
        pointer = self._read_pointer()
        if pointer and pointer.object == new.object:
            return True
        if failure:
            raise failure
        return False

    def _vacuum(self) -> None:
        """Delete objects other than the pointer's whose grace period is over, also uploads that were never published."""
        since = datetime.now(UTC) - GRACE
        with suppress(LakeError):  # deleted by the next publication
            pointer = self._read_pointer()
            for entry in self._store.files(""):
                if entry.name.endswith(".duckdb") and entry.modified < since and pointer and entry.name != pointer.object:
                    self._store.delete(entry.name)

    def _read_pointer(self) -> Pointer | None:
        """Return the pointer; None if nothing is published."""
        text = self._store.read(POINTER)
        if text is None:
            return None
        try:
            return Pointer.load(text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LakeError(f"reading {self.name}/{POINTER}: it is damaged or of another version ({error!r}); {PUBLISH_AGAIN}") from error

    def _fetch_latest(self) -> Path:
        """Return a local copy of the latest publication. Raises `LakeError` if nothing is published, or its object is damaged."""
        tried: Pointer | None = None
        while True:
            pointer = self._read_pointer()
            if pointer is None:
                raise _not_published_error(f"nothing is published at {self.name}")
            try:
                return self._copies.fetch(pointer.object, pointer.sha256, PUBLISH_AGAIN)
            except LakeError:
                if pointer == tried:
                    raise
                tried = pointer  # the object may have been replaced and deleted since the pointer was read


Place = FilePlace | StorePlace


def open_place(where: Path | str) -> Place:
    """Return the place of a warehouse at a local path or an `s3://` URL. Raises `ConfigError` for another scheme."""
    name = str(where)
    return StorePlace(name) if "://" in name else FilePlace(Path(name).expanduser().absolute())


def _not_published_error(reason: str) -> LakeError:
    return LakeError(f"opening the warehouse: {reason}; publish it with `bellwether warehouse`, or create a first one with `make demo`")
