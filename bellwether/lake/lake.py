"""The lake: one Parquet file per partition of a table, and a catalog that names the current file of each partition.

A partition is written as a new file named after the run; then the catalog switches to it. Nothing is changed in place:
a reader sees either the old or the new rows, and a crash at any instant leaves the old ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, Self

import polars as pl

from bellwether.errors import ConfigError, LakeError
from bellwether.files import locked
from bellwether.lake import parquet, partitions
from bellwether.lake.catalog import Catalog, Manifest
from bellwether.lake.checksums import Copies, describe_repair, find_damage, require_intact
from bellwether.lake.partitions import Partition
from bellwether.lake.slices import Slice
from bellwether.lake.storage import TEMPORARY, StorageEntry, VacuumResult, open_storage, require_grace_period
from bellwether.settings import Settings, settings
from bellwether.tables import TABLES, Table

#: Tolerated difference between the clock of a file system and this machine's.
_CLOCK_TOLERANCE = timedelta(seconds=10)
#: Up to this number, partitions are queried by name; for more, the whole table is.
_FEW = 64

_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def _utc_now() -> datetime:
    return datetime.now(UTC)


#: End of the name of the catalog's file next to the lake's folder.
CATALOG = ".catalog.db"


class Lake:
    """Tables stored below one folder or object-store URL, with one Parquet file per partition.

    Attributes:
        uri: a folder, or a URL such as s3://bucket/prefix.
        clock: current time in UTC, for times of writing.
        copies: local copies of files in an object store; None for a folder.
        durable: whether writes to a folder survive a power failure; see `Settings.durable`.
        cache: folder of the local copies; by default that of the settings.
        catalog: SQLite file or Postgres URL of the catalog; by default the file next to the lake's folder.
    """

    def __init__(
        self,
        uri: str,
        *,
        clock: Callable[[], datetime] = _utc_now,
        durable: bool = True,
        cache: Path | None = None,
        catalog: Path | str | None = None,
    ) -> None:
        self.storage = open_storage(uri, durable=durable)
        self.clock = clock
        stores_objects = "://" in self.storage.uri
        self.copies = Copies(self.storage, cache or settings().cache_path / "lake") if stores_objects else None
        if catalog is None and self.copies is not None:
            raise ConfigError(f"opening the lake {uri}: a lake in an object store needs a place for its catalog")
        self.catalog = Catalog(catalog or Path(f"{self.storage.uri}{CATALOG}"), self.storage.uri, durable=durable)

    @classmethod
    def of(cls, config: Settings) -> Self:
        """Open the lake of the settings."""
        return cls(config.lake_uri, durable=config.durable, cache=config.cache_path / "lake", catalog=config.catalog)

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
        base: int | None = None,
    ) -> Manifest:
        """Replace all rows of one partition by `data` atomically, and return the new manifest. Combines `stage` and `commit`."""
        return self.commit([self.stage(table, partition, data, run_id=run_id, inputs=inputs, code_version=code_version)], base=base)[0]

    def stage(
        self,
        table: Table,
        partition: Partition,
        data: pl.DataFrame | Iterable[pl.DataFrame],
        *,
        run_id: str,
        inputs: Mapping[str, str] | None = None,
        code_version: str | None = None,
    ) -> Manifest:
        """Store `data` as a new file of a partition, and return its manifest. No reader sees the file before `commit`.

        A frame is stored sorted by the table's order; the frames of an iterable are stored in the given order, in bounded memory.
        The same rows have the same digest. inputs, code_version: see `Manifest`.
        Raises `SchemaError` for rows that do not fit the declaration or the partition, `LakeError` if they cannot be stored.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise LakeError(f"writing {table.name}: {run_id!r} is not a valid name of a file; use letters, digits, '.', '_' and '-'")
        folder = partitions.partition_folder(table, partition)
        self._create_catalog()
        facts: dict[str, Any] = {
            "table": table.name,
            "partition": partition,
            "version": table.version,
            "run_id": run_id,
            "written_at": self.clock(),
            "inputs": None if inputs is None else dict(inputs),
            "code_version": code_version,
        }
        with self.storage.draft(f"{folder}/{run_id}.parquet") as draft:
            summary = parquet.write(table, partition, data, draft, facts)
            file = self._publish(draft, f"{folder}/{run_id}")
        return Manifest(file=file, **facts, **asdict(summary))

    def commit(self, manifests: Sequence[Manifest], *, base: int | None = None) -> list[Manifest]:
        """Make staged files the current ones of their partitions, all at once. base: `catalog.head()` when the run began to read.

        Raises `OutrunError`, and changes nothing, if another run has written other rows of one of the partitions since.
        """
        for manifest in manifests:
            if self.copies is None and not self._has_file(manifest):
                raise LakeError(
                    f"writing {manifest.table}: {self.storage.location(manifest.file)} was deleted before its commit; run again"
                )
        return self.catalog.commit(manifests, self.clock(), base=base)

    def record_inputs(self, table: Table, partition: Partition, *, run_id: str, inputs: Mapping[str, str]) -> None:
        """Record from which inputs files outside the lake, such as a report, were computed. inputs: digest of each input table."""
        self._create_catalog()
        self.commit([Manifest(table.name, partition, "", 0, 0, "", "", table.version, run_id, self.clock(), None, inputs)])

    def _create_catalog(self) -> None:
        """Create the catalog of a new lake."""
        self._require_catalog()
        self.catalog.create()

    def _require_catalog(self) -> None:
        """Raise `LakeError` for a folder with files but without a catalog."""
        if self.catalog.exists() or self.copies is not None:
            return
        for table in TABLES.values():
            # Another first writer may have created the catalog and written since; files come after the catalog.
            if any(TEMPORARY not in entry.name for entry in self.storage.files(table.name)) and not self.catalog.exists():
                raise LakeError(
                    f"opening the lake {self.uri}: it has files but no catalog {self.catalog.where}; restore the catalog from a backup or with "
                    "`bellwether doctor --rebuild`, or set BELLWETHER_HOME to a new folder if another version of Bellwether made the lake"
                )

    def require_readable(self) -> None:
        """Raise `LakeError` for a lake whose catalog is lost, or of another version."""
        self._require_catalog()
        self.catalog.head()

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Exclude other processes that take the lock `name` of this lake, until the block ends. An object store has no locks."""
        with nullcontext() if "://" in self.uri else locked(Path(f"{self.uri}.{name}.lock")):
            yield

    def _publish(self, draft: Path, stem: str) -> str:
        """Store the draft under `stem`, with a number appended if that name is taken, and return the name. No existing file is replaced."""
        for suffix in chain([""], (f"-{attempt}" for attempt in count(1))):
            name = f"{stem}{suffix}.parquet"
            if self.storage.publish(draft, name):
                return name
        raise AssertionError("names never run out")

    def manifest(self, table: Table, partition: Partition) -> Manifest | None:
        """Return the manifest of one partition; None if it was never written."""
        return self.manifests(table, [partition]).get(partition)

    def manifests(self, table: Table, wanted: Collection[Partition] | None = None) -> dict[Partition, Manifest]:
        """Return the manifests of the `wanted` partitions of a table (default: all) that exist, of any version of the table, sorted by partition."""
        self._require_catalog()
        few = list(wanted) if wanted is not None and len(wanted) <= _FEW else None
        rows = {manifest.partition: manifest for manifest in self.catalog.read(table.name, few)}
        return rows if wanted is None else {partition: rows[partition] for partition in sorted(wanted) if partition in rows}

    def intact_manifests(self, table: Table) -> dict[Partition, Manifest]:
        """Return the manifests of the table's current version whose file exists with the recorded size.

        Contents are not verified; files in an object store are not looked up.
        """
        return {
            partition: manifest
            for partition, manifest in self.manifests(table).items()
            if manifest.version == table.version and (self.copies is not None or self._has_file(manifest))
        }

    def require_newer(self, table: Table, partition: Partition, known_at: datetime) -> None:
        """Raise `LakeError` if the stored rows of `partition` have a later `known_at` (time at which the rows became known, UTC) than new rows."""
        stored = self.manifest(table, partition)
        if stored is None or stored.known_at is None or stored.known_at <= known_at:
            return
        raise LakeError(
            f"writing {table.name} {'/'.join(partition)}: the new rows were known at {known_at:%Y-%m-%d %H:%M:%S} UTC, the stored rows at "
            f"{stored.known_at:%Y-%m-%d %H:%M:%S}; the stored rows are kept. A clock was set back: correct the venue's clock (in the sandbox "
            "BELLWETHER_SANDBOX_NOW), or use another BELLWETHER_HOME"
        )

    def _has_file(self, manifest: Manifest) -> bool:
        try:
            return not manifest.file or os.path.getsize(self.storage.location(manifest.file)) == manifest.bytes
        except OSError:
            return False

    def slice(self, table: Table, partitions: Collection[Partition] | None = None, *, missing: Literal["error", "skip"] = "error") -> Slice:
        """Return a slice (rows of some partitions, fixed at this moment) of `partitions`, by default of all.

        Raises `LakeError` for a partition that was never written (unless `missing` is "skip") or was written under another version.
        """
        manifests = self.manifests(table, None if partitions is None else set(partitions))
        absent = sorted(set(partitions or ()) - manifests.keys())
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
                f"{table.version}; {describe_repair(table.name, outdated[0])}"
            )
        files = tuple(self.storage.location(manifest.file) for manifest in manifests.values())
        return Slice(table, tuple(manifests.values()), files, self.copies)

    def verify(self, manifest: Manifest) -> None:
        """Raise `LakeError` if the file of `manifest` is missing or has another checksum. A file in an object store is downloaded again."""
        if self.copies is not None:
            self.copies.verify(manifest)
        else:
            require_intact(manifest, self.storage.location(manifest.file))

    def is_sound(self, manifest: Manifest) -> bool:
        """Return True if the file of `manifest` exists and has the recorded checksum. Always True in an object store, without verification."""
        return self.copies is not None or find_damage(self.storage.location(manifest.file), manifest.sha256) is None

    def is_unchanged(self, manifest: Manifest, since: datetime) -> bool:
        """Return True if the file exists with the recorded size and was not changed, copied or moved since a time (UTC). Always True in an object store."""
        if self.copies is not None:
            return True
        try:
            stat = os.stat(self.storage.location(manifest.file))
        except FileNotFoundError:
            return False
        return stat.st_size == manifest.bytes and stat.st_ctime < (since - _CLOCK_TOLERANCE).timestamp()

    def vacuum(self, older_than: timedelta) -> VacuumResult:
        """Delete files that were superseded, or left as drafts, longer than `older_than` ago, never a current file.

        The age of a superseded file counts from the commit that superseded it, that of a file without a row from the creation of the catalog, since
        a rebuilt catalog may lack later files. A published warehouse lists superseded files: publish before.
        Raises `LakeError` for an age below `MINIMUM_AGE`.
        """
        require_grace_period(older_than)
        created, end, deleted, gone = self.catalog.created_at(), self.clock() - older_than, list[StorageEntry](), list[str]()
        if created is None:
            return VacuumResult((), 0)
        for table in TABLES.values():
            listed = self.storage.files(table.name)
            # Read the catalog after the listing: files written in between are not listed.
            current, superseded = {manifest.file for manifest in self.catalog.read(table.name)}, self.catalog.superseded(table.name)
            for entry in listed:
                is_file = entry.name.endswith(".parquet") or TEMPORARY in entry.name
                if is_file and entry.name not in current:
                    switched = superseded.get(entry.name, created)
                    if max(entry.modified, switched) < end:
                        deleted.append(entry)
            kept = {entry.name for entry in listed} - {entry.name for entry in deleted}
            gone += [file for file in superseded if file not in kept]
        for entry in deleted:
            self.storage.delete(entry.name)
        self.catalog.forget(gone)
        return VacuumResult(tuple(entry.name for entry in deleted), sum(entry.bytes for entry in deleted))


def _describe_partitions(listed: list[Partition]) -> str:
    if listed == [()]:
        return "the table"
    return f"partition {'/'.join(listed[0])}" + (f" (and {len(listed) - 1} more)" if len(listed) > 1 else "")
