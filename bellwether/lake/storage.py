"""Storage of the lake's files in a folder or an object store.

Files are always complete: written aside and renamed in a folder, stored as one finished object in a store.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from bellwether import places
from bellwether.files import sync
from bellwether.lake.entries import TEMPORARY, StorageEntry, reading, writing
from bellwether.lake.object_store import ObjectStore, S3Store

__all__ = ["TEMPORARY", "Folder", "Storage", "StorageEntry", "open_storage", "reading", "writing"]


class Storage(Protocol):
    """Files below `uri`, an absolute folder or a URL. File names are relative to `uri`, with `/` as separator."""

    uri: str
    reader_options: Mapping[str, str]

    def location(self, name: str) -> str:
        """Return the absolute path or URL of a file."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents by name of those files in `names` that exist."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading. Raises `FileNotFoundError`."""

    def download(self, name: str, target: Path) -> None:
        """Copy a file to the new local file `target`. Raises `FileNotFoundError`."""

    def put(self, name: str, data: bytes) -> None:
        """Store `data` under `name`, replacing an existing file atomically."""

    def stash(self, name: str, data: bytes) -> None:
        """Store `data` like `put`, but do not wait until the data is on disk.
        A power failure may lose it, so it must be possible to compute it again.
        """

    def draft(self, name: str) -> AbstractContextManager[Path]:
        """Provide a local path at which the file `name` is built, to be stored with `publish`. The path is deleted when the block ends."""

    def publish(self, draft: Path, name: str) -> bool:
        """Store the finished draft under `name`. Returns False and changes nothing if a file of that name exists."""

    def files(self, prefix: str) -> list[StorageEntry]:
        """List all files below the folder `prefix`. Returns no entries if the folder is missing."""

    def delete(self, name: str) -> None:
        """Delete one file, if that file exists."""

    def prune(self, prefix: str) -> None:
        """Delete the empty folders below `prefix`, if the storage has folders."""


def open_storage(uri: str, options: Mapping[str, str] | None = None, *, durable: bool = True) -> Storage:
    """Return the storage at a folder or an object-store URL. durable: flush files of a folder to disk.

    Options of an `s3://` URL have the names of `bellwether.places`; those of other schemes are passed verbatim to fsspec and Polars.
    durable: whether writes to a folder survive a power failure. Raises `ConfigError` for an unknown option or scheme.
    """
    if "://" not in uri or uri.startswith("file://"):
        return Folder(Path(uri.removeprefix("file://")).expanduser().absolute(), durable=durable)
    return (S3Store if uri.split("://", 1)[0] in places.SCHEMES else ObjectStore)(uri, options or {})


class Folder:
    """Storage in a local folder.

    durable: whether writes survive a power failure; otherwise the system writes to disk later.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.uri = str(root)
        self.reader_options: Mapping[str, str] = {}
        self._root = root
        self._durable = durable

    def location(self, name: str) -> str:
        return str(self._root / name)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        contents = {}
        for name in names:
            with suppress(FileNotFoundError), reading(self.location(name)):
                contents[name] = (self._root / name).read_bytes()
        return contents

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
            if not _reserve_name(target):
                return False
            os.replace(draft, target)
            self._sync(target.parent)
        return True

    def _make(self, folder: Path) -> None:
        """Create a folder and its missing parents, flushed to disk if the storage is durable."""
        if folder.is_dir():
            return
        self._make(folder.parent)
        folder.mkdir(exist_ok=True)
        self._sync(folder.parent)

    def _sync(self, path: Path) -> None:
        """Flush a file or folder to disk if the storage is durable."""
        if self._durable:
            sync(path)

    def files(self, prefix: str) -> list[StorageEntry]:
        return sorted(self._walk(str(self._root / prefix), len(str(self._root / "x")) - 1), key=lambda entry: entry.name)

    def _walk(self, folder: str, root: int) -> Iterator[StorageEntry]:
        """Yield the files below `folder`. root: length of the prefix to remove from their paths."""
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
            yield StorageEntry(entry.path[root:], stat.st_size, modified, changed)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def prune(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self._root / prefix, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)


def _reserve_name(target: Path) -> bool:
    """Create an empty file under a free name, so that only one of several writers gets that name. Returns False if the name is taken."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True
