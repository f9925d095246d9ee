"""Slices: rows of some partitions of a table, fixed at one moment, as inputs of an asset."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import parquet
from bellwether.lake.catalog import Manifest
from bellwether.lake.checksums import Copies, find_damage, require_intact
from bellwether.lake.partitions import Partition
from bellwether.tables import Table


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of some partitions, fixed when the slice was taken: later writes do not change it.

    Attributes:
        table: declaration of the table.
        manifests: one per partition, sorted by partition.
        files: absolute names of the Parquet files, in the same order.
        copies: local copies of files in an object store; None for a folder.
    """

    table: Table
    manifests: tuple[Manifest, ...]
    files: tuple[str, ...]
    copies: Copies | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> int:
        """Number of rows according to the manifests, so that no file is read."""
        return sum(manifest.rows for manifest in self.manifests)

    def local(self) -> tuple[str, ...]:
        """Return local paths of the files. Files in an object store are copied and verified first. Raises `LakeError` for a damaged file."""
        return self.files if self.copies is None else self.copies.local(self.manifests)

    def check(self) -> tuple[str, ...]:
        """Verify the checksum of each file, once per process, and return local paths. Raises `LakeError` for a missing or damaged file."""
        if self.copies is None:
            for file, manifest in zip(self.files, self.manifests, strict=True):
                require_intact(manifest, file)
        return self.local()

    def exclude(self, partitions: Collection[Partition]) -> Slice:
        """Return a slice without these partitions."""
        pairs = [pair for pair in zip(self.manifests, self.files, strict=True) if pair[0].partition not in partitions]
        return replace(self, manifests=tuple(manifest for manifest, _ in pairs), files=tuple(file for _, file in pairs))

    def restrict(self, partitions: Collection[Partition]) -> Slice:
        """Return a slice with only these partitions."""
        return self.exclude({manifest.partition for manifest in self.manifests} - set(partitions))

    def damaged(self) -> frozenset[Partition]:
        """Return the partitions whose file is missing or damaged. Each file is verified once per process; files in an object store are not verified."""
        if self.copies is not None:
            return frozenset()
        pairs = zip(self.manifests, self.files, strict=True)
        return frozenset(manifest.partition for manifest, file in pairs if find_damage(file, manifest.sha256))

    def scan(self) -> pl.LazyFrame:
        """Return a lazy frame of the rows, with the declared columns even if there are no files. Raises the errors of `check`."""
        if not self.files:
            return self.table.empty().lazy()
        return parquet.scan(self.check(), self.table.schema)

    def head(self, rows: int = 5) -> pl.DataFrame:
        """Return the first rows of the first nonempty partition."""
        first = next((manifest.partition for manifest in self.manifests if manifest.rows), None)
        if first is None:
            return self.table.empty()
        return parquet.scan(self.restrict([first]).local(), self.table.schema).head(rows).collect()

    def read(self) -> pl.DataFrame:
        """Read all rows, partition by partition in stored order. Raises `LakeError` for a damaged file."""
        return self.query(lambda rows: rows)

    def query(self, build: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        """Return the result of the lazy query that `build` makes from the rows. Raises `LakeError` that names a damaged file, and for files with
        other columns than declared.
        """
        try:
            return build(self.scan()).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise LakeError(f"reading {self.table.name}: {error}") from error
