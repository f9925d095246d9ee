"""The lake: one Parquet file per partition of a table, and for each partition a manifest that names its current file.

A partition is written as a new file named after the run; then the manifest switches to it. Nothing is changed in place:
a reader sees either the old or the new rows, and a crash at any instant leaves the old ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from typing import Literal

import polars as pl

from bellwether.errors import LakeError
from bellwether.files import checksum, locked
from bellwether.lake import parquet, partitions
from bellwether.lake.catalog import IndexCatalog, open_catalog
from bellwether.lake.checksums import is_sound, missing_file_error, verify_checksum
from bellwether.lake.local_copies import Copies
from bellwether.lake.manifest import FILE_NAME, NOTE_NAME, Manifest, dump, load
from bellwether.lake.partitions import Partition
from bellwether.lake.repair import describe_repair
from bellwether.lake.slices import Slice
from bellwether.lake.storage import open_storage
from bellwether.lake.vacuum import VacuumResult, vacuum
from bellwether.tables import TABLES, Table
from bellwether.tables.history import HISTORY

#: Up to this number, manifests are requested by name; for more, the table is listed first.
_FEW = 64

_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Lake:
    """Tables stored below one folder or object-store URL, with one Parquet file per partition.

    Attributes:
        uri: a folder, or a URL such as s3://bucket/prefix.
        storage_options: see `bellwether.lake.storage.open_storage`; missing options come from the environment.
        clock: current time in UTC, for manifests.
        copies: local copies of files in an object store; None for a folder.
        durable: whether writes to a folder survive a power failure; see `Settings.durable`.
        cache: folder of the local copies; see `bellwether.lake.local_copies`.
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
        self._catalog = open_catalog(self.storage)
        self.copies = Copies(self.storage, cache) if "://" in self.storage.uri else None

    @property
    def uri(self) -> str:
        """Absolute folder, or URL, of the lake."""
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
        """Replace all rows of one partition by `data` atomically, and return the new manifest.

        A frame is stored sorted by the table's order; the frames of an iterable are stored in the given order, in bounded memory.
        The same rows give the same bytes. inputs, code_version: see `Manifest`. Writing again under the same `run_id` creates another file.
        Raises `SchemaError` for rows that do not fit the declaration or the partition, `LakeError` if they cannot be stored;
        the partition is then unchanged.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise LakeError(f"writing {table.name}: {run_id!r} is not a valid name of a file; use letters, digits, '.', '_' and '-'")
        folder = partitions.partition_folder(table, partition)
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

    def record_inputs(self, table: Table, partition: Partition, *, run_id: str, inputs: Mapping[str, str]) -> None:
        """Record from which inputs files outside the lake, such as a report, were computed. inputs: digest of each input table."""
        manifest = Manifest(table.name, partition, "", 0, 0, "", table.version, run_id, self.clock(), None, inputs)
        self._catalog.put(table.name, {f"{partitions.partition_folder(table, partition)}/{NOTE_NAME}": dump(manifest)})

    def recorded_inputs(self, table: Table) -> dict[Partition, Manifest]:
        """Return the manifests stored by `record_inputs`, by partition."""
        stored = self._catalog.read(table.name).items()
        manifests = (load(text, self.storage.location(name)) for name, text in stored if name.endswith(f"/{NOTE_NAME}"))
        return {manifest.partition: manifest for manifest in manifests}

    @property
    def has_index(self) -> bool:
        """True if all manifests of a table are in one object, so that reading a single manifest costs as much as reading all."""
        return isinstance(self._catalog, IndexCatalog)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Exclude other processes that take the lock `name` of this lake, until the block ends. An object store has no locks."""
        with nullcontext() if "://" in self.uri else locked(Path(f"{self.uri}.{name}.lock")):
            yield

    def marks(self, tables: Iterable[Table] = tuple(TABLES.values())) -> dict[str, str | None]:
        """Return per table a change mark, a text that differs after each write. "" before the first write; None if the lake has no marks."""
        return self._catalog.marks([table.name for table in tables])

    def _publish(self, draft: Path, stem: str) -> str:
        """Store the draft under `stem`, with a number appended if that name is taken, and return the name. No existing file is replaced."""
        for suffix in chain([""], (f"-{attempt}" for attempt in count(1))):
            name = f"{stem}{suffix}.parquet"
            if self.storage.publish(draft, name):
                return name
        raise AssertionError("names never run out")

    def manifest(self, table: Table, partition: Partition) -> Manifest | None:
        """Return the manifest of one partition; None if it was never written. Raises `LakeError` if it is damaged."""
        return self._read(table, [_manifest_name(table, partition)]).get(partition)

    def manifests(self, table: Table) -> dict[Partition, Manifest]:
        """Return the manifests of all partitions of a table, sorted by partition."""
        return dict(sorted(self._read(table, None).items()))

    def partitions(self, table: Table) -> list[Partition]:
        """Return the partitions of a table, including those with a damaged manifest."""
        return [partitions.partition_of_folder(table, name.rpartition("/")[0]) for name in self._names(table)]

    def intact_manifests(self, table: Table) -> dict[Partition, Manifest]:
        """Return the manifests of the table's current version whose file exists with the recorded size.

        Contents are not verified.
        """
        listed = {entry.name: entry.bytes for entry in self.storage.files(table.name)}
        manifests = self._readable_manifests(table, None if self.has_index else self._names(table, listed))
        return {
            partition: manifest
            for partition, manifest in manifests.items()
            if manifest.version == table.version and listed.get(manifest.file) == manifest.bytes
        }

    def readable_manifests(self, table: Table, wanted: Iterable[Partition] | None = None) -> dict[Partition, Manifest]:
        """Return the manifests that can be parsed, of any table version, sorted by partition. wanted: partitions to read; default all."""
        if wanted is not None:
            return self._readable_manifests(table, [_manifest_name(table, partition) for partition in wanted])
        return self._readable_manifests(table, None if self.has_index else self._names(table))

    def _readable_manifests(self, table: Table, names: Sequence[str] | None) -> dict[Partition, Manifest]:
        """Return the manifests stored under `names` (default: all), skipping damaged ones. Raises `LakeError` for a damaged index."""
        manifests: dict[Partition, Manifest] = {}
        for few in [names] if self.has_index or names is None else [[name] for name in names]:
            try:
                stored = list(self.read_entries(table, few))
            except LakeError:
                if self.has_index:
                    raise
                continue
            manifests |= {manifest.partition: manifest for _, manifest in stored if isinstance(manifest, Manifest)}
        return dict(sorted(manifests.items()))

    def set_aside_damaged(self, table: Table) -> list[Partition]:
        """Rename damaged manifests, so that their partitions count as missing and can be rebuilt. Returns the partitions."""
        stored = self._catalog.read(table.name)
        damaged = [name for name, manifest in self._parsed(table, stored) if isinstance(manifest, LakeError)]
        for name in damaged:
            self._catalog.put(table.name, {f"{name}.damaged": stored[name], name: None})
        return [partitions.partition_of_folder(table, name.rpartition("/")[0]) for name in damaged]

    def read_entries(self, table: Table, names: Sequence[str] | None = None) -> Iterator[tuple[str, Manifest | LakeError]]:
        """Yield each of `names` (default: all) with its manifest, or with the error of a damaged manifest.
        Raises `LakeError` if a file cannot be read.
        """
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
        """Parse the manifest stored under `name`. Raises `LakeError` if the text is damaged or describes another table or partition."""
        location = self.storage.location(name)
        manifest = load(text, location, describe_repair(table, partitions.partition_of_folder(table, name.rpartition("/")[0])))
        if manifest.table != table.name or _manifest_name(table, manifest.partition) != name:
            raise LakeError(f"reading the manifest {location}: it belongs to {manifest.table} {manifest.partition}; remove this copy")
        return manifest

    def _read(self, table: Table, names: list[str] | None) -> dict[Partition, Manifest]:
        """Return the manifests stored under `names`, or all manifests of the table. Raises `LakeError` for a damaged manifest."""
        manifests = {}
        for _, manifest in self.read_entries(table, names):
            if isinstance(manifest, LakeError):
                raise manifest
            manifests[manifest.partition] = manifest
        return manifests

    def slice(self, table: Table, partitions: Iterable[Partition] | None = None, *, missing: Literal["error", "skip"] = "error") -> Slice:
        """Return a slice (rows of some partitions, fixed at this moment) of `partitions`, by default of all.

        Raises `LakeError` for a partition that was never written (unless `missing` is "skip") or was written under another version.
        """
        if partitions is None:
            manifests = self.manifests(table)
        else:
            wanted = sorted(set(partitions))
            names = [_manifest_name(table, partition) for partition in wanted]
            if missing == "skip" and len(names) > _FEW and not self.has_index:
                names = sorted(set(names) & set(self._names(table)))
            stored = self._read(table, names)
            manifests = {partition: stored[partition] for partition in wanted if partition in stored}
            absent = [partition for partition in wanted if partition not in manifests]
            if absent and missing == "error":
                raise LakeError(f"reading {table.name}: {_describe_partitions(absent)} was never written; materialize it first")
        return self.slice_from(table, manifests)

    def slice_from(self, table: Table, manifests: Mapping[Partition, Manifest]) -> Slice:
        """Return a slice of the rows that `manifests` name. Raises `LakeError` for a manifest written under another version of the table."""
        outdated = [partition for partition, manifest in manifests.items() if manifest.version != table.version]
        if outdated:
            theirs = manifests[outdated[0]].version
            raise LakeError(
                f"reading {table.name}: {_describe_partitions(outdated)} was written by version {theirs} of the table's rules, this code has version "
                f"{table.version}; {describe_repair(table, outdated[0])}"
            )
        files = tuple(self.storage.location(manifest.file) for manifest in manifests.values())
        return Slice(table, tuple(manifests.values()), files, self.copies)

    def verify(self, manifest: Manifest) -> None:
        """Raise `LakeError` if the file of `manifest` is missing or has another checksum."""
        location = self.storage.location(manifest.file)
        try:
            if self.copies is not None:
                self.copies.verify(manifest)
                return
            with self.storage.open(manifest.file) as file:
                verify_checksum(manifest, location, file)
        except FileNotFoundError:
            raise missing_file_error(manifest, location) from None

    def local(self, manifest: Manifest) -> str:
        """Return the local path of the manifest's file. A file in an object store is copied and verified first."""
        return self.copies.local([manifest])[0] if self.copies is not None else self.storage.location(manifest.file)

    def is_sound(self, manifest: Manifest) -> bool:
        """Return True if the file of `manifest` exists and has the recorded checksum. Always True in an object store, without verification."""
        return is_sound(manifest, self.storage.location(manifest.file))

    def vacuum(
        self, older_than: timedelta, *, tables: Iterable[Table] = (*TABLES.values(), *HISTORY), keep: Collection[str] = ()
    ) -> VacuumResult:
        """Delete superseded files and abandoned drafts older than the grace period `older_than`, never a file named by a manifest.

        keep: locations kept at any age, such as those of a published warehouse (`warehouse.covered_files`).
        """
        return vacuum(self.storage, self._catalog, tables, older_than=older_than, now=self.clock(), keep=keep)


def _manifest_name(table: Table, partition: Partition) -> str:
    return f"{partitions.partition_folder(table, partition)}/{FILE_NAME}"


def _describe_partitions(listed: list[Partition]) -> str:
    if listed == [()]:
        return "the table"
    return f"partition {'/'.join(listed[0])}" + (f" (and {len(listed) - 1} more)" if len(listed) > 1 else "")
