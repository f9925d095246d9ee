"""Inventory of a table in the lake: every partition with its file, and whether it can be published.

Unchanged rows of the previous publication are reused, so the cost grows with what is new.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bellwether.errors import LakeError
from bellwether.lake import partitions
from bellwether.lake.lake import Lake
from bellwether.lake.local_copies import Copies
from bellwether.lake.manifest import FILE_NAME, Manifest
from bellwether.lake.partitions import Partition
from bellwether.lake.storage import StorageEntry
from bellwether.tables import Table

#: Tolerated difference between the clock of a file system and this machine's.
CLOCK_TOLERANCE = timedelta(seconds=10)

#: Fields that a manifest and its row share.
_SHARED_FIELDS = ("rows", "bytes", "sha256", "version", "run_id", "written_at", "known_at")

#: A row of meta.partitions.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Partitions of a table in order, as rows of meta.partitions. copies: provides local copies of files in an object store."""

    table: Table
    rows: Mapping[Partition, Row]
    copies: Copies | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Locations of the files whose partitions can be published."""
        return tuple(row["file"] for row in self.rows.values() if row["published"])

    def local(self, files: Collection[str]) -> tuple[str, ...]:
        """Return local paths of `files`, some of the inventory's. Files of an object store are downloaded unless a local copy exists."""
        if self.copies is None:
            return tuple(files)
        rows = {row["file"]: (partition, row) for partition, row in self.rows.items()}
        return self.copies.local([_manifest_from_row(self.table, *rows[file]) for file in files])


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Rows of meta.partitions in the previous publication. They are reused for files that have not changed.

    rows: by the location of the file.
    since: files unchanged since this instant match their rows.
    """

    rows: Mapping[str, Row]
    since: datetime

    @classmethod
    def of(cls, rows: Collection[Row], looked_at: datetime) -> KnownRows:
        """Create from the rows of a publication. looked_at: when the publisher began to read the lake."""
        return cls({row["file"]: row for row in rows}, looked_at - CLOCK_TOLERANCE)


NOTHING_KNOWN = KnownRows({}, datetime.min.replace(tzinfo=UTC))


def take_inventory(lake: Lake, table: Table, former: KnownRows = NOTHING_KNOWN, *, complete: bool = True) -> Inventory:
    """List the partitions of a table, and check for each whether its manifest and file are intact.

    A missing or damaged file is described in the partition's row. A file is verified against its checksum unless `former` has it unchanged.
    complete: read every manifest; otherwise unchanged rows are taken from `former`.
    """
    rows = _rows_from_index(lake, table, former, complete) if lake.has_index else _rows_from_files(lake, table, former, complete)
    return Inventory(table, dict(sorted(rows.items())), lake.copies)


def _rows_from_index(lake: Lake, table: Table, former: KnownRows, complete: bool) -> dict[Partition, Row]:
    """Build the rows of all partitions from the table's index.
    Files with a row in `former` are not read again; only a complete inventory detects missing files.
    """
    stored = {entry.name: entry.bytes for entry in lake.storage.files(table.name)} if complete else None
    rows = {}
    for name, manifest in lake.read_entries(table):
        partition = partitions.partition_of_folder(table, name.rpartition("/")[0])
        if isinstance(manifest, LakeError):
            rows[partition] = _damaged_row(table, partition, lake.storage.location(name), manifest, size=0, written_at=lake.clock())
            continue
        row = former.rows.get(lake.storage.location(manifest.file))
        is_there = stored is None or stored.get(manifest.file) == manifest.bytes
        if row and row["published"] and is_there and (row["sha256"], row["version"]) == (manifest.sha256, table.version):
            rows[partition] = row
        else:
            rows[partition] = _examine_partition(lake, table, manifest, is_sound=is_there)
    return rows


def _rows_from_files(lake: Lake, table: Table, former: KnownRows, complete: bool) -> dict[Partition, Row]:
    """Build the rows of all partitions from one manifest file each. Files unchanged since `former` are not read again."""
    listed = {entry.name: entry for entry in lake.storage.files(table.name)}
    former_rows = {} if complete else {_relative_name(lake, file).rpartition("/")[0]: row for file, row in former.rows.items()}
    rows: dict[Partition, Row] = {}
    new = {}
    for name, entry in listed.items():
        folder, _, file = name.rpartition("/")
        if file != FILE_NAME:
            continue
        row = former_rows.get(folder)
        if row and entry.changed < former.since and _is_unchanged(listed.get(_relative_name(lake, row["file"])), row["bytes"], former):
            rows[partitions.partition_of_folder(table, folder)] = row
        else:
            new[name] = entry
    for name, manifest in lake.read_entries(table, list(new)):
        partition = partitions.partition_of_folder(table, name.rpartition("/")[0])
        if isinstance(manifest, LakeError):
            rows[partition] = _damaged_row(
                table, partition, lake.storage.location(name), manifest, size=new[name].bytes, written_at=new[name].modified
            )
        else:
            known_file = lake.storage.location(manifest.file) in former.rows
            sound = known_file and _is_unchanged(listed.get(manifest.file), manifest.bytes, former)
            rows[partition] = _examine_partition(lake, table, manifest, is_sound=sound)
    return rows


def _relative_name(lake: Lake, location: str) -> str:
    """Return a file's name relative to the lake's root."""
    return location.removeprefix(f"{lake.uri}/")


def _is_unchanged(entry: StorageEntry | None, size: int, former: KnownRows) -> bool:
    """Return True if a file has this size and was last changed before the previous publication read the lake."""
    return entry is not None and entry.bytes == size and entry.changed < former.since


def _examine_partition(lake: Lake, table: Table, manifest: Manifest, *, is_sound: bool) -> Row:
    """Build the row of a partition after checking its file. is_sound: skip the checksum of the stored file."""
    location = lake.storage.location(manifest.file)
    if manifest.version != table.version:
        return _partition_row(manifest, location, published=False, damage=None)
    try:
        if not is_sound:
            lake.verify(manifest)
        lake.slice_from(table, {manifest.partition: manifest}).check_columns()
    except LakeError as error:
        return _partition_row(manifest, location, published=False, damage=str(error))
    return _partition_row(manifest, location, published=True, damage=None)


def _partition_row(manifest: Manifest, location: str, *, published: bool, damage: str | None) -> Row:
    """Build a row of meta.partitions. published: whether the warehouse has the rows; damage: why not, if the file is damaged."""
    return {
        **{name: getattr(manifest, name) for name in _SHARED_FIELDS},
        "table_name": manifest.table.replace("/", "."),
        "partition": "/".join(manifest.partition),
        "file": location,
        "published": published,
        "damage": damage,
    }


def _manifest_from_row(table: Table, partition: Partition, row: Row) -> Manifest:
    """Build the manifest of a partition from its row of meta.partitions."""
    name = f"{partitions.partition_folder(table, partition)}/{row['file'].rpartition('/')[2]}"
    return Manifest(table.name, partition, name, **{field: row[field] for field in _SHARED_FIELDS})


def _damaged_row(table: Table, partition: Partition, location: str, reason: LakeError, *, size: int, written_at: datetime) -> Row:
    """Build the row of a partition whose manifest cannot be parsed. reason: the error."""
    unknown = {"rows": 0, "bytes": size, "sha256": "", "version": table.version, "run_id": "", "known_at": None}
    return {
        **unknown,
        "table_name": table.sql_name,
        "partition": "/".join(partition),
        "file": location,
        "written_at": written_at,
        "published": False,
        "damage": str(reason),
    }
