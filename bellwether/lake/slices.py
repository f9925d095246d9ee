"""Some partitions of a table, as an asset receives them: the manifests seen at one moment and the files that they name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import parquet
from bellwether.lake.checksums import compare_once, is_sound
from bellwether.lake.local_copies import Copies
from bellwether.lake.manifest import Manifest
from bellwether.lake.partitions import Partition
from bellwether.lake.repair import remedy
from bellwether.tables import Table


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of some partitions, fixed when the slice was taken: later writes do not change it.

    Attributes:
        table: declaration of the table.
        manifests: one per partition, in order of the partition.
        files: absolute names of the Parquet files, in the same order.
        copies: of the files, where they are in an object store; None in a folder.
    """

    table: Table
    manifests: tuple[Manifest, ...]
    files: tuple[str, ...]
    copies: Copies | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> int:
        """Number of rows, without reading any."""
        return sum(manifest.rows for manifest in self.manifests)

    def local(self) -> tuple[str, ...]:
        """Paths of the files, or of copies of those in an object store, which are fetched once. Raises `LakeError` for one that is missing or damaged there."""
        return self.files if self.copies is None else self.copies.local(self.manifests)

    def check(self) -> tuple[str, ...]:
        """The paths of `local`. Raises `LakeError` for a file that is missing, has other columns than declared, or is not as it was written.

        A process reads a file once for that.
        """
        files = self.check_columns()
        for file, manifest in zip(files, self.manifests, strict=True):
            compare_once(manifest, file)
        return files

    def check_columns(self) -> tuple[str, ...]:
        """The paths of `local`. Raises `LakeError` for a file that is missing, or has other columns than declared; of a file no more than its end is read."""
        files = self.local()
        for path, location, manifest in zip(files, self.files, self.manifests, strict=True):
            parquet.check(self.table, manifest.partition, path, location)
        return files

    def without(self, partitions: Collection[Partition]) -> Slice:
        """The same without some partitions."""
        kept = [(manifest, file) for manifest, file in zip(self.manifests, self.files, strict=True) if manifest.partition not in partitions]
        return replace(self, manifests=tuple(manifest for manifest, _ in kept), files=tuple(file for _, file in kept))

    def only(self, partitions: Collection[Partition]) -> Slice:
        """The same with no other partitions than these."""
        return self.without({manifest.partition for manifest in self.manifests} - set(partitions))

    def damaged(self) -> frozenset[Partition]:
        """The partitions whose file is missing or not as it was written; none in an object store. A file is read once in a process."""
        return frozenset(
            manifest.partition for manifest, file in zip(self.manifests, self.files, strict=True) if not is_sound(manifest, file)
        )

    def scan(self) -> pl.LazyFrame:
        """The rows, read when they are needed, with the declared schema even when there is no file. Raises as `check` does."""
        if not self.files:
            return self.table.empty().lazy()
        return parquet.scan(self.check(), self.table.schema)

    def head(self, rows: int = 5) -> pl.DataFrame:
        """The first rows, of the first partition that has any."""
        first = next((manifest.partition for manifest in self.manifests if manifest.rows), None)
        if first is None:
            return self.table.empty()
        return parquet.scan(self.only([first]).local(), self.table.schema).head(rows).collect()

    def read(self) -> pl.DataFrame:
        """The rows in memory, partition by partition in stored order. Raises `LakeError` for a damaged file."""
        return self.query(lambda rows: rows)

    def query(self, made: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        """What is made of the rows, of which no more than it needs is read. Raises `LakeError` that names a damaged file."""
        try:
            return made(self.scan()).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise LakeError(f"reading {self.table.name}: {self._damage(error)}") from error

    def _damage(self, error: Exception) -> str:
        for path, location, manifest in zip(self.local(), self.files, self.manifests, strict=True):
            try:
                parquet.scan([path]).collect()
            except (OSError, pl.exceptions.PolarsError) as own:
                return f"{location} is damaged ({own}); {remedy(self.table, manifest.partition)}"
        return str(error)
