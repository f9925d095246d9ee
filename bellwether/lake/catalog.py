"""Catalog of a lake: one row of SQL per written partition, with its file, checksum, inputs and run.

The rows are in an SQLite file next to the lake's folder, or in a table of the journal's Postgres. A partition is its current row; a superseded
row is kept until its file is vacuumed. Files that no row names do not belong to the lake.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from bellwether.database import Database, DatabaseSchema, Transaction, Utc, file_size
from bellwether.errors import LakeError
from bellwether.lake.partitions import Partition

#: Version of the catalog's tables. Catalogs of other versions are refused.
VERSION = 2

metadata = sa.MetaData()

#: One row: the version of the tables, and when this catalog was created or rebuilt.
catalog_version = sa.Table(
    "catalog_version",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", Utc, nullable=False),
)
#: One row per written partition. lake: URL of the lake on Postgres, where several share the table.
partitions = sa.Table(
    "partitions",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("lake", sa.Text, nullable=False),
    sa.Column("table", sa.Text, nullable=False),
    sa.Column("partition", sa.Text, nullable=False),
    sa.Column("file", sa.Text, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("written_at", Utc, nullable=False),
    sa.Column("known_at", Utc),
    sa.Column("inputs", sa.Text),
    sa.Column("code_version", sa.Text),
    sa.Column("checked_at", Utc),
    sa.Column("damage", sa.Text),
    sa.Column("replaced_at", Utc),
    sqlite_autoincrement=True,
)
_is_current = partitions.c.replaced_at.is_(None)
sa.Index(
    "partitions_current",
    *(partitions.c[name] for name in ("lake", "table", "partition")),
    unique=True,
    sqlite_where=_is_current,
    postgresql_where=_is_current,
)

#: What `bellwether.database` needs to know of the catalog.
SCHEMA = DatabaseSchema(
    "catalog",
    "BELLWETHER_LAKE",
    metadata,
    catalog_version,
    VERSION,
    repair="Restore a backup, or rebuild it with `bellwether doctor --rebuild`",
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of one written partition: its file, checksum and number of rows, and the run and inputs that produced them.

    Attributes:
        table: `group/name`.
        partition: values of the partition columns; () if unpartitioned.
        file: name of the Parquet file below the lake's root; "" for files outside the lake, of which only the inputs are recorded.
        rows, bytes: size of that file.
        sha256: of that file, in hex.
        digest: of its rows and columns, in hex; equal for equal rows.
        version: of the table's rules when the rows were computed.
        run_id: the run that wrote it.
        written_at: time of writing, UTC.
        known_at: latest `known_at` of its rows, UTC; None without one.
        inputs: digest of the versions of each input table (`bellwether.lake.staleness`); None outside the graph.
        code_version: of the code that computed the rows; None for rows that no asset computed.
        number: of the commit, in the order of commits; 0 before it.
        checked_at: when a publication compared the file with its checksum; None before that.
        damage: what that comparison found; None for an intact file.
    """

    table: str
    partition: Partition
    file: str
    rows: int
    bytes: int
    sha256: str
    digest: str
    version: str
    run_id: str
    written_at: datetime
    known_at: datetime | None
    inputs: Mapping[str, str] | None = None
    code_version: str | None = None
    number: int = 0
    checked_at: datetime | None = None
    damage: str | None = None


class OutrunError(LakeError):
    """Another run has written a partition since this run began; its rows are kept."""


class Catalog:
    """Rows of a lake's partitions.

    place: path of an SQLite file, created by the first write, or URL of a Postgres database. lake: URL of the lake, for Postgres.
    durable: whether commits to SQLite survive a power failure.
    """

    def __init__(self, place: Path | str, lake: str, *, durable: bool = True) -> None:
        self._database = Database(place, SCHEMA, durable=durable, pooled=False)
        self.path, self.where = self._database.path, self._database.where
        self._lake = "" if self.path else lake

    def exists(self) -> bool:
        """Return True unless the catalog is an SQLite file that does not exist yet."""
        return self.path is None or file_size(self.path) > 0

    def create(self) -> None:
        """Create the catalog if it does not exist."""
        self._database.open()

    def head(self) -> int:
        """Return the number of the latest commit, from which later ones differ; 0 without one."""
        return max(self.heads().values(), default=0)

    def heads(self) -> dict[str, int]:
        """Return the number of the latest commit of each written table."""
        columns = partitions.c.table, sa.func.max(partitions.c.number)
        return dict(self._read(sa.select(*columns).where(partitions.c.lake == self._lake).group_by(partitions.c.table)))

    def read(self, table: str | None = None, wanted: Sequence[Partition] | None = None) -> list[Manifest]:
        """Return the current partitions of a table (default: all tables), sorted by table and partition. wanted: up to 100 partitions of it."""
        statement = sa.select(partitions).where(partitions.c.lake == self._lake, _is_current)
        if table is not None:
            statement = statement.where(partitions.c.table == table)
        if wanted is not None:
            statement = statement.where(partitions.c.partition.in_([_dump(partition) for partition in wanted]))
        rows = (_manifest(row._mapping) for row in self._read(statement))
        return sorted(rows, key=lambda manifest: (manifest.table, manifest.partition))

    def superseded(self, table: str) -> dict[str, datetime]:
        """Return when each superseded file of a table was replaced."""
        columns = partitions.c.file, sa.func.max(partitions.c.replaced_at)
        statement = sa.select(*columns).where(partitions.c.lake == self._lake, partitions.c.table == table, ~_is_current)
        return dict(self._read(statement.group_by(partitions.c.file)))

    def created_at(self) -> datetime | None:
        """Return when this catalog was created or rebuilt; None if it does not exist yet."""
        return next((row.created_at for row in self._read(sa.select(catalog_version.c.created_at))), None)

    def commit(self, manifests: Sequence[Manifest], at: datetime, *, base: int | None = None) -> list[Manifest]:
        """Make written files current in one transaction, and return their manifests with numbers.

        base: `head` when the run began to read. A partition that another run has written since with equal rows from equal inputs stays as it is.
        Raises `OutrunError`, and changes nothing, if it has other rows.
        """
        if not manifests:
            return []

        def work(transaction: Transaction) -> list[Manifest]:
            transaction.lock("catalog")  # numbers are in the order of commits
            return [self._replace(transaction, manifest, at, base) for manifest in manifests]

        return self._database.write(f"writing {', '.join(dict.fromkeys(manifest.table for manifest in manifests))}", work)

    def _replace(self, transaction: Transaction, manifest: Manifest, at: datetime, base: int | None) -> Manifest:
        own = (partitions.c.lake == self._lake, partitions.c.table == manifest.table, partitions.c.partition == _dump(manifest.partition))
        current = transaction.row(sa.select(partitions).where(*own, _is_current))
        if current is not None:
            if manifest.file and current.file == manifest.file:
                return replace(manifest, number=current.number)  # committed before; the server's answer was lost
            if base is not None and current.number > base and current.run_id != manifest.run_id:
                written = _manifest(current._mapping)
                if _origin(written) == _origin(manifest):
                    return written
                raise OutrunError(
                    f"writing {manifest.table} {'/'.join(manifest.partition)}: run {current.run_id} has written it at "
                    f"{current.written_at:%Y-%m-%d %H:%M:%S} UTC, after run {manifest.run_id} began; the newer rows are kept. "
                    "Run again to replace them"
                )
            transaction.change(partitions.update().where(partitions.c.number == current.number).values(replaced_at=at))
        inserted = transaction.row(partitions.insert().values(lake=self._lake, **_values(manifest)).returning(partitions.c.number))
        return replace(manifest, number=inserted.number)

    def record_checks(self, checks: Mapping[int, str | None], at: datetime) -> None:
        """Record what comparing files with their checksums found: by number of the commit the damage, None for an intact file."""
        if not checks:
            return
        number: sa.BindParameter[int] = sa.bindparam("of")
        damage: sa.BindParameter[str | None] = sa.bindparam("found")
        statement = partitions.update().where(partitions.c.number == number).values(checked_at=at, damage=damage)
        rows = [{"of": of, "found": found} for of, found in checks.items()]
        self._database.write("recording checks of files", lambda transaction: transaction.change(statement, rows))

    def forget(self, files: Collection[str]) -> None:
        """Delete the superseded rows of `files`."""
        if files:
            statement = partitions.delete().where(partitions.c.lake == self._lake, ~_is_current, partitions.c.file == sa.bindparam("name"))
            rows = [{"name": name} for name in files]
            self._database.write("deleting superseded partitions", lambda transaction: transaction.change(statement, rows))

    def _read(self, statement: sa.Select[Any]) -> list[Any]:
        return self._database.read("reading", lambda transaction: transaction.rows(statement))


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


def _values(manifest: Manifest) -> dict[str, Any]:
    """Return the columns of a new row."""
    values = {name: getattr(manifest, name) for name in Manifest.__slots__ if name != "number"}
    return values | {"partition": _dump(manifest.partition), "inputs": None if manifest.inputs is None else _dump(manifest.inputs)}


def _origin(manifest: Manifest) -> tuple[object, ...]:
    """Return what is equal for two manifests of the same rows, computed in the same way from the same inputs."""
    return manifest.digest, manifest.version, manifest.inputs, manifest.code_version


def _manifest(row: RowMapping) -> Manifest:
    values: dict[str, Any] = {name: row[name] for name in Manifest.__slots__}
    values["partition"] = tuple(orjson.loads(values["partition"]))
    values["inputs"] = orjson.loads(values["inputs"]) if values["inputs"] else None
    return Manifest(**values)
