"""Storage of the lake's files in a folder or an object store.

Files are always complete: written aside and renamed in a folder, stored as one finished object in a store.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from polars.exceptions import PolarsError

from bellwether import places
from bellwether.errors import LakeError
from bellwether.files import sync

#: Part of the name of every unfinished file.
TEMPORARY = ".tmp-"
#: A younger file may belong to a running writer that has not committed it yet.
MINIMUM_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """Stored file: name below the storage's root, size, and time (UTC) of the last write."""

    name: str
    bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class VacuumResult:
    """Deleted files: their names below the lake's root, and their total bytes."""

    files: tuple[str, ...]
    bytes: int


def require_grace_period(older_than: timedelta) -> None:
    """Raise `LakeError` if `older_than` is less than `MINIMUM_AGE`."""
    if older_than < MINIMUM_AGE:
        raise LakeError(
            f"vacuuming the lake: the grace period {older_than} is too short, a running writer may still need its files; give at least {MINIMUM_AGE}"
        )


@contextmanager
def writing(target: str) -> Iterator[None]:
    """Convert the error of a failed write to a `LakeError` that names `target`."""
    try:
        yield
    except (OSError, PolarsError) as error:
        raise LakeError(
            f"writing {target}: {error}. Nothing was published and the previous contents are unchanged; free space or fix its permissions, and run again"
        ) from error


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Convert the error of a failed read to a `LakeError` that names `source`. A `FileNotFoundError` is not converted."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, PolarsError) as error:
        advice = (
            "run again when the store answers"
            if "://" in source
            else "fix its permissions, or materialize that partition again if the file is damaged"
        )
        raise LakeError(f"reading {source}: {error}; {advice}") from error


class Folder:
    """Storage in a local folder.

    durable: whether writes survive a power failure; otherwise the system writes to disk later.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.uri = str(root)
        self._root = root
        self._durable = durable

    def location(self, name: str) -> str:
        """Return the absolute path or URL of a file."""
        return str(self._root / name)

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it is missing."""
        try:
            with reading(self.location(name)):
                return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def download(self, name: str, target: Path) -> None:
        """Copy a file to the new local file `target`. Raises `FileNotFoundError`."""
        shutil.copyfile(self._root / name, target)

    def put(self, name: str, data: bytes) -> None:
        """Store `data` under `name`, replacing an existing file atomically."""
        target = self._root / name
        with self.draft(name) as draft, writing(str(target)):
            draft.write_bytes(data)
            self._sync(draft)
            os.replace(draft, target)
            self._sync(target.parent)

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """Provide a local path at which the file `name` is built, to be stored with `publish`. The path is deleted when the block ends."""
        target = self._root / name
        with writing(str(target)):
            self._make(target.parent)
        path = target.with_name(f"{target.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def publish(self, draft: Path, name: str) -> bool:
        """Store the finished draft under `name`. Returns False and changes nothing if a file of that name exists."""
        target = self._root / name
        with writing(str(target)):
            self._sync(draft)
            try:
                os.link(draft, target)
            except FileExistsError:
                return False
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
        """List all files below the folder `prefix`. Returns no entries if the folder is missing."""
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
            yield StorageEntry(entry.path[root:], stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))

    def delete(self, name: str) -> None:
        """Delete one file, if that file exists."""
        (self._root / name).unlink(missing_ok=True)

    def prune(self, prefix: str) -> None:
        """Delete the empty folders below `prefix`."""
        for folder, _, _ in os.walk(self._root / prefix, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)


class S3Store:
    """Files as objects below a URL of S3 or a compatible server, with conditional writes."""

    def __init__(self, uri: str) -> None:
        root = places.open_store(uri, places.s3_options())
        self._fs = root.fs
        self.uri = str(root).rstrip("/")
        self._key = root.path.rstrip("/")

    def location(self, name: str) -> str:
        """Return the absolute path or URL of a file."""
        return f"{self.uri}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it is missing."""
        try:
            with reading(self.location(name)), _errors():
                # With more than one connection per object, s3fs sends a HEAD before the GET.
                return cast(bytes, self._fs.cat_file(f"{self._key}/{name}", max_concurrency=1))
        except FileNotFoundError:
            return None

    def download(self, name: str, target: Path) -> None:
        """Copy a file to the new local file `target`. Raises `FileNotFoundError`."""
        with _errors():
            self._fs.get_file(f"{self._key}/{name}", str(target))

    def put(self, name: str, data: bytes) -> None:
        """Store `data` under `name`, replacing an existing file atomically."""
        with writing(self.location(name)), _errors():
            self._fs.pipe_file(f"{self._key}/{name}", data)

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """Provide a local path at which the file `name` is built, to be stored with `publish`. The path is deleted when the block ends."""
        folder = Path(tempfile.mkdtemp(prefix="bellwether-"))
        try:
            yield folder / Path(name).name
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, draft: Path, name: str) -> bool:
        """Store the finished draft under `name`. Returns False and changes nothing if a file of that name exists."""
        with writing(self.location(name)), _errors():
            try:
                self._fs.put_file(str(draft), f"{self._key}/{name}", mode="create")
            except OSError as error:
                if not places.is_conflict(error):
                    raise
                return False
        return True

    def files(self, prefix: str) -> list[StorageEntry]:
        """List all files below the folder `prefix`. Returns no entries if the folder is missing."""
        with reading(self.location(prefix)), _errors():
            # As a prefix of names: for an empty folder s3fs sends more requests.
            objects = self._fs.find(self._key, detail=True, prefix=f"{prefix}/" if prefix else "")
        return [
            StorageEntry(path.removeprefix(f"{self._key}/"), info["size"], info["LastModified"]) for path, info in sorted(objects.items())
        ]

    def delete(self, name: str) -> None:
        """Delete one file, if that file exists."""
        with writing(self.location(name)), _errors(), suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._key}/{name}")

    def prune(self, prefix: str) -> None:
        """Do nothing, because a store has no folders of its own."""


Storage = Folder | S3Store


def open_storage(uri: str, *, durable: bool = True) -> Storage:
    """Return the storage at a folder or an `s3://` URL. durable: whether writes to a folder survive a power failure.

    Raises `ConfigError` for another scheme.
    """
    if "://" not in uri or uri.startswith("file://"):
        return Folder(Path(uri.removeprefix("file://")).expanduser().absolute(), durable=durable)
    return S3Store(uri)


@contextmanager
def _errors() -> Iterator[None]:
    """Convert errors of the libraries below fsspec to `OSError`."""
    try:
        yield
    except OSError:
        raise
    except places.failures() as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
