"""Deletes what no manifest names any more: superseded files, and drafts of writers that died."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bellwether.errors import LakeError
from bellwether.lake.catalog import Catalog
from bellwether.lake.manifest import FILE_NAME, load
from bellwether.lake.storage import TEMPORARY, Entry, Storage
from bellwether.tables import Table

#: A younger file may belong to a writer that is about to name it.
LEAST_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What was deleted: names below the lake's root, and their bytes together."""

    files: tuple[str, ...]
    bytes: int


def vacuum(
    storage: Storage, catalog: Catalog, tables: Iterable[Table], *, older_than: timedelta, now: datetime, keep: Collection[str]
) -> Vacuumed:
    """Delete the files of `tables` that no manifest names and nobody has been given for `older_than`.

    The age of a superseded file counts from the manifest that superseded it. Files whose location is in `keep` stay.
    Raises `LakeError` for an age below `LEAST_AGE`.
    """
    check_age(older_than)
    deleted = []
    for table in tables:
        folders = defaultdict(list)
        for entry in storage.files(table.name):
            folders[entry.name.rpartition("/")[0]].append(entry)
        # Manifests are read after the listing, never before.
        texts = catalog.read(table.name, [f"{folder}/{FILE_NAME}" for folder in folders])
        for folder, entries in folders.items():
            unnamed = _unnamed(texts.get(f"{folder}/{FILE_NAME}"), entries, now - older_than)
            deleted += [entry for entry in unnamed if storage.location(entry.name) not in keep]
    for entry in deleted:
        storage.delete(entry.name)
    return Vacuumed(tuple(entry.name for entry in deleted), sum(entry.bytes for entry in deleted))


def check_age(older_than: timedelta) -> None:
    """Raise `LakeError` for a grace period below `LEAST_AGE`."""
    if older_than < LEAST_AGE:
        raise LakeError(
            f"vacuuming the lake: files must be kept for at least {LEAST_AGE}, asked for {older_than}; a writer may be about to name one"
        )


def _unnamed(text: bytes | None, entries: list[Entry], since: datetime) -> list[Entry]:
    """Files of a folder that were superseded or abandoned before `since`; none where the manifest is damaged, for it may name any of them."""
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
