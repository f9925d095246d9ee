"""Catalog of a lake's manifests (which file each partition has): in a folder one file each, on an object store one index per table.

Both are read as small texts by name, such as `clean/prices/2026-03-09/manifest.json`.
"""

from __future__ import annotations

import gzip
import random
import secrets
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

import orjson

from bellwether.errors import LakeError
from bellwether.lake.manifest import FILE_NAME, NOTE_NAME
from bellwether.lake.object_store import S3Store
from bellwether.lake.storage import Storage, writing

#: Folder of the indexes below the lake's root.
INDEX = "_index"
_SUFFIX = ".json.gz"
_VERSION = 1
#: Number of commits listed in an index. A writer that lost a response finds out whether its commit was applied.
_COMMITS = 64
#: Seconds for which a commit is retried on conflicts and missing responses.
PATIENCE = 60.0
#: Attempts to read an index whose download is incomplete.
_ATTEMPTS = 4
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, ValueError, KeyError)

#: Indexes as this process last read or wrote them, with their ETags, by endpoint and place.
_cached_indexes: dict[tuple[str, str], tuple[bytes, str]] = {}


class Catalog(Protocol):
    """Storage of manifests and input records as small texts, grouped by table. `table` is `group/name`."""

    def names(self, table: str, listed: Iterable[str] | None = None) -> list[str]:
        """Return the names of all texts of a table. listed: names of all files of the table, if the caller has already listed them."""

    def read(self, table: str, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Return the texts of a table by name: those of `names` that exist, or by default all."""

    def put(self, table: str, changes: Mapping[str, bytes | None]) -> None:
        """Store each text of `changes` under its name. None deletes the text."""

    def marks(self, tables: Iterable[str]) -> dict[str, str | None]:
        """Return per table a change mark, a text that differs after each change.
        "" for a table without changes so far; None if the catalog has no marks.
        """


class FileCatalog:
    """Catalog of a lake in a folder: each text is a file."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def names(self, table: str, listed: Iterable[str] | None = None) -> list[str]:
        names = (entry.name for entry in self._storage.files(table)) if listed is None else listed
        return [name for name in names if name.endswith((f"/{FILE_NAME}", f"/{NOTE_NAME}"))]

    def read(self, table: str, names: Sequence[str] | None = None) -> dict[str, bytes]:
        return self._storage.read(self.names(table) if names is None else names)

    def put(self, table: str, changes: Mapping[str, bytes | None]) -> None:
        # Touch before writing too: a writer killed in between leaves a changed mark.
        self._touch(table)
        for name, text in changes.items():
            if text is None:
                self._storage.delete(name)
            else:
                self._storage.put(name, text)
        self._touch(table)

    def _touch(self, table: str) -> None:
        with suppress(FileNotFoundError):
            self._storage.touch(table)

    def marks(self, tables: Iterable[str]) -> dict[str, str | None]:
        return {table: self._storage.mark(table) for table in tables}


class IndexCatalog:
    """Catalog of a lake in an object store: all texts of a table are in one object, the index, which is replaced only if unchanged since it was read.

    A table without an index was written by version 0.3 or earlier. Its texts are files until the first commit copies them into an index.
    """

    def __init__(self, storage: S3Store) -> None:
        self._storage, self._files = storage, FileCatalog(storage)

    def names(self, table: str, listed: Iterable[str] | None = None) -> list[str]:
        return list(self.read(table))

    def read(self, table: str, names: Sequence[str] | None = None) -> dict[str, bytes]:
        index, _ = self._fetch(table)
        if index is None:
            return self._files.read(table, names)
        wanted = index["texts"] if names is None else [name for name in names if name in index["texts"]]
        return {name: index["texts"][name].encode() for name in wanted}

    def put(self, table: str, changes: Mapping[str, bytes | None]) -> None:
        commit, deadline = secrets.token_hex(8), time.monotonic() + PATIENCE
        cached = _cached_indexes.get(self._place(table))
        index, etag = (_load(cached[0]), cached[1]) if cached else self._fetch(table)
        with writing(self._storage.location(_index_name(table))):
            for attempt in count():
                if index is not None and commit in index["commits"]:
                    return  # applied; only the response was lost
                try:
                    if self._swap(table, _apply_changes(index or self._new_index(table), changes, commit), etag):
                        return
                    failure: OSError | None = None
                except (FileNotFoundError, PermissionError):
                    raise
                except OSError as error:
                    failure = error
                if time.monotonic() > deadline:
                    raise failure or OSError(f"{attempt + 1} attempts conflicted with commits of other writers")
                time.sleep(random.uniform(0, min(2.0, 0.02 * 2**attempt)))
                index, etag = self._fetch(table)

    def marks(self, tables: Iterable[str]) -> dict[str, str | None]:
        etags = {entry.name: entry.etag for entry in self._storage.files(INDEX)}
        return {table: etags.get(_index_name(table), "") for table in tables}

    def _place(self, table: str) -> tuple[str, str]:
        return self._storage.reader_options.get("aws_endpoint_url", ""), self._storage.location(_index_name(table))

    def _fetch(self, table: str) -> tuple[dict[str, Any] | None, str | None]:
        """Return the index of a table and its ETag, or None for both if the table has no index.

        Raises `LakeError` if the index is damaged or the store does not respond.
        """
        name, place = _index_name(table), self._place(table)
        for attempt in range(_ATTEMPTS):
            data, etag = _cached_indexes.get(place, (b"", None)) if attempt == 0 else (b"", None)
            try:
                if response := self._storage.get(name, etag):
                    data, etag = response
                index = _load(data)
            except FileNotFoundError:
                _cached_indexes.pop(place, None)
                return None, None
            except (OSError, *_DAMAGED) as error:
                answered = getattr(error.__cause__, "response", None) is not None
                if answered or attempt == _ATTEMPTS - 1:
                    raise _read_error(self._storage.location(name), error) from error
                time.sleep(0.1 * 2**attempt)
            else:
                _cached_indexes[place] = data, str(etag)
                return index, etag
        raise AssertionError("the last attempt returns or raises")

    def _new_index(self, table: str) -> dict[str, Any]:
        """Create the first index of a table from its text files, which version 0.3 and earlier wrote."""
        return {
            "version": _VERSION,
            "commits": [],
            "texts": {name: text.decode(errors="replace") for name, text in self._files.read(table).items()},
        }

    def _swap(self, table: str, index: dict[str, Any], etag: str | None) -> bool:
        """Store an index if its object still has `etag` (None: if there is no object). Return False if another writer was faster."""
        data = gzip.compress(orjson.dumps(index), compresslevel=3, mtime=0)
        new_etag = self._storage.swap(_index_name(table), data, etag)
        if new_etag is None:
            return False
        if etag is None and self._storage.swap(_index_name(table), data, '"of no object"'):
            raise LakeError(
                f"writing {self._storage.location(_index_name(table))}: the store ignores If-Match, so commits would be lost; "
                "use a store with conditional writes, or a folder"
            )
        _cached_indexes[self._place(table)] = data, new_etag
        return True


def open_catalog(storage: Storage) -> Catalog:
    """Return the catalog for a lake's storage: an index per table on S3, files elsewhere."""
    return IndexCatalog(storage) if isinstance(storage, S3Store) else FileCatalog(storage)


def _index_name(table: str) -> str:
    return f"{INDEX}/{table}{_SUFFIX}"


def _read_error(location: str, error: Exception) -> LakeError:
    if isinstance(error, _DAMAGED):
        return LakeError(f"reading {location}: the index is damaged ({error}); restore an older version of the object")
    return LakeError(f"reading {location}: the store did not return it ({error}); try again when the store answers")


def _load(data: bytes) -> dict[str, Any]:
    index: dict[str, Any] = orjson.loads(gzip.decompress(data))
    if index["version"] != _VERSION:
        raise LakeError(f"reading an index of the lake: its version is {index['version']}, this code reads {_VERSION}; update bellwether")
    return index


def _apply_changes(index: Mapping[str, Any], changes: Mapping[str, bytes | None], commit: str) -> dict[str, Any]:
    """Return the index with changed texts. commit: id by which a repeated commit is recognized."""
    unchanged = {name: text for name, text in index["texts"].items() if name not in changes}
    new = {name: text.decode(errors="replace") for name, text in changes.items() if text is not None}
    return {"version": _VERSION, "commits": [*index["commits"], commit][-_COMMITS:], "texts": dict(sorted({**unchanged, **new}.items()))}
