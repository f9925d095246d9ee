"""Where the lake's files are: a folder or an object store, behind the few operations that keep a lake whole.

Whatever is stored under a name is whole: written aside and renamed in a folder, one finished object in a store.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from bellwether import places
from bellwether.files import sync
from bellwether.lake.entries import TEMPORARY, Entry, reading, writing
from bellwether.lake.object_store import ObjectStore, S3Store

__all__ = ["TEMPORARY", "Entry", "Folder", "Storage", "open_storage", "reading", "writing"]


class Storage(Protocol):
    """A tree of files below `uri`, an absolute folder or a URL; names are relative to it and separated by `/`."""

    uri: str
    reader_options: Mapping[str, str]

    def location(self, name: str) -> str:
        """Absolute name of a file for readers: a path or a URL."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Contents of those of `names` that exist."""

    def open(self, name: str) -> BinaryIO:
        """The file, to be read in pieces; raises `FileNotFoundError`."""

    def download(self, name: str, target: Path) -> None:
        """Copy the whole file to the new local file `target`; raises `FileNotFoundError`."""

    def put(self, name: str, data: bytes) -> None:
        """Store `data` under `name`, replacing at one instant what was there."""

    def stash(self, name: str, data: bytes) -> None:
        """As `put`, for what can be had again: a loss of power, though not the end of the process, may take it away or damage it."""

    def draft(self, name: str) -> AbstractContextManager[Path]:
        """A local path at which to build the file `name`; nothing is left there afterwards."""

    def publish(self, draft: Path, name: str) -> bool:
        """Store the finished draft under `name`; False, and nothing changes, when the name is taken."""

    def files(self, prefix: str) -> list[Entry]:
        """Every file below the folder `prefix`; none when there is no such folder."""

    def delete(self, name: str) -> None:
        """Remove one file; nothing happens when it is already gone."""

    def prune(self, prefix: str) -> None:
        """Remove the empty folders below the folder `prefix`, where folders are more than a part of names."""

    def touch(self, folder: str) -> None:
        """Give the existing folder another mark. It may be lost when the power fails."""

    def mark(self, folder: str) -> str | None:
        """A text that changes when the folder is touched or gets or loses an entry, "" while there is no such folder; None where there are no marks."""


def open_storage(uri: str, options: Mapping[str, str] | None = None, *, durable: bool = True) -> Storage:
    """Storage at a folder or an object-store URL.

    `options` of an `s3://` URL carry the names of `bellwether.places`; those of another scheme go to its fsspec
    filesystem and to Polars as they are. durable: whether what is stored in a folder survives a loss of power. Raises `ConfigError` for an option or a scheme that nothing understands.
    """
    if "://" not in uri or uri.startswith("file://"):
        return Folder(Path(uri.removeprefix("file://")).expanduser().absolute(), durable=durable)
    return (S3Store if uri.split("://", 1)[0] in places.SCHEMES else ObjectStore)(uri, options or {})


class Folder:
    """A tree of files in a local folder.

    durable: whether what is stored survives a loss of power. Otherwise the system writes it to the disk when it likes.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.uri = str(root)
        self.reader_options: Mapping[str, str] = {}
        self._root = root
        self._durable = durable

    def location(self, name: str) -> str:
        return str(self._root / name)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            with suppress(FileNotFoundError), reading(self.location(name)):
                found[name] = (self._root / name).read_bytes()
        return found

    def open(self, name: str) -> BinaryIO:
        return (self._root / name).open("rb")

    def download(self, name: str, target: Path) -> None:
        shutil.copyfile(self._root / name, target)

    def put(self, name: str, data: bytes) -> None:
        target = self._root / name
        with self.draft(name) as draft, writing(str(target)):
            draft.write_bytes(data)
            self._sync(draft)
            os.replace(draft, target)
            self._sync(target.parent)

    def stash(self, name: str, data: bytes) -> None:
        target = self._root / name
        path = target.with_name(f"{target.name}{TEMPORARY}{secrets.token_hex(4)}")
        with writing(str(target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.write_bytes(data)
                os.replace(path, target)
            except OSError:
                path.unlink(missing_ok=True)
                raise

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        target = self._root / name
        with writing(str(target)):
            self._make(target.parent)
        path = target.with_name(f"{target.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def publish(self, draft: Path, name: str) -> bool:
        target = self._root / name
        with writing(str(target)):
            self._sync(draft)
            if not _claim(target):
                return False
            os.replace(draft, target)
            self._sync(target.parent)
        return True

    def _make(self, folder: Path) -> None:
        """Create `folder` and its parents."""
        if folder.is_dir():
            return
        self._make(folder.parent)
        folder.mkdir(exist_ok=True)
        self._sync(folder.parent)

    def _sync(self, path: Path) -> None:
        if self._durable:
            sync(path)

    def files(self, prefix: str) -> list[Entry]:
        return sorted(self._walk(str(self._root / prefix), len(str(self._root / "x")) - 1), key=lambda entry: entry.name)

    def _walk(self, folder: str, root: int) -> Iterator[Entry]:
        """The files below `folder`; the first `root` characters of their paths are the tree's."""
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(entry.path, root)
                continue
            try:
                stat = entry.stat()
            except FileNotFoundError:
                continue
            modified, changed = (datetime.fromtimestamp(seconds, UTC) for seconds in (stat.st_mtime, stat.st_ctime))
            yield Entry(entry.path[root:], stat.st_size, modified, changed)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def prune(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self._root / prefix, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)

    def touch(self, folder: str) -> None:
        # The kernel's own stamps are some milliseconds coarse: two changes within them would look like one.
        now = time.time_ns()
        os.utime(self._root / folder, ns=(now, now))

    def mark(self, folder: str) -> str | None:
        try:
            return str(os.stat(self._root / folder).st_mtime_ns)
        except FileNotFoundError:
            return ""


def _claim(target: Path) -> bool:
    """Take a free name with an empty file, so that of two writers only one gets it; False when it is taken."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True
