"""The journal's database: connections, transactions, waiting that is bounded, its clock, and errors in words.

SQLite: WAL, a commit is on the disk before it returns, one writer at a time. Postgres: read committed, rows are locked before they are judged.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from bellwether.errors import ConfigError, LakeError
from bellwether.journal import migration
from bellwether.journal.database_url import SETTING, explained, parsed, shown, sqlite_code
from bellwether.journal.schema import VERSION, journal_version, metadata

if TYPE_CHECKING:
    from bellwether.journal.shared_limits import SharedLimits

T = TypeVar("T")

_MAGIC = b"SQLite format 3\x00"
#: Numbers of the advisory locks on Postgres; any constants of ours serve.
_LOCKS = {"create": 0x62656C6C, "budget": 0x62656C6D}
#: Postgres: serialisation, deadlock, shutdown, crash and start of the server. Interrupted work can be retried.
_PASSING = {"40001", "40P01", "57P01", "57P02", "57P03"}


class Transaction:
    """One connection in use, inside a transaction or, for single reads, without one.

    totals: sums over attempts by scope, as `bellwether.journal.budget` knows them to be within this transaction.
    """

    def __init__(self, connection: Connection, clock: Callable[[], datetime] | None) -> None:
        self.connection = connection
        self.totals: dict[Any, Any] = {}
        self._clock = clock

    @property
    def on_postgres(self) -> bool:
        """True on Postgres."""
        return self.connection.dialect.name == "postgresql"

    def rows(self, statement: sa.Executable, values: Any = None) -> list[Any]:
        """All rows."""
        return list(self.connection.execute(statement, values))

    def row(self, statement: sa.Executable, values: Any = None) -> Any:
        """The first row, or None."""
        return self.connection.execute(statement, values).first()

    def change(self, statement: sa.Executable, values: Any = None) -> int:
        """Execute a statement and return the number of changed rows."""
        return self.connection.execute(statement, values).rowcount

    def now(self) -> datetime:
        """The present, UTC: Postgres' own clock, because machines' clocks differ; this machine's with SQLite."""
        if self._clock is not None:
            return self._clock().astimezone(UTC)
        if self.on_postgres:
            return self.connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one().astimezone(UTC)
        return datetime.now(UTC)

    def alone(self, lock: str) -> None:
        """Hold the named lock until the transaction ends; on SQLite every write is alone anyway."""
        if self.on_postgres:
            self.connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCKS[lock])))


class Database:
    """One SQLite file or Postgres database, opened on first use.

    Attributes:
        url: `sqlite:////absolute/path.db` or `postgresql://user:password@host/database`.
        clock: tests hand in their own.
        patience: seconds to wait at most for a lock, or for a server that restarts.
        before_creation: called before tables are created in a new database; what it raises prevents that.

    Raises `ConfigError` when the URL is wrong or the driver is not installed.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        self._url = parsed(url)
        self.before_creation: Callable[[], None] = lambda: None
        self.where = shown(self._url)
        self._clock = clock
        self._patience = patience
        self._path = Path(self._url.database or "").absolute() if self._url.get_backend_name() == "sqlite" else None
        self._engine = _engine(self._url, self._path, patience)
        self._process = os.getpid()
        self._ready = False
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._shared = threading.local()

    @property
    def has_one_writer(self) -> bool:
        """True on SQLite, where writers wait for each other and gain from sharing transactions."""
        return self._path is not None

    def shared_limits(self) -> SharedLimits | None:
        """The limits that all processes on this database share; None on SQLite."""
        if self.has_one_writer:
            return None
        from bellwether.journal.shared_limits import SharedLimits

        return SharedLimits(self._url, self._patience)

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self._engine.dispose()

    def exists(self) -> bool:
        """Return whether the journal exists; nothing is created."""
        if self._path is not None and not self._path.exists():
            return False
        with self._in_words("opening"):
            self._look_at_file()
            with self._engine.connect() as connection:
                return journal_version.name in _tables(connection)

    def read(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """`work` on a connection without a transaction, or within the one that this thread shares: for single statements.

        A missing file counts as an empty journal and is not created.
        """
        if self._is_absent():
            return self._run(work, None, self._empty)
        self.open()
        if (shared := self._shared_transaction) is not None:
            with self._in_words(doing):
                return work(shared)
        return self._again_when_it_passes(doing, lambda: self._run(work, None))

    def snapshot(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """`work` on one state of all tables, whatever is written meanwhile. A missing file counts as an empty journal."""
        if self._is_absent():
            return self._run(work, None, self._empty)
        self.open()
        begin = "BEGIN" if self._path is not None else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return self._again_when_it_passes(doing, lambda: self._run(work, begin))

    def write(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """`work` in one transaction, durable when this returns.

        When the connection is lost it is done again, even if it had been committed: `work` must find what it did before.
        Raises `LakeError` when a lock is not free, or the server not back, within the patience.
        """
        self.open()
        if (shared := self._shared_transaction) is not None:
            with self._in_words(doing), _part_of(shared):
                return work(shared)
        begin = "BEGIN IMMEDIATE" if self._path is not None else "BEGIN ISOLATION LEVEL READ COMMITTED"
        with self._only_writer(doing):
            return self._again_when_it_passes(doing, lambda: self._run(work, begin))

    def together(self, doing: str, works: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Results or errors of `works`, which read and write this database. With one writer they share one transaction.

        Each write is whole or not at all, as without the others. Raises what `write` raises when nothing of any work was kept.
        """
        if not self.has_one_writer or self._shared_transaction is not None:
            return [_tried(work) for work in works]

        def share(transaction: Transaction) -> list[T | Exception]:
            self._shared.transaction = transaction
            try:
                return [_tried_within(transaction, work) for work in works]
            finally:
                self._shared.transaction = None

        return self.write(doing, share)

    @property
    def _shared_transaction(self) -> Transaction | None:
        return getattr(self._shared, "transaction", None)

    def _is_absent(self) -> bool:
        return self._path is not None and not self._ready and not self._path.exists() and not _log_of(self._path).exists()

    @cached_property
    def _empty(self) -> Engine:
        """A journal in memory to which nothing is ever written."""
        engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
        metadata.create_all(engine)
        return engine

    def _run(self, work: Callable[[Transaction], T], begin: str | None, engine: Engine | None = None) -> T:
        with (engine or self._engine).connect() as connection:
            if begin is not None:
                connection.exec_driver_sql(begin)
            result = work(Transaction(connection, self._clock))
            if begin is not None:
                connection.exec_driver_sql("COMMIT")
            return result

    @contextmanager
    def _only_writer(self, doing: str) -> Iterator[None]:
        """SQLite has one writer: threads of this process wait in line here instead of polling its lock."""
        if self._path is None:
            yield
            return
        if not self._writing.acquire(timeout=self._patience):
            raise LakeError(f"{doing}: journal {self.where}: another thread has been writing for {self._patience:g} s; try again")
        try:
            yield
        finally:
            self._writing.release()

    def _again_when_it_passes(self, doing: str, work: Callable[[], T]) -> T:
        until = time.monotonic() + self._patience
        while True:
            with self._in_words(doing):
                try:
                    return work()
                except DBAPIError as error:
                    if not self._passes(error) or time.monotonic() >= until:
                        raise
            time.sleep(random.uniform(0.02, 0.2))

    def _passes(self, error: DBAPIError) -> bool:
        """Return whether the same work may succeed on a new connection: the server went away or chose a victim among transactions."""
        if isinstance(error.orig, sqlite3.Error):
            return False
        state = getattr(error.orig, "sqlstate", None)
        away = self._ready and isinstance(error, OperationalError) and state is None
        return away or error.connection_invalidated or state in _PASSING

    @contextmanager
    def _in_words(self, doing: str) -> Iterator[None]:
        """Errors of the database as ours; the original is left out because it may quote what was sent."""
        try:
            yield
        except SQLAlchemyError as error:
            found = explained(f"{doing}: journal {self.where}", error, self._url.password)
        except OSError as error:
            found = ConfigError(f"{doing}: journal {self.where}: {error.strerror}; choose another place in {SETTING}")
        else:
            return
        raise found from None

    def open(self) -> None:
        """Check that the database is ours and create the tables in a new one; a no-op after the first use in this process."""
        if self._process != os.getpid():
            self._engine.dispose(close=False)
            self._process, self._ready = os.getpid(), False
            self._opening, self._writing = threading.Lock(), threading.Lock()
        if self._ready:
            return
        with self._opening:
            if not self._ready:
                self._again_when_it_passes("opening", self._look_or_create)
                self._ready = True

    def _look_or_create(self) -> None:
        self._look_at_file()
        if self._path is not None and not (self._path.exists() and self._path.stat().st_size):
            self.before_creation()
            self._path.touch(mode=0o600)
        self._create_unless_there()

    def _look_at_file(self) -> None:
        """Refuse what SQLite would take for an empty database and overwrite."""
        if self._path is None:
            return
        if self._path.is_dir():
            raise ConfigError(f"opening the journal {self.where}: it is a folder; name a file in {SETTING}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        log = _log_of(self._path)
        has_log = log.exists() and log.stat().st_size > 0
        _restrict(self._path)
        head = b""
        if self._path.exists():
            with self._path.open("rb") as file:
                head = file.read(len(_MAGIC))
        if head not in (b"", _MAGIC):
            raise LakeError(
                f"opening the journal {self.where}: the file is damaged or not SQLite's; it was left as it is. Restore a backup"
            )
        if not head and has_log:
            raise LakeError(
                f"opening the journal {self.where}: the file is gone but its log {log.name} is there; restore the file beside it"
            )

    def _create_unless_there(self) -> None:
        with self._engine.connect() as connection:
            if self._is_ours(connection):
                self._convert(connection)
                return
            if self._path is None:
                self.before_creation()
            else:
                self._switch_to_wal(connection)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self._path is not None else "BEGIN")
            transaction = Transaction(connection, self._clock)
            transaction.alone("create")
            if not self._is_ours(connection):
                metadata.create_all(connection, checkfirst=False)
                connection.execute(journal_version.insert(), {"version": VERSION, "created_at": transaction.now()})
            connection.exec_driver_sql("COMMIT")

    def _convert(self, connection: Connection) -> None:
        """Convert a journal of an earlier version, whole or not at all."""
        if migration.is_current(connection):
            return
        connection.exec_driver_sql("BEGIN IMMEDIATE" if self._path is not None else "BEGIN")
        Transaction(connection, self._clock).alone("create")
        migration.convert(connection)
        connection.exec_driver_sql("COMMIT")

    def _is_ours(self, connection: Connection) -> bool:
        """True for a journal of this version or an earlier one, False for a new database. Raises for anything else."""
        there = _tables(connection)
        if journal_version.name not in there:
            foreign = there if self._path is not None else there & set(metadata.tables)
            if foreign:
                raise ConfigError(
                    f"opening the journal {self.where}: the database is not a journal, it holds the table {min(foreign)!r}; "
                    f"name another database in {SETTING}"
                )
            return False
        version = connection.execute(sa.select(journal_version.c.version)).scalar()
        if version not in range(1, VERSION + 1):
            newer = isinstance(version, int) and version > VERSION
            raise LakeError(
                f"opening the journal {self.where}: its tables have version {version}, this Bellwether reads versions up to {VERSION}; "
                + ("install the newer Bellwether that made it" if newer else f"name a new database in {SETTING} and keep this one")
            )
        return True

    def _switch_to_wal(self, connection: Connection) -> None:
        """SQLite does not wait while another process switches; we do."""
        until = time.monotonic() + self._patience
        while True:
            try:
                mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
            except DBAPIError as error:
                if sqlite_code(error.orig) not in ("SQLITE_BUSY", "SQLITE_LOCKED") or time.monotonic() >= until:
                    raise
                mode = None
            if mode == "wal":
                return
            if mode is not None:
                raise ConfigError(f"opening the journal {self.where}: this place does not allow SQLite's write-ahead log; use a local disk")
            time.sleep(random.uniform(0.005, 0.05))


@contextmanager
def _part_of(transaction: Transaction) -> Iterator[None]:
    """A part of a SQLite transaction that is kept whole or not at all. Raises what the part raises."""
    raw: Any = transaction.connection.connection.driver_connection
    raw.execute("SAVEPOINT part").close()
    try:
        yield
    except BaseException:
        transaction.totals.clear()
        if raw.in_transaction:
            raw.execute("ROLLBACK TO part").close()
            raw.execute("RELEASE part").close()
        raise
    raw.execute("RELEASE part").close()


def _tried(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error


def _tried_within(transaction: Transaction, work: Callable[[], T]) -> T | Exception:
    """Return the result or error of `work`; raise the error if the database ended the whole transaction for it, as when the disk is full."""
    raw: Any = transaction.connection.connection.driver_connection
    try:
        return work()
    except Exception as error:
        if not raw.in_transaction:
            raise
        return error


def _tables(connection: Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def _engine(url: URL, path: Path | None, patience: float) -> Engine:
    shared: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "hide_parameters": True, "pool_timeout": patience}
    try:
        if path is None:
            engine = sa.create_engine(url, **shared)
            sa.event.listen(engine, "connect", lambda connection, record: _set_postgres(connection, patience))
        else:
            engine = sa.create_engine(_place(url, path), connect_args={"timeout": patience}, **shared)
            sa.event.listen(engine, "connect", lambda connection, record: _set_sqlite(connection))
    except ImportError:
        raise ConfigError(
            f"opening the journal {shown(url)}: Postgres' driver is not installed; run `pip install bellwether[postgres]`"
        ) from None
    except NoSuchModuleError:
        raise ConfigError(f"reading {SETTING}: there is no driver for {url.drivername!r}; use sqlite:// or postgresql://") from None
    return engine


def _restrict(path: Path) -> None:
    """Limit a journal that every user can read to its owner: it contains prompts and answers. SQLite creates its log with the same mode."""
    for file in (path, _log_of(path), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):
            if file.stat().st_mode & 0o007:
                file.chmod(0o600)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _place(url: URL, path: Path) -> URL:
    """The file, for reading alone where its folder cannot be written and no log is next to it: no process has it open then, and SQLite needs no index of a log."""
    log = _log_of(path)
    if path.is_file() and not os.access(path.parent, os.W_OK) and not (log.is_file() and log.stat().st_size):
        return url.set(database=f"file:{quote(str(path))}", query={"immutable": "1", "uri": "true"})
    return url.set(database=str(path))


def _set_sqlite(connection: Any) -> None:
    for pragma in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _set_postgres(connection: Any, patience: float) -> None:
    """A commit is durable even where the server's default is not, and nobody waits for a lock for ever."""
    connection.autocommit = True
    settings: Mapping[str, str] = {"lock_timeout": f"{int(patience * 1000)}ms", "timezone": "UTC", "client_encoding": "UTF8"}
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    connection.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
