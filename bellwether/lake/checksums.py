"""Verification of the lake's files against their checksums, local copies of files in an object store, and advice on restoring a partition."""

from __future__ import annotations

import hashlib
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
from bellwether.lake.partitions import Partition
from bellwether.lake.storage import TEMPORARY, Storage, reading
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE
from bellwether.tables.benchmark import QUESTIONS

#: Local files verified by this process, as path, size, modification time and checksum. Files of the lake are never changed in place.
_sound: set[tuple[str, int, int, str]] = set()
#: Tables that `bellwether pull` fetches before it pulls days, with the option that they need.
_REFERENCE = {
    "raw/kalshi_series": "",
    "raw/kalshi_series_rejects": "",
    "raw/kalshi_archive": " --archive",
    "raw/kalshi_archive_rejects": " --archive",
}
#: Concurrent downloads.
_READERS = 16
_ATTEMPTS = 3


def find_damage(path: str | Path, sha256: str) -> str | None:
    """Compare a local file with its checksum. Returns what is wrong with the file, worded as the end of a sentence; None for an intact file.

    An intact file is read only once per process and modification.
    """
    try:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            identity = (str(path), stat.st_size, stat.st_mtime_ns, sha256)
            if identity in _sound:
                return None
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "is missing"
    if actual != sha256:
        return f"is damaged: its SHA-256 is {actual[:8]}…, the recorded one is {sha256[:8]}…"
    _sound.add(identity)
    return None


def require_intact(manifest: Manifest, path: str) -> None:
    """Raise `LakeError` with advice if the local file of a partition is missing or damaged. The file is read as by `find_damage`."""
    if damage := find_damage(path, manifest.sha256):
        raise LakeError(f"reading {manifest.table}: {path} {damage}; {describe_repair(manifest.table, manifest.partition)}")


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


def describe_repair(name: str, partition: Partition) -> str:
    """Return advice on restoring a partition, worded as the end of an error message. name: of its table, which this version may not know."""
    of = "/".join(partition)
    if name == QUESTIONS.name:
        return f"restore the file from a backup: the questions of {of} are not drawn again"
    command = _repair_command(TABLES[name], partition) if name in TABLES else None
    if command is None:
        return f"materialize {name}{f', partition {of},' if of else ''} again in the UI"
    if name.startswith("arena/") and partition:
        return f"{command} restores it where the week was reconstructed; otherwise restore the file from a backup"
    return f"{command} restores it"


def _repair_command(table: Table, partition: Partition) -> str | None:
    """Return the command that rebuilds a partition; None if there is no command for this table."""
    if table.name.startswith("arena/"):
        # The command would start a missing cohort: only tables written with the cohort name its week.
        week = f"{partition[0]}`" if table.partitioned_by == ("week",) and table is not EVIDENCE else "WEEK` of any week that was run"
        return f"`bellwether arena run --week {week}"
    if table.name in _REFERENCE:
        return f"`bellwether pull DAY{_REFERENCE[table.name]}` of any day"
    match table.partitioned_by:
        case ("day",):
            return f"`bellwether pull {partition[0]}`"
        case ("release", *_):
            return f"`bellwether release {' --forecaster '.join(partition)}`"
    return None
