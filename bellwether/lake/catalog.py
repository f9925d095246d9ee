"""Catalog of a lake: one row of SQL per written partition, with its file, checksum, inputs and run.

The rows are in an SQLite file next to the lake's folder, or in a table of the journal's Postgres. A partition is its current row; a superseded
row is kept until its file is vacuumed. Files that no row names do not belong to the lake.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from bellwether.errors import LakeError
from bellwether.files import locked, sync
from bellwether.lake.partitions import Partition

T = TypeVar("T")

#: Version of the catalog's tables. Catalogs of other versions are refused.
VERSION = 1
#: Seconds to wait for another writer, or for a server that restarts.
PATIENCE = 30.0
#: Number of the advisory lock on Postgres that writers hold, so that numbers are in the order of commits; any constant of ours serves.
_LOCK = 0x62656C6E
_MAGIC = b"SQLite format 3\x00"

metadata = sa.MetaData()

#: One row: the version of the tables, and when this catalog was created or rebuilt.
catalog_version = sa.Table(
    "catalog_version",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", sa.String(32), nullable=False),
)
#: One row per written partition; times are ISO texts in UTC. lake: URL of the lake on Postgres, where several share the table.
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
    sa.Column("written_at", sa.String(32), nullable=False),
    sa.Column("known_at", sa.String(32)),
    sa.Column("inputs", sa.Text),
    sa.Column("code_version", sa.Text),
    sa.Column("checked_at", sa.String(32)),
    sa.Column("damage", sa.Text),
    sa.Column("replaced_at", sa.String(32)),
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
        self.path = place if isinstance(place, Path) else None
        self._lake = "" if self.path else lake
        self._durable = durable
        self._engine = self._create_engine(place)
        self.where = str(self.path or self._engine.url.set(password=None, query={}))
        self._ready, self._process = False, os.getpid()

    def exists(self) -> bool:
        """Return True unless the catalog is an SQLite file that does not exist yet."""
        return self.path is None or self.path.exists()

    def head(self) -> int:
        """Return the number of the latest commit, from which later ones differ; 0 without one."""
        statement = sa.select(sa.func.max(partitions.c.number)).where(partitions.c.lake == self._lake)
        return self._read(lambda connection: connection.execute(statement).scalar() or 0, 0)

    def heads(self) -> dict[str, int]:
        """Return the number of the latest commit of each written table."""
        statement = sa.select(partitions.c.table, sa.func.max(partitions.c.number)).where(partitions.c.lake == self._lake)
        return self._read(lambda connection: dict(connection.execute(statement.group_by(partitions.c.table)).tuples().all()), {})

    def read(self, table: str | None = None, wanted: Sequence[Partition] | None = None) -> list[Manifest]:
        """Return the current partitions of a table (default: all tables), sorted by table and partition. wanted: up to 100 partitions of it."""
        statement = sa.select(partitions).where(partitions.c.lake == self._lake, _is_current)
        if table is not None:
            statement = statement.where(partitions.c.table == table)
        if wanted is not None:
            statement = statement.where(partitions.c.partition.in_([_dump(partition) for partition in wanted]))
        empty: list[RowMapping] = []
        rows = self._read(lambda connection: list(connection.execute(statement).mappings()), empty)
        return sorted(map(_manifest, rows), key=lambda manifest: (manifest.table, manifest.partition))

    def superseded(self, table: str) -> dict[str, datetime]:
        """Return when each superseded file of a table was replaced."""
        columns = partitions.c.file, sa.func.max(partitions.c.replaced_at)
        statement = sa.select(*columns).where(partitions.c.lake == self._lake, partitions.c.table == table, ~_is_current)
        empty: list[tuple[str, str]] = []
        rows = self._read(lambda connection: list(connection.execute(statement.group_by(partitions.c.file)).tuples()), empty)
        return {file: datetime.fromisoformat(at) for file, at in rows}

    def created_at(self) -> datetime | None:
        """Return when this catalog was created or rebuilt; None if it does not exist yet."""
        text = self._read(lambda connection: connection.execute(sa.select(catalog_version.c.created_at)).scalar(), None)
        return datetime.fromisoformat(text) if text else None

    def commit(self, manifests: Sequence[Manifest], at: datetime, *, base: int | None = None) -> list[Manifest]:
        """Make written files current in one transaction, and return their manifests with numbers.

        base: `head` when the run began to read. Raises `OutrunError`, and changes nothing, if another run has written one of the partitions since.
        """

        def work(connection: Connection) -> list[Manifest]:
            return [self._replace(connection, manifest, at, base) for manifest in manifests]

        if not manifests:
            return []
        return self._write(f"writing {', '.join(dict.fromkeys(manifest.table for manifest in manifests))}", work)

    def _replace(self, connection: Connection, manifest: Manifest, at: datetime, base: int | None) -> Manifest:
        own = (partitions.c.lake == self._lake, partitions.c.table == manifest.table, partitions.c.partition == _dump(manifest.partition))
        current = connection.execute(sa.select(partitions).where(*own, _is_current)).mappings().first()
        if current is not None:
            if manifest.file and current["file"] == manifest.file:
                return replace(manifest, number=current["number"])  # committed before; the server's answer was lost
            if base is not None and current["number"] > base and current["run_id"] != manifest.run_id:
                raise OutrunError(
                    f"writing {manifest.table} {'/'.join(manifest.partition)}: run {current['run_id']} has written it at "
                    f"{current['written_at'][:19]} UTC, after run {manifest.run_id} began; the newer rows are kept. Run again to replace them"
                )
            connection.execute(partitions.update().where(partitions.c.number == current["number"]).values(replaced_at=_text(at)))
        inserted = connection.execute(partitions.insert().values(lake=self._lake, **_values(manifest)))
        key = inserted.inserted_primary_key
        assert key is not None
        return replace(manifest, number=key[0])

    def record_checks(self, checks: Mapping[int, str | None], at: datetime) -> None:
        """Record what comparing files with their checksums found: by number of the commit the damage, None for an intact file."""
        if not checks:
            return
        number: sa.BindParameter[int] = sa.bindparam("of")
        damage: sa.BindParameter[str | None] = sa.bindparam("found")
        statement = partitions.update().where(partitions.c.number == number).values(checked_at=_text(at), damage=damage)
        rows = [{"of": of, "found": found} for of, found in checks.items()]
        self._write("recording checks of files", lambda connection: connection.execute(statement, rows))

    def forget(self, files: Collection[str]) -> None:
        """Delete the superseded rows of `files`."""
        if files:
            statement = partitions.delete().where(partitions.c.lake == self._lake, ~_is_current, partitions.c.file == sa.bindparam("name"))
            rows = [{"name": name} for name in files]
            self._write("deleting superseded partitions", lambda connection: connection.execute(statement, rows))

    def _read(self, work: Callable[[Connection], T], empty: T) -> T:
        """Run `work` on a connection and return its result; `empty` for an SQLite file that does not exist yet."""
        if not self.exists():
            return empty
        return self._run("reading", work, None)

    def _write(self, doing: str, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction of the only writer, and return its result."""
        return self._run(doing, work, "BEGIN IMMEDIATE" if self.path else "BEGIN")

    def _run(self, doing: str, work: Callable[[Connection], T], begin: str | None) -> T:
        """Run `work`, again for `PATIENCE` seconds while a Postgres server is unavailable. begin: None outside a transaction."""
        if self._process != os.getpid():  # connections are not shared with the parent process
            self._engine.dispose(close=False)
            self._process = os.getpid()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with self._engine.connect() as connection:
                    self._require_version(connection)
                    return _transact(connection, work, begin)
            except SQLAlchemyError as error:
                if not _is_transient(error) or time.monotonic() > until:
                    raise self._convert(doing, error) from None
            except (OSError, sqlite3.Error) as error:
                raise self._convert(doing, error) from None
            time.sleep(random.uniform(0.02, 0.2))

    def _require_version(self, connection: Connection) -> None:
        """Create the tables in a Postgres database without them. Raises `LakeError` for a catalog of another version."""
        if self._ready:
            return
        if self.path is None:
            _transact(connection, create_tables, "BEGIN")
        try:
            version = connection.execute(sa.select(catalog_version.c.version)).scalar()
        except DBAPIError as error:
            if "no such table" not in str(error.orig):
                raise
            version = None
        if version != VERSION:
            raise LakeError(
                f"opening the catalog {self.where}: its tables have version {version}, this Bellwether reads version {VERSION}; "
                "use the Bellwether that made it, or set BELLWETHER_HOME to a new folder"
            )
        self._ready = True

    def create(self) -> None:
        """Create an SQLite file with its tables if it does not exist, complete at once for other processes."""
        if self.path is None or self.path.exists():
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path.with_name(f"{self.path.name}.lock")):
                if self.path.exists():
                    return
                draft = self.path.with_name(f".{self.path.name}.new")
                for name in (draft, *(draft.with_name(f"{draft.name}{suffix}") for suffix in ("-wal", "-shm"))):
                    name.unlink(missing_ok=True)
                engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(draft), poolclass=sa.NullPool)
                with engine.begin() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                    create_tables(connection)
                sync(draft)
                os.replace(draft, self.path)
        except (OSError, SQLAlchemyError) as error:
            raise self._convert("creating it", error) from None

    def _create_engine(self, place: Path | str) -> Engine:
        if isinstance(place, Path):
            return sa.create_engine("sqlite://", creator=self._open_file, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        url = sa.make_url(place).set(drivername="postgresql+psycopg")
        return sa.create_engine(url, isolation_level="AUTOCOMMIT", hide_parameters=True, pool_pre_ping=True)

    def _open_file(self) -> sqlite3.Connection:
        """Open the SQLite file. In a read-only folder without a log it is opened as immutable, since no process can be writing to it."""
        assert self.path is not None
        with self.path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise sqlite3.DatabaseError("file is not a database")
        log = self.path.with_name(f"{self.path.name}-wal")
        fixed = not os.access(self.path.parent, os.W_OK) and not (log.is_file() and log.stat().st_size)
        options = "?mode=ro&immutable=1" if fixed else "?mode=rw"
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}{options}", uri=True, timeout=PATIENCE, check_same_thread=False)
        connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}").close()
        return connection

    def _convert(self, doing: str, error: Exception) -> LakeError:
        """Convert the error of a database driver, without statement and password."""
        cause = getattr(error, "orig", None) or error
        reason = " ".join(str(getattr(cause, "strerror", None) or cause).split())
        if "malformed" in reason or "not a database" in reason:
            advice = "the file is damaged; restore a backup, or rebuild it with `bellwether doctor --rebuild`"
        elif "locked" in reason:
            advice = "another process keeps it locked; end it, then try again"
        else:
            advice = "nothing was changed; free space, check its permissions or the server, and run again"
        return LakeError(f"{doing}: catalog {self.where}: {reason}; {advice}")


def create_tables(connection: Connection) -> None:
    """Create the tables of a catalog and the row with their version, unless they exist."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    metadata.create_all(connection)
    if connection.execute(sa.select(catalog_version.c.version)).scalar() is None:
        connection.execute(catalog_version.insert().values(version=VERSION, created_at=_text(datetime.now(UTC))))


def _transact(connection: Connection, work: Callable[[Connection], T], begin: str | None) -> T:
    """Run `work` in a transaction that `begin` starts; None: outside one."""
    if begin is None:
        return work(connection)
    connection.exec_driver_sql(begin)
    try:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        result = work(connection)
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        with suppress(SQLAlchemyError):
            connection.exec_driver_sql("ROLLBACK")
        raise
    return result


def _is_transient(error: SQLAlchemyError) -> bool:
    """Return True if a Postgres server was unavailable or aborted the transaction."""
    if not isinstance(error, DBAPIError) or isinstance(error.orig, sqlite3.Error):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return (
        error.connection_invalidated
        or state in {"40001", "40P01", "57P01", "57P02", "57P03"}
        or (state is None and "connect" in str(error.orig))
    )


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(" ", "microseconds")


def _values(manifest: Manifest) -> dict[str, Any]:
    """Return the columns of a new row."""
    values = {column.name: getattr(manifest, column.name) for column in partitions.columns if column.name in Manifest.__slots__}
    values |= {name: _text(values[name]) for name in ("written_at", "known_at") if values[name] is not None}
    values |= {"partition": _dump(manifest.partition), "inputs": None if manifest.inputs is None else _dump(manifest.inputs)}
    return {name: value for name, value in values.items() if name != "number"}


def _manifest(row: RowMapping) -> Manifest:
    values: dict[str, Any] = {str(name): value for name, value in row.items() if name not in ("lake", "replaced_at")}
    values |= {name: datetime.fromisoformat(values[name]) for name in ("written_at", "known_at", "checked_at") if values[name] is not None}
    values |= {
        "partition": tuple(orjson.loads(values["partition"])),
        "inputs": orjson.loads(values["inputs"]) if values["inputs"] else None,
    }
    return Manifest(**values)
