"""Verification of a whole lake, rebuilding of a lost catalog from a publication or a backup, and adoption of files that neither of them names."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import orjson

from bellwether.console import Progress, Silent
from bellwether.errors import ConfigError, LakeError
from bellwether.lake import parquet, warehouse
from bellwether.lake.catalog import Catalog, Manifest
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import partition_folder, partition_of_folder
from bellwether.lake.storage import TEMPORARY, StorageEntry
from bellwether.tables import TABLES, Table


def read_publication(lake: Lake, place: Path | str) -> list[Manifest]:
    """Return the catalog's partitions that a published warehouse of this lake contains. Raises `LakeError` if nothing is published."""
    with warehouse.connect(place) as connection:
        of = connection.execute("SELECT lake FROM meta.publication").fetchall()[0][0]
        rows = connection.execute("FROM meta.partitions ORDER BY number").pl()
    if of != lake.uri:
        raise LakeError(f"rebuilding the catalog: the warehouse {place} shows the lake {of}, not {lake.uri}; give a backup")
    tables = {table.sql_name: table for table in TABLES.values()}
    return [_from_row(lake, tables[row["table_name"]], row) for row in rows.iter_rows(named=True) if row["table_name"] in tables]


def read_backup(catalog: Path) -> list[Manifest]:
    """Return the partitions in a backup's copy of a catalog. Raises `ConfigError` if it is missing."""
    if not catalog.is_file():
        raise ConfigError(f"rebuilding the catalog: {catalog} is missing; name the folder of a backup")
    return Catalog(catalog, "").read()


def rebuild(lake: Lake, partitions: Iterable[Manifest]) -> None:
    """Create the catalog of a lake that has lost it, from a copy of its partitions. Raises `ConfigError` for a lake with a catalog.

    A partition whose file is gone is also recorded, so that it is reported as damaged.
    """
    if lake.catalog.exists() and lake.catalog.read():
        raise ConfigError(f"rebuilding the catalog: {lake.catalog.where} exists; move it away first if it is damaged")
    lake.catalog.create()
    ordered = sorted(partitions, key=lambda manifest: manifest.number)
    lake.catalog.commit([replace(manifest, checked_at=None, damage=None) for manifest in ordered], lake.clock())


def find_uncommitted(lake: Lake) -> list[Manifest]:
    """Return the manifests of the files that the catalog does not name, according to their footers, in the order of writing.

    Files that are older than the current one of their partition, incomplete files, and files that are not in the folder of their partition, are left out.
    """
    found = [manifest for table in TABLES.values() for manifest in _unnamed_files(lake, table)]
    return sorted(found, key=lambda manifest: (manifest.written_at, manifest.file))


def adopt(lake: Lake, names: Collection[str]) -> list[Manifest]:
    """Make uncommitted files current, by name below the lake's root. Raises `ConfigError` for a name that is not one of `find_uncommitted`."""
    uncommitted = {manifest.file: manifest for manifest in find_uncommitted(lake)}
    for name in names:
        if name not in uncommitted:
            raise ConfigError(f"adopting {name}: it is not an uncommitted file of the lake; `bellwether doctor --rebuild` lists them")
    return lake.commit([uncommitted[name] for name in names])


def _unnamed_files(lake: Lake, table: Table) -> Iterator[Manifest]:
    entries = [entry for entry in lake.storage.files(table.name) if entry.name.endswith(".parquet") and TEMPORARY not in entry.name]
    if not entries:
        return
    current, superseded = lake.manifests(table), lake.catalog.superseded(table.name)
    named = {manifest.file for manifest in current.values()} | superseded.keys()
    for entry in entries:
        manifest = _read_footer(lake, table, entry) if entry.name not in named else None
        if manifest and (manifest.partition not in current or current[manifest.partition].written_at < manifest.written_at):
            yield manifest


def _read_footer(lake: Lake, table: Table, entry: StorageEntry) -> Manifest | None:
    with tempfile.TemporaryDirectory(prefix="bellwether-") as folder:
        file = Path(folder, "file.parquet") if lake.copies is not None else Path(lake.storage.location(entry.name))
        if lake.copies is not None:
            lake.storage.download(entry.name, file)
        facts = parquet.read_facts(file)
        if facts is None or facts["table"] != table.name:
            return None
        partition = tuple(facts["partition"])
        if partition_folder(table, partition) != entry.name.rpartition("/")[0]:
            return None
        sha256, digest = parquet.hash_file(table, file)
    times = {name: datetime.fromisoformat(facts[name]) if facts[name] else None for name in ("written_at", "known_at")}
    described = {**facts, **times, "partition": partition}
    return Manifest(file=entry.name, bytes=entry.bytes, sha256=sha256, digest=digest, **described)


def _from_row(lake: Lake, table: Table, row: dict[str, object]) -> Manifest:
    """Return the manifest of a row of `meta.partitions`."""
    values = {name: row[name] for name in Manifest.__slots__ if name in row and name not in ("table", "partition", "file", "inputs")}
    file = str(row["file"]).removeprefix(f"{lake.uri}/")
    inputs = orjson.loads(str(row["inputs"])) if row["inputs"] is not None else None
    partition = partition_of_folder(table, file.rpartition("/")[0])
    return Manifest(table=table.name, partition=partition, file=file, inputs=inputs, **values)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Damage:
    """Partition whose file is missing or damaged. reason: ends with advice on how to restore the file."""

    table: str
    partition: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a lake: number and bytes of the verified files, and the damaged partitions."""

    files: int
    bytes: int
    damaged: tuple[Damage, ...]


def verify(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values()), progress: Progress | None = None) -> Verification:
    """Compare every current file with the recorded SHA-256. Nothing is changed."""
    named = [manifest for table in tables for manifest in lake.manifests(table).values() if manifest.file]
    size, damaged = 0, []
    with (progress or Silent()).stage("files", len(named)) as advance:
        for manifest in named:
            size += manifest.bytes
            try:
                lake.verify(manifest)
            except LakeError as error:
                damaged.append(Damage(manifest.table, "/".join(manifest.partition), str(error)))
            advance(1)
    return Verification(len(named), size, tuple(damaged))
