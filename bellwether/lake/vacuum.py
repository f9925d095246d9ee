"""Deletion of files that no manifest names: superseded files, and drafts of writers that died."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bellwether.errors import LakeError
from bellwether.lake.catalog import Catalog
from bellwether.lake.manifest import FILE_NAME, load
from bellwether.lake.storage import TEMPORARY, Storage, StorageEntry
from bellwether.tables import Table

#: A younger file may belong to a running writer that has not written its manifest yet.
MINIMUM_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class VacuumResult:
    """Deleted files: their names below the lake's root, and their total bytes."""

    files: tuple[str, ...]
    bytes: int


def vacuum(
    storage: Storage, catalog: Catalog, tables: Iterable[Table], *, older_than: timedelta, now: datetime, keep: Collection[str]
) -> VacuumResult:
    """Delete files of `tables` that were superseded, or left as drafts, longer than `older_than` ago. keep: locations that are not deleted.

    The age of a superseded file counts from the manifest that superseded it. Files whose location is in `keep` stay.
    Raises `LakeError` for an age below `MINIMUM_AGE`.
    """
    require_grace_period(older_than)
    deleted = []
    for table in tables:
        folders = defaultdict(list)
        for entry in storage.files(table.name):
            folders[entry.name.rpartition("/")[0]].append(entry)
        # Read manifests after the listing: files written in between are not listed.
        texts = catalog.read(table.name, [f"{folder}/{FILE_NAME}" for folder in folders])
        for folder, entries in folders.items():
            unnamed = _superseded_files(texts.get(f"{folder}/{FILE_NAME}"), entries, now - older_than)
            deleted += [entry for entry in unnamed if storage.location(entry.name) not in keep]
    for entry in deleted:
        storage.delete(entry.name)
    return VacuumResult(tuple(entry.name for entry in deleted), sum(entry.bytes for entry in deleted))


def require_grace_period(older_than: timedelta) -> None:
    """Raise `LakeError` if `older_than` is less than `MINIMUM_AGE`."""
    if older_than < MINIMUM_AGE:
        raise LakeError(
            f"vacuuming the lake: the grace period {older_than} is too short, a running writer may still need its files; give at least {MINIMUM_AGE}"
        )


def _superseded_files(text: bytes | None, entries: list[StorageEntry], since: datetime) -> list[StorageEntry]:
    """Return the files of a folder that were superseded or left as drafts before `since`. text: the manifest; if it is damaged, no file is returned."""
    try:
        manifest = load(text, "") if text else None
    except LakeError:
        return []
    switched = manifest.written_at if manifest else datetime.min.replace(tzinfo=since.tzinfo)
    return [
        entry
        for entry in entries
        if (entry.name.endswith(".parquet") or TEMPORARY in entry.name)
        and not (manifest and entry.name == manifest.file)
        and max(entry.modified, switched) < since
    ]
