"""Local copies of files in an object store, each downloaded once per machine and verified against its checksum."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path

from bellwether.errors import LakeError
from bellwether.lake.catalog import Manifest
from bellwether.lake.checksums import describe_repair, find_damage
from bellwether.lake.storage import TEMPORARY, Storage, reading

#: Concurrent downloads.
_READERS = 16
_ATTEMPTS = 3


class Copies:
    """Local copies of immutable files in an object store. Each copy is named after its checksum.

    folder: shared by the processes of a machine. It may be deleted while no process runs. keep: time after which an unused copy is deleted.
    """

    def __init__(self, storage: Storage, folder: Path, keep: timedelta = timedelta(days=7)) -> None:
        self._storage, self._folder, self._keep = storage, folder, keep

    def local(self, manifests: Sequence[Manifest]) -> tuple[str, ...]:
        """Return paths of verified copies of the manifests' files. Raises `LakeError` for a missing or damaged file."""
        with ThreadPoolExecutor(_READERS) as pool:
            return tuple(pool.map(self._open_copy, manifests))

    def _open_copy(self, manifest: Manifest) -> str:
        return str(self.fetch(manifest.file, manifest.sha256, describe_repair(manifest.table, manifest.partition)))

    def verify(self, manifest: Manifest) -> None:
        """Download a file again and verify its checksum. Raises `LakeError` for a missing or damaged file."""
        with tempfile.TemporaryDirectory(prefix="bellwether-") as folder:
            advice = describe_repair(manifest.table, manifest.partition)
            self._download(manifest.file, manifest.sha256, Path(folder, "file"), advice)

    def fetch(self, name: str, sha256: str, advice: str) -> Path:
        """Return the path of a verified copy of a file, which is downloaded if necessary.

        advice: end of the message of the `LakeError` that is raised for a missing or damaged file.
        """
        path = self._folder / f"{sha256}{Path(name).suffix}"
        if find_damage(path, sha256) is None:
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
            return path
        draft = path.with_name(f"{path.name}{TEMPORARY}{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _delete_unused(self._folder, self._keep)
            self._download(name, sha256, draft, advice)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        return path

    def _download(self, name: str, sha256: str, target: Path, advice: str) -> None:
        """Download a file, with retries if its checksum differs."""
        location, damage = self._storage.location(name), None
        for _ in range(_ATTEMPTS):
            try:
                with reading(location):
                    self._storage.download(name, target)
            except FileNotFoundError:
                damage = "is missing"
                break
            damage = find_damage(target, sha256)
            if damage is None:
                return
        raise LakeError(f"reading {location}: the file {damage}; {advice}")


@cache
def _delete_unused(folder: Path, keep: timedelta) -> None:
    """Delete copies and drafts that were not used for the time `keep`, once per process. A process that has one open keeps it."""
    limit = time.time() - keep.total_seconds()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_atime < limit:
                path.unlink()
