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
from bellwether.lake.manifest import FILE_NAME, Manifest
from bellwether.lake.partitions import Partition
from bellwether.lake.storage import Entry
from bellwether.tables import Table

#: By how much the clock of a file system may differ from ours.
CLOCKS = timedelta(seconds=10)

#: A row of meta.partitions.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """The partitions of a table, in order, as rows of meta.partitions."""

    table: Table
    rows: Mapping[Partition, Row]

    @property
    def files(self) -> tuple[str, ...]:
        """Locations of the files that can be published."""
        return tuple(row["file"] for row in self.rows.values() if row["published"])


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

    A file is compared with its checksum unless `former` has it and it has not changed. complete: read every manifest and the columns of
    every file; otherwise what has not changed is taken over from `former`.
    """
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
    for name, text in lake.storage.read(list(new)).items():
        partition = partitions.of_folder(table, name.rpartition("/")[0])
        try:
            manifest = lake.parse(table, name, text)
        except LakeError as error:
            rows[partition] = _unreadable(lake, table, partition, new[name], str(error))
        else:
            rows[partition] = _examine(lake, table, manifest, listed.get(manifest.file), former)
    return Survey(table, dict(sorted(rows.items())))


def _name(lake: Lake, location: str) -> str:
    """Name below the lake's root."""
    return location.removeprefix(f"{lake.uri}/")


def _is_unchanged(entry: Entry | None, size: int, former: Former) -> bool:
    return entry is not None and entry.bytes == size and entry.changed < former.since


def _examine(lake: Lake, table: Table, manifest: Manifest, entry: Entry | None, former: Former) -> Row:
    location = lake.storage.location(manifest.file)
    if manifest.version != table.version:
        return _row(manifest, location, published=False, damage=None)
    try:
        if location not in former.rows or not _is_unchanged(entry, manifest.bytes, former):
            lake.verify(manifest)
        lake.slice_of(table, {manifest.partition: manifest}).check_columns()
    except LakeError as error:
        return _row(manifest, location, published=False, damage=str(error))
    return _row(manifest, location, published=True, damage=None)


def _row(manifest: Manifest, location: str, *, published: bool, damage: str | None) -> Row:
    same = ("rows", "bytes", "sha256", "version", "run_id", "written_at", "known_at")
    return {
        **{name: getattr(manifest, name) for name in same},
        "table_name": manifest.table.replace("/", "."),
        "partition": "/".join(manifest.partition),
        "file": location,
        "published": published,
        "damage": damage,
    }


def _unreadable(lake: Lake, table: Table, partition: Partition, entry: Entry, reason: str) -> Row:
    """A partition of which only the damaged manifest is known."""
    unknown = {"rows": 0, "bytes": entry.bytes, "sha256": "", "version": table.version, "run_id": "", "known_at": None}
    return {
        **unknown,
        "table_name": table.sql_name,
        "partition": "/".join(partition),
        "file": lake.storage.location(entry.name),
        "written_at": entry.modified,
        "published": False,
        "damage": reason,
    }
