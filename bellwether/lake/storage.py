"""Storage of the lake's files in a folder or an object store.

Files are always complete: written aside and renamed in a folder, stored as one finished object in a store.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

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
    """Stored file: name below the storage's root, size, and times (UTC) of the last write and of the last change of any kind.

    A copy or move may keep `modified` of a local file, never `changed`.
    """

    name: str
    bytes: int
    modified: datetime
    changed: datetime


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


class Storage(Protocol):
    """Files below `uri`, an absolute folder or a URL. File names are relative to `uri`, with `/` as separator."""

    uri: str

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


def open_storage(uri: str, *, durable: bool = True) -> Storage:
    """Return the storage at a folder or an `s3://` URL. durable: whether writes to a folder survive a power failure.

    Raises `ConfigError` for another scheme.
    """
    if "://" not in uri or uri.startswith("file://"):
        return Folder(Path(uri.removeprefix("file://")).expanduser().absolute(), durable=durable)
    return S3Store(uri)


class Folder:
    """Storage in a local folder.

    durable: whether writes survive a power failure; otherwise the system writes to disk later.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.uri = str(root)
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


class S3Store:
    """Files as objects below a URL of S3 or a compatible server, with conditional writes."""

    def __init__(self, uri: str) -> None:
        root = places.open_store(uri, places.s3_options())
        self._fs = root.fs
        self.uri = str(root).rstrip("/")
        self._key = root.path.rstrip("/")

    def location(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        if not names:
            return {}
        keys = {f"{self._key}/{name}": name for name in names}
        contents = {}
        # With more than one connection per object, s3fs sends a HEAD before each GET.
        for path, content in self._fs.cat(list(keys), on_error="return", max_concurrency=1).items():
            with suppress(FileNotFoundError), reading(f"s3://{path}"), _errors():
                if isinstance(content, Exception):
                    raise content
                contents[keys[path]] = content
        return contents

    def open(self, name: str) -> BinaryIO:
        return self._fs.open(f"{self._key}/{name}", "rb")

    def download(self, name: str, target: Path) -> None:
        with _errors():
            self._fs.get_file(f"{self._key}/{name}", str(target))

    def put(self, name: str, data: bytes) -> None:
        with writing(self.location(name)), _errors():
            self._fs.pipe_file(f"{self._key}/{name}", data)

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="bellwether-"))
        try:
            yield folder / Path(name).name
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, draft: Path, name: str) -> bool:
        with writing(self.location(name)), _errors():
            try:
                self._fs.put_file(str(draft), f"{self._key}/{name}", mode="create")
            except OSError as error:
                if not places.is_conflict(error):
                    raise
                return False
        return True

    def files(self, prefix: str) -> list[StorageEntry]:
        with reading(self.location(prefix)), _errors():
            # As a prefix of names: for an empty folder s3fs sends more requests.
            objects = self._fs.find(self._key, detail=True, prefix=f"{prefix}/" if prefix else "")
        return [
            StorageEntry(path.removeprefix(f"{self._key}/"), info["size"], info["LastModified"], info["LastModified"])
            for path, info in sorted(objects.items())
        ]

    def delete(self, name: str) -> None:
        with writing(self.location(name)), _errors(), suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._key}/{name}")

    def prune(self, prefix: str) -> None:
        """Do nothing, because a store has no folders of its own."""

    def get(self, name: str) -> tuple[bytes, str]:
        """Return contents and ETag of an object. Raises `FileNotFoundError` for a missing object, `OSError` if the store does not respond."""
        from fsspec.asyn import sync

        bucket, key, _ = self._fs.split_path(f"{self._key}/{name}")
        with _errors():
            answer = self._fs.call_s3("get_object", Bucket=bucket, Key=key)
            with closing(answer["Body"]) as body:
                return sync(self._fs.loop, body.read), answer["ETag"]

    def swap(self, name: str, data: bytes, etag: str | None) -> str | None:
        """Replace the object whose ETag is `etag`, or with None create it. Return the new ETag, or None if another writer was faster.

        Raises `OSError` if the store does not respond: it may have replaced the object nevertheless.
        """
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        with _errors():
            try:
                return str(self._fs.pipe_file(f"{self._key}/{name}", data, **condition)["ETag"])
            except OSError as error:
                is_gone = isinstance(error, FileNotFoundError) and etag is not None
                if not is_gone and not places.is_conflict(error):
                    raise
                return None


@contextmanager
def _errors() -> Iterator[None]:
    """Convert errors of the libraries below fsspec to `OSError`."""
    try:
        yield
    except OSError:
        raise
    except places.failures() as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
