"""Deletion of files that are not current: superseded files, and files of writers that died before their commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bellwether.errors import LakeError
from bellwether.lake.catalog import Catalog
from bellwether.lake.storage import TEMPORARY, Storage, StorageEntry
from bellwether.tables import Table

#: A younger file may belong to a running writer that has not committed it yet.
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

    The age of a superseded file counts from the commit that superseded it, that of a file without a row from the creation of the catalog, since a
    rebuilt catalog may lack later files. Files whose location is in `keep` stay. Raises `LakeError` for an age below `MINIMUM_AGE`.
    """
    require_grace_period(older_than)
    created, deleted, gone = catalog.created_at(), list[StorageEntry](), list[str]()
    if created is None:
        return VacuumResult((), 0)
    for table in tables:
        listed = storage.files(table.name)
        # Read the catalog after the listing: files written in between are not listed.
        current, superseded = {manifest.file for manifest in catalog.read(table.name)}, catalog.superseded(table.name)
        for entry in listed:
            is_file = entry.name.endswith(".parquet") or TEMPORARY in entry.name
            if is_file and entry.name not in current and storage.location(entry.name) not in keep:
                switched = superseded.get(entry.name, created)
                if max(entry.modified, switched) < now - older_than:
                    deleted.append(entry)
        kept = {entry.name for entry in listed} - {entry.name for entry in deleted}
        gone += [file for file in superseded if file not in kept]
    for entry in deleted:
        storage.delete(entry.name)
    catalog.forget(gone)
    return VacuumResult(tuple(entry.name for entry in deleted), sum(entry.bytes for entry in deleted))


def require_grace_period(older_than: timedelta) -> None:
    """Raise `LakeError` if `older_than` is less than `MINIMUM_AGE`."""
    if older_than < MINIMUM_AGE:
        raise LakeError(
            f"vacuuming the lake: the grace period {older_than} is too short, a running writer may still need its files; give at least {MINIMUM_AGE}"
        )
