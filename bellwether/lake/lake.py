"""The lake: one Parquet file per partition of a table, and a manifest that names it.

A partition is written as a new file named after the run; the manifest switches to it last. Nothing is changed in place,
so a reader sees the old rows or the new ones, and a crash at any instant leaves the old ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from typing import Literal

import polars as pl

from bellwether.errors import LakeError
from bellwether.files import checksum
from bellwether.lake import parquet, partitions
from bellwether.lake.catalog import IndexCatalog, catalog
from bellwether.lake.checksums import compare, is_sound, missing
from bellwether.lake.local_copies import Copies
from bellwether.lake.manifest import FILE_NAME, NOTE_NAME, Manifest, dump, load
from bellwether.lake.partitions import Partition
from bellwether.lake.repair import remedy
from bellwether.lake.slices import Slice
from bellwether.lake.storage import open_storage
from bellwether.lake.vacuum import Vacuumed, vacuum
from bellwether.tables import TABLES, Table

#: So many manifests are read whether they are there or not; of more those that a listing of the table names.
_FEW = 64

_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Lake:
    """The tables stored below one folder or object-store URL.

    Attributes:
        uri: a folder, or a URL such as s3://bucket/prefix.
        storage_options: see `bellwether.lake.storage.open_storage`; what is left out comes from the environment.
        clock: now, in UTC; stamps manifests.
        copies: of files in an object store; None in a folder.
        durable: whether what is written to a folder survives a loss of power; see `Settings.durable`.
        cache: folder for copies of files in an object store; see `bellwether.lake.local_copies`.
    """

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        clock: Callable[[], datetime] = _utc_now,
        durable: bool = True,
        cache: Path | None = None,
    ) -> None:
        self.storage = open_storage(uri, storage_options, durable=durable)
        self.clock = clock
        self._catalog = catalog(self.storage)
        self.copies = Copies(self.storage, cache) if "://" in self.storage.uri else None

    @property
    def uri(self) -> str:
        """The folder, absolute, or the URL."""
        return self.storage.uri

    def write(
        self,
        table: Table,
        partition: Partition,
        data: pl.DataFrame | Iterable[pl.DataFrame],
        *,
        run_id: str,
        inputs: Mapping[str, str] | None = None,
        code_version: str | None = None,
    ) -> Manifest:
        """Replace the rows of one partition by `data`, at one instant, and return the new manifest.

        A frame is stored sorted by the table's order; the frames of an iterable are stored as they come, in bounded memory.
        The same rows give the same bytes. inputs, code_version: see `Manifest`. Writing again under the same `run_id` makes another file.
        Raises `SchemaError` for rows that do not fit the declaration or the partition, `LakeError` when they cannot be stored;
        the partition is then as it was before.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise LakeError(f"writing {table.name}: {run_id!r} cannot name a file; use letters, digits, '.', '_' and '-'")
        folder = partitions.folder(table, partition)
        with self.storage.draft(f"{folder}/{run_id}.parquet") as draft:
            written = parquet.write(table, partition, data, draft)
            size, sha256 = draft.stat().st_size, checksum(draft)
            file = self._publish(draft, f"{folder}/{run_id}")
        manifest = Manifest(
            *(table.name, partition, file, written.rows, size, sha256, table.version),
            *(run_id, self.clock(), written.known_at, inputs, code_version),
        )
        self._catalog.put(table.name, {f"{folder}/{FILE_NAME}": dump(manifest)})
        return manifest

    def note(self, table: Table, partition: Partition, *, run_id: str, inputs: Mapping[str, str]) -> None:
        """Record the versions of the inputs from which files outside the lake, such as a report, were made."""
        manifest = Manifest(table.name, partition, "", 0, 0, "", table.version, run_id, self.clock(), None, inputs)
        self._catalog.put(table.name, {f"{partitions.folder(table, partition)}/{NOTE_NAME}": dump(manifest)})

    def notes(self, table: Table) -> dict[Partition, Manifest]:
        """What was recorded of files outside the lake, by partition."""
        stored = self._catalog.read(table.name).items()
        found = (load(text, self.storage.location(name)) for name, text in stored if name.endswith(f"/{NOTE_NAME}"))
        return {manifest.partition: manifest for manifest in found}

    @property
    def has_index(self) -> bool:
        """True if the manifests of each table are one object, so that reading one costs as much as reading all."""
        return isinstance(self._catalog, IndexCatalog)

    def marks(self, tables: Iterable[Table] = tuple(TABLES.values())) -> dict[str, str | None]:
        """By table a text that changes with every write; "" before the first, None where the storage has no marks."""
        return self._catalog.marks([table.name for table in tables])

    def _publish(self, draft: Path, stem: str) -> str:
        """Store the draft under the first free name: a file that some manifest may name is never replaced."""
        for suffix in chain([""], (f"-{attempt}" for attempt in count(1))):
            name = f"{stem}{suffix}.parquet"
            if self.storage.publish(draft, name):
                return name
        raise AssertionError("names never run out")

    def manifest(self, table: Table, partition: Partition) -> Manifest | None:
        """The manifest of one partition; None when it was never written. Raises `LakeError` when it is damaged."""
        return self._read(table, [_manifest_of(table, partition)]).get(partition)

    def manifests(self, table: Table) -> dict[Partition, Manifest]:
        """The manifests of all partitions of a table, in order of the partition."""
        return dict(sorted(self._read(table, None).items()))

    def partitions(self, table: Table) -> list[Partition]:
        """The partitions of a table, including those whose manifest is damaged."""
        return [partitions.of_folder(table, name.rpartition("/")[0]) for name in self._names(table)]

    def intact(self, table: Table) -> dict[Partition, Manifest]:
        """The partitions that this code can read: manifests of the table's rules whose file is there with its size. Its bytes are not looked at."""
        listed = {entry.name: entry.bytes for entry in self.storage.files(table.name)}
        found = self._legible(table, None if self.has_index else self._names(table, listed))
        return {
            partition: manifest
            for partition, manifest in found.items()
            if manifest.version == table.version and listed.get(manifest.file) == manifest.bytes
        }

    def legible(self, table: Table, wanted: Iterable[Partition] | None = None) -> dict[Partition, Manifest]:
        """The manifests that can be parsed, of any version, in order of the partition. wanted: partitions; all when left out."""
        if wanted is not None:
            return self._legible(table, [_manifest_of(table, partition) for partition in wanted])
        return self._legible(table, None if self.has_index else self._names(table))

    def _legible(self, table: Table, names: Sequence[str] | None) -> dict[Partition, Manifest]:
        """See `legible`. A file that cannot be read hides no other."""
        found: dict[Partition, Manifest] = {}
        for few in [names] if self.has_index or names is None else [[name] for name in names]:
            try:
                stored = list(self.entries(table, few))
            except LakeError:
                if self.has_index:
                    raise
                continue
            found |= {one.partition: one for _, one in stored if isinstance(one, Manifest)}
        return dict(sorted(found.items()))

    def set_aside(self, table: Table) -> list[Partition]:
        """Rename the manifests that cannot be parsed, for partitions that are made again: they count as missing then. Returns the partitions."""
        stored = self._catalog.read(table.name)
        damaged = [name for name, found in self._parsed(table, stored) if isinstance(found, LakeError)]
        for name in damaged:
            self._catalog.put(table.name, {f"{name}.damaged": stored[name], name: None})
        return [partitions.of_folder(table, name.rpartition("/")[0]) for name in damaged]

    def entries(self, table: Table, names: Sequence[str] | None = None) -> Iterator[tuple[str, Manifest | LakeError]]:
        """The manifests stored under `names`, or all, and for a damaged one the error. Raises `LakeError` for one that cannot be read."""
        return self._parsed(table, self._catalog.read(table.name, names))

    def _parsed(self, table: Table, stored: Mapping[str, bytes]) -> Iterator[tuple[str, Manifest | LakeError]]:
        for name in sorted(stored):
            if name.endswith(f"/{FILE_NAME}"):
                try:
                    yield name, self.parse(table, name, stored[name])
                except LakeError as error:
                    yield name, error

    def _names(self, table: Table, listed: Iterable[str] | None = None) -> list[str]:
        return [name for name in self._catalog.names(table.name, listed) if name.endswith(f"/{FILE_NAME}")]

    def parse(self, table: Table, name: str, text: bytes) -> Manifest:
        """The manifest whose `text` is stored under `name`. Raises `LakeError` when it is damaged, or of another place."""
        location = self.storage.location(name)
        manifest = load(text, location, remedy(table, partitions.of_folder(table, name.rpartition("/")[0])))
        if manifest.table != table.name or _manifest_of(table, manifest.partition) != name:
            raise LakeError(
                f"reading the manifest {location}: it is of {manifest.table} {manifest.partition}, not of this place; remove the copy"
            )
        return manifest

    def _read(self, table: Table, names: list[str] | None) -> dict[Partition, Manifest]:
        """The manifests stored under `names`, or all. Raises `LakeError` when one is damaged."""
        found = {}
        for _, one in self.entries(table, names):
            if isinstance(one, LakeError):
                raise one
            found[one.partition] = one
        return found

    def slice(self, table: Table, partitions: Iterable[Partition] | None = None, *, missing: Literal["error", "skip"] = "error") -> Slice:
        """The rows of `partitions`, or of all that exist when left out, as of now.

        Raises `LakeError` when a partition was never written (unless `missing` is "skip") or was written by other rules than the table's.
        """
        if partitions is None:
            found = self.manifests(table)
        else:
            wanted = sorted(set(partitions))
            names = [_manifest_of(table, partition) for partition in wanted]
            if missing == "skip" and len(names) > _FEW and not self.has_index:
                names = sorted(set(names) & set(self._names(table)))
            stored = self._read(table, names)
            found = {partition: stored[partition] for partition in wanted if partition in stored}
            absent = [partition for partition in wanted if partition not in found]
            if absent and missing == "error":
                raise LakeError(f"reading {table.name}: {_named(absent)} was never written; materialize it first")
        return self.slice_of(table, found)

    def slice_of(self, table: Table, found: Mapping[Partition, Manifest]) -> Slice:
        """The rows that these manifests name. Raises `LakeError` when one was written by other rules than the table's."""
        outdated = [partition for partition, manifest in found.items() if manifest.version != table.version]
        if outdated:
            theirs = found[outdated[0]].version
            raise LakeError(
                f"reading {table.name}: {_named(outdated)} was written by version {theirs} of the table's rules, this code has version "
                f"{table.version}; {remedy(table, outdated[0])}"
            )
        files = tuple(self.storage.location(manifest.file) for manifest in found.values())
        return Slice(table, tuple(found.values()), files, self.copies)

    def verify(self, manifest: Manifest) -> None:
        """Raise `LakeError` when the file that `manifest` names is missing or its bytes are not those that were written."""
        location = self.storage.location(manifest.file)
        try:
            if self.copies is not None:
                self.copies.verify(manifest)
                return
            with self.storage.open(manifest.file) as file:
                compare(manifest, location, file)
        except FileNotFoundError:
            raise missing(manifest, location) from None

    def local(self, manifest: Manifest) -> str:
        """Path of the file that `manifest` names, or of a copy of one in an object store, which has its checksum."""
        return self.copies.local([manifest])[0] if self.copies is not None else self.storage.location(manifest.file)

    def is_sound(self, manifest: Manifest) -> bool:
        """Whether the file that `manifest` names is as it was written, as `bellwether.lake.checksums.compare_once` finds."""
        return is_sound(manifest, self.storage.location(manifest.file))

    def vacuum(self, older_than: timedelta, *, tables: Iterable[Table] = tuple(TABLES.values()), keep: Collection[str] = ()) -> Vacuumed:
        """Delete superseded files and abandoned drafts that are older than the grace period `older_than`; never what a manifest names.

        `keep` holds locations that stay whatever their age, such as those in a published warehouse (`warehouse.named_files`).
        """
        return vacuum(self.storage, self._catalog, tables, older_than=older_than, now=self.clock(), keep=keep)


def _manifest_of(table: Table, partition: Partition) -> str:
    return f"{partitions.folder(table, partition)}/{FILE_NAME}"


def _named(found: list[Partition]) -> str:
    if found == [()]:
        return "the table"
    return f"partition {'/'.join(found[0])}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
