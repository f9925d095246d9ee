"""What the lake has of a table: every partition with its file, and whether it can be published.

What a former survey found is taken over where nothing has changed since, so that a survey costs what is new.
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
from bellwether.lake.storage import Entry
from bellwether.tables import Table

#: By how much the clock of a file system may differ from ours.
CLOCKS = timedelta(seconds=10)

#: What a manifest and its row share.
_SAME = ("rows", "bytes", "sha256", "version", "run_id", "written_at", "known_at")

#: A row of meta.partitions.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """The partitions of a table, in order, as rows of meta.partitions. copies: of files in an object store."""

    table: Table
    rows: Mapping[Partition, Row]
    copies: Copies | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Locations of the files that can be published."""
        return tuple(row["file"] for row in self.rows.values() if row["published"])

    def local(self, files: Collection[str]) -> tuple[str, ...]:
        """Paths of some of `files`, or of copies of those in an object store: of what was just examined there is one already."""
        if self.copies is None:
            return tuple(files)
        rows = {row["file"]: (partition, row) for partition, row in self.rows.items()}
        return self.copies.local([_manifest(self.table, *rows[file]) for file in files])


@dataclass(frozen=True, slots=True)
class Former:
    """What is known of the lake from a publication.

    rows: of meta.partitions, by the location of the file.
    since: what has not changed after this instant is as the rows say.
    """

    rows: Mapping[str, Row]
    since: datetime

    @classmethod
    def of(cls, rows: Collection[Row], looked_at: datetime) -> Former:
        """What a publication knew that began to look at the lake at an instant."""
        return cls({row["file"]: row for row in rows}, looked_at - CLOCKS)


#: Nothing is known.
UNKNOWN = Former({}, datetime.min.replace(tzinfo=UTC))


def survey(lake: Lake, table: Table, former: Former = UNKNOWN, *, complete: bool = True) -> Survey:
    """Look at the partitions of a table. A partition whose manifest or file is missing or damaged has a row that says so.

    A file is compared with its checksum unless `former` has it and it has not changed. complete: look at every manifest and every
    file; otherwise what has not changed is taken over from `former`.
    """
    rows = _by_index(lake, table, former, complete) if lake.has_index else _by_files(lake, table, former, complete)
    return Survey(table, dict(sorted(rows.items())), lake.copies)


def _by_index(lake: Lake, table: Table, former: Former, complete: bool) -> dict[Partition, Row]:
    """A file is fetched when `former` does not have it; one that has gone is noticed when the survey is complete."""
    stored = {entry.name: entry.bytes for entry in lake.storage.files(table.name)} if complete else None
    rows = {}
    for name, manifest in lake.entries(table):
        partition = partitions.of_folder(table, name.rpartition("/")[0])
        if isinstance(manifest, LakeError):
            rows[partition] = _unreadable(table, partition, lake.storage.location(name), manifest, size=0, written_at=lake.clock())
            continue
        row = former.rows.get(lake.storage.location(manifest.file))
        is_there = stored is None or stored.get(manifest.file) == manifest.bytes
        if row and row["published"] and is_there and (row["sha256"], row["version"]) == (manifest.sha256, table.version):
            rows[partition] = row
        else:
            rows[partition] = _examine(lake, table, manifest, is_sound=is_there)
    return rows


def _by_files(lake: Lake, table: Table, former: Former, complete: bool) -> dict[Partition, Row]:
    listed = {entry.name: entry for entry in lake.storage.files(table.name)}
    known = {} if complete else {_name(lake, file).rpartition("/")[0]: row for file, row in former.rows.items()}
    rows: dict[Partition, Row] = {}
    new = {}
    for name, entry in listed.items():
        folder, _, file = name.rpartition("/")
        if file != FILE_NAME:
            continue
        row = known.get(folder)
        if row and entry.changed < former.since and _is_unchanged(listed.get(_name(lake, row["file"])), row["bytes"], former):
            rows[partitions.of_folder(table, folder)] = row
        else:
            new[name] = entry
    for name, manifest in lake.entries(table, list(new)):
        partition = partitions.of_folder(table, name.rpartition("/")[0])
        if isinstance(manifest, LakeError):
            rows[partition] = _unreadable(
                table, partition, lake.storage.location(name), manifest, size=new[name].bytes, written_at=new[name].modified
            )
        else:
            known_file = lake.storage.location(manifest.file) in former.rows
            sound = known_file and _is_unchanged(listed.get(manifest.file), manifest.bytes, former)
            rows[partition] = _examine(lake, table, manifest, is_sound=sound)
    return rows


def _name(lake: Lake, location: str) -> str:
    """Name below the lake's root."""
    return location.removeprefix(f"{lake.uri}/")


def _is_unchanged(entry: Entry | None, size: int, former: Former) -> bool:
    return entry is not None and entry.bytes == size and entry.changed < former.since


def _examine(lake: Lake, table: Table, manifest: Manifest, *, is_sound: bool) -> Row:
    """The row of a partition. is_sound: the file need not be compared in its place with its checksum; a copy of it always is."""
    location = lake.storage.location(manifest.file)
    if manifest.version != table.version:
        return _row(manifest, location, published=False, damage=None)
    try:
        if not is_sound:
            lake.verify(manifest)
        lake.slice_of(table, {manifest.partition: manifest}).check_columns()
    except LakeError as error:
        return _row(manifest, location, published=False, damage=str(error))
    return _row(manifest, location, published=True, damage=None)


def _row(manifest: Manifest, location: str, *, published: bool, damage: str | None) -> Row:
    return {
        **{name: getattr(manifest, name) for name in _SAME},
        "table_name": manifest.table.replace("/", "."),
        "partition": "/".join(manifest.partition),
        "file": location,
        "published": published,
        "damage": damage,
    }


def _manifest(table: Table, partition: Partition, row: Row) -> Manifest:
    """The manifest that a row was made of."""
    name = f"{partitions.folder(table, partition)}/{row['file'].rpartition('/')[2]}"
    return Manifest(table.name, partition, name, **{one: row[one] for one in _SAME})


def _unreadable(table: Table, partition: Partition, location: str, reason: LakeError, *, size: int, written_at: datetime) -> Row:
    """A partition of which only the damaged manifest is known."""
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
