"""Storage of the lake's files in an object store through fsspec. An object becomes visible only when it is complete."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from bellwether import places
from bellwether.lake.entries import StorageEntry, reading, writing


class ObjectStore:
    """Files of a lake as objects below a URL of any scheme that fsspec supports."""

    #: Arguments for reading a whole object.
    _whole: Mapping[str, Any] = {}

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        is_s3 = uri.partition("://")[0] in places.SCHEMES
        self.reader_options: Mapping[str, str] = places.resolve(options) if is_s3 else dict(options)
        root = places.open_store(uri, places.for_fsspec(self.reader_options) if is_s3 else options)
        self._fs = root.fs
        self.uri = str(root).rstrip("/")
        self._protocol, self._key = root.protocol, root.path.rstrip("/")

    def location(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        if not names:
            return {}
        keys = {f"{self._key}/{name}": name for name in names}
        contents = {}
        for path, content in self._fs.cat(list(keys), on_error="return", **self._whole).items():
            with suppress(FileNotFoundError), reading(f"{self._protocol}://{path}"), _errors():
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
            objects = self._find(prefix)
        entries = []
        for path, info in sorted(objects.items()):
            modified = info.get("LastModified")
            if not isinstance(modified, datetime):
                modified = self._fs.modified(path)
            entries.append(StorageEntry(path.removeprefix(f"{self._key}/"), info["size"], modified, modified))
        return entries

    def _find(self, prefix: str) -> dict[str, Any]:
        return self._fs.find(f"{self._key}/{prefix}", detail=True)

    def stash(self, name: str, data: bytes) -> None:
        self.put(name, data)

    def delete(self, name: str) -> None:
        with writing(self.location(name)), _errors(), suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._key}/{name}")

    def prune(self, prefix: str) -> None:
        """Do nothing, because a store has no folders of its own."""


class S3Store(ObjectStore):
    """Object store with conditional writes (S3 and compatible servers): an object is replaced only if it is unchanged since it was read."""

    # Otherwise s3fs sends a HEAD before each GET.
    _whole: Mapping[str, Any] = {"max_concurrency": 1}

    def get(self, name: str, etag: str | None = None) -> tuple[bytes, str] | None:
        """Return contents and ETag of an object. etag: return None instead if the object still has this ETag.

        Raises `FileNotFoundError` for a missing object, `OSError` if the store does not respond.
        """
        from fsspec.asyn import sync

        bucket, key, _ = self._fs.split_path(f"{self._key}/{name}")
        with _errors():
            try:
                answer = self._fs.call_s3("get_object", Bucket=bucket, Key=key, **({"IfNoneMatch": etag} if etag else {}))
            except OSError as error:
                if getattr(error.__cause__, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode") == 304:
                    return None
                raise
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

    def _find(self, prefix: str) -> dict[str, Any]:
        # Passed as a prefix of names: for an empty folder s3fs sends more requests.
        return self._fs.find(self._key, detail=True, prefix=f"{prefix}/" if prefix else "")


@contextmanager
def _errors() -> Iterator[None]:
    """Convert errors of the libraries below fsspec to `OSError`."""
    try:
        yield
    except OSError:
        raise
    except places.failures() as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
