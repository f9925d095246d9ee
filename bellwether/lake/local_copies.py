"""Local copies of files in an object store, each downloaded once and verified against its checksum."""

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
from bellwether.lake.catalog import Manifest
from bellwether.lake.checksums import describe_repair_by_name, verify_checksum, verify_checksum_once
from bellwether.lake.storage import TEMPORARY, Storage, reading

#: Concurrent downloads.
_READERS = 16
#: Seconds after which an unused copy is deleted.
_UNUSED = 7 * 86_400.0
_ATTEMPTS = 3


class Copies:
    """Local copies of a lake's files in an object store. Each copy is named after its checksum.

    folder: shared by the processes of a machine; by default a temporary folder of this process. It may be deleted while no process runs.
    """

    def __init__(self, storage: Storage, folder: Path | None = None) -> None:
        self._storage, self._folder = storage, folder

    def local(self, manifests: Sequence[Manifest]) -> tuple[str, ...]:
        """Return paths of verified copies of the manifests' files. Raises `LakeError` for a missing or damaged file."""
        if not manifests:
            return ()
        folder = self._folder or Path(_temporary_folder().name)
        folder.mkdir(parents=True, exist_ok=True)
        _delete_unused(folder)
        with ThreadPoolExecutor(min(_READERS, len(manifests))) as pool:
            return tuple(pool.map(lambda manifest: self._open_copy(folder, manifest), manifests))

    def verify(self, manifest: Manifest) -> None:
        """Download a file again and verify its checksum. Raises `LakeError` for a damaged file, `FileNotFoundError` for a missing one."""
        location = self._storage.location(manifest.file)
        with tempfile.TemporaryDirectory(prefix="bellwether-") as folder, reading(location):
            self._fetch(manifest, location, Path(folder) / "file")

    def _open_copy(self, folder: Path, manifest: Manifest) -> str:
        """Return the path of the local copy of a file, downloaded if necessary."""
        path = folder / f"{manifest.sha256}.parquet"
        with suppress(LakeError, FileNotFoundError):
            verify_checksum_once(manifest, str(path))
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
            return str(path)
        location = self._storage.location(manifest.file)
        draft = path.with_name(f"{path.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            with reading(location):
                self._fetch(manifest, location, draft)
            os.replace(draft, path)
        except FileNotFoundError:
            advice = describe_repair_by_name(manifest.table, manifest.partition)
            raise LakeError(f"reading {location}: the file is missing although the catalog names it; {advice}") from None
        finally:
            draft.unlink(missing_ok=True)
        return str(path)

    def _fetch(self, manifest: Manifest, location: str, draft: Path) -> None:
        """Download a file to `draft`, with retries if its checksum differs from the manifest's."""
        for attempt in range(_ATTEMPTS):
            try:
                self._storage.download(manifest.file, draft)
                with draft.open("rb") as file:
                    verify_checksum(manifest, location, file)
            except LakeError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return


@cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that is deleted when the process ends. It is created on first use."""
    return tempfile.TemporaryDirectory(prefix="bellwether-lake-")


@cache
def _delete_unused(folder: Path) -> None:
    """Delete copies and drafts that were not used for a week. Does so once per process."""
    limit = time.time() - _UNUSED
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_atime < limit:
                path.unlink()
