"""Local copies of files in an object store: each is fetched once, compared with its checksum and never changes."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from bellwether.errors import LakeError
from bellwether.lake.checksums import compare, compare_once
from bellwether.lake.manifest import Manifest
from bellwether.lake.repair import remedy_of
from bellwether.lake.storage import TEMPORARY, Storage, reading

#: Files fetched at a time.
_READERS = 16
#: A copy that was not used for so many seconds is deleted.
_UNUSED = 7 * 86_400.0
_ATTEMPTS = 3


class Copies:
    """Copies of a lake's files in a folder, named after their checksums.

    folder: shared by the processes of a machine; one that ends with the process when left out. It may be deleted while no process runs.
    """

    def __init__(self, storage: Storage, folder: Path | None = None) -> None:
        self._storage, self._folder = storage, folder

    def local(self, manifests: Sequence[Manifest]) -> tuple[str, ...]:
        """Paths of whole copies of the files that the manifests name. Raises `LakeError` for a file that is missing or damaged."""
        if not manifests:
            return ()
        folder = self._folder or Path(_temporary().name)
        folder.mkdir(parents=True, exist_ok=True)
        _forget(folder)
        with ThreadPoolExecutor(min(_READERS, len(manifests))) as pool:
            return tuple(pool.map(lambda manifest: self._one(folder, manifest), manifests))

    def verify(self, manifest: Manifest) -> None:
        """Fetch a file whether or not there is a copy. Raises `LakeError` when it is damaged, `FileNotFoundError` when it is missing."""
        location = self._storage.location(manifest.file)
        with tempfile.TemporaryDirectory(prefix="bellwether-") as folder, reading(location):
            self._fetch(manifest, location, Path(folder) / "file")

    def _one(self, folder: Path, manifest: Manifest) -> str:
        path = folder / f"{manifest.sha256}.parquet"
        with suppress(LakeError, FileNotFoundError):
            compare_once(manifest, str(path))
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
            return str(path)
        location = self._storage.location(manifest.file)
        draft = path.with_name(f"{path.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            with reading(location):
                self._fetch(manifest, location, draft)
            os.replace(draft, path)
        except FileNotFoundError:
            advice = remedy_of(manifest.table, manifest.partition)
            raise LakeError(f"reading {location}: there is no such file although a manifest names it; {advice}") from None
        finally:
            draft.unlink(missing_ok=True)
        return str(path)

    def _fetch(self, manifest: Manifest, location: str, draft: Path) -> None:
        """Download a file until its bytes are those of the manifest."""
        for attempt in range(_ATTEMPTS):
            try:
                self._storage.download(manifest.file, draft)
                with draft.open("rb") as file:
                    compare(manifest, location, file)
            except LakeError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder that ends with the process."""
    return tempfile.TemporaryDirectory(prefix="bellwether-lake-")


@cache
def _forget(folder: Path) -> None:
    """Delete copies and drafts that no process has used for long; once per process."""
    before = time.time() - _UNUSED
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_atime < before:
                path.unlink()
