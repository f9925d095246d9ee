"""Database of the journal, SQLite or Postgres: connections, transactions, locks with a time limit, and conversion of errors."""

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
from bellwether.journal.database_url import SETTING, convert_error, describe_url, parse_url, sqlite_code
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
    """Connection to the database during a transaction, or during a single read outside one.

    totals: sums over attempts by scope within this transaction; see `bellwether.journal.budget`.
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
        """Execute a query and return all its rows."""
        return list(self.connection.execute(statement, values))

    def row(self, statement: sa.Executable, values: Any = None) -> Any:
        """Execute a query and return its first row, or None."""
        return self.connection.execute(statement, values).first()

    def change(self, statement: sa.Executable, values: Any = None) -> int:
        """Execute a statement and return the number of changed rows."""
        return self.connection.execute(statement, values).rowcount

    def now(self) -> datetime:
        """Return the current time (UTC) by the clock of Postgres, which all machines share, or by this machine's clock with SQLite."""
        if self._clock is not None:
            return self._clock().astimezone(UTC)
        if self.on_postgres:
            return self.connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one().astimezone(UTC)
        return datetime.now(UTC)

    def lock(self, name: str) -> None:
        """Take the lock called `name` until the transaction ends. Does nothing on SQLite, which allows one writer only."""
        if self.on_postgres:
            self.connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCKS[name])))


class Database:
    """One SQLite file or Postgres database, opened on first use.

    Attributes:
        url: `sqlite:////absolute/path.db` or `postgresql://user:password@host/database`.
        clock: for tests.
        patience: maximum seconds to wait for a lock, or for a server that restarts.
        before_creation: called before tables are created in a new database; an exception prevents that.

    Raises `ConfigError` if the URL is wrong or the driver is not installed.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        self._url = parse_url(url)
        self.before_creation: Callable[[], None] = lambda: None
        self.where = describe_url(self._url)
        self._clock = clock
        self._patience = patience
        self._path = Path(self._url.database or "").absolute() if self._url.get_backend_name() == "sqlite" else None
        self._engine = _create_engine(self._url, self._path, patience)
        self._process = os.getpid()
        self._ready = False
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._shared = threading.local()

    @property
    def has_one_writer(self) -> bool:
        """True on SQLite, where writers wait for one another and it is faster to share a transaction."""
        return self._path is not None

    def shared_limits(self) -> SharedLimits | None:
        """Return rate and concurrency limits that all processes on this database share; None on SQLite."""
        if self.has_one_writer:
            return None
        from bellwether.journal.shared_limits import SharedLimits

        return SharedLimits(self._url, self._patience)

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self._engine.dispose()

    def exists(self) -> bool:
        """Return True if the database exists and contains a journal. Nothing is created."""
        if self._path is not None and not self._path.exists():
            return False
        with self._convert_errors("opening"):
            self._check_file()
            with self._engine.connect() as connection:
                return journal_version.name in _table_names(connection)

    def read(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which makes a single read, and return its result.
        If this thread is inside `together`, its transaction is used. doing: for errors.

        A missing file counts as an empty journal and is not created.
        """
        if self._is_absent():
            return self._run(work, None, self._empty)
        self.open()
        if (shared := self._shared_transaction) is not None:
            with self._convert_errors(doing):
                return work(shared)
        return self._retry(doing, lambda: self._run(work, None))

    def snapshot(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which sees all tables at one instant, and return its result. A missing file counts as an empty journal."""
        if self._is_absent():
            return self._run(work, None, self._empty)
        self.open()
        begin = "BEGIN" if self._path is not None else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return self._retry(doing, lambda: self._run(work, begin))

    def write(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and return its result. The changes are on disk on return. doing: for errors.

        After a lost connection it is run again, even if it had been committed: `work` must recognise its own changes.
        Raises `LakeError` if a lock is not free, or the server is not available, within the patience.
        """
        self.open()
        if (shared := self._shared_transaction) is not None:
            with self._convert_errors(doing), _savepoint(shared):
                return work(shared)
        begin = "BEGIN IMMEDIATE" if self._path is not None else "BEGIN ISOLATION LEVEL READ COMMITTED"
        with self._only_writer(doing):
            return self._retry(doing, lambda: self._run(work, begin))

    def together(self, doing: str, works: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run functions that read and write this database, and return the result or error of each. On SQLite they share one transaction.

        Each write is atomic. Raises what `write` raises if nothing of any work was stored.
        """
        if not self.has_one_writer or self._shared_transaction is not None:
            return [_try_work(work) for work in works]

        def share(transaction: Transaction) -> list[T | Exception]:
            self._shared.transaction = transaction
            try:
                return [_try_in_transaction(transaction, work) for work in works]
            finally:
                self._shared.transaction = None

        return self.write(doing, share)

    @property
    def _shared_transaction(self) -> Transaction | None:
        return getattr(self._shared, "transaction", None)

    def _is_absent(self) -> bool:
        """Return True for an SQLite file that does not exist yet."""
        return self._path is not None and not self._ready and not self._path.exists() and not _log_path(self._path).exists()

    @cached_property
    def _empty(self) -> Engine:
        """Empty journal in memory, read in place of a missing file."""
        engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
        metadata.create_all(engine)
        return engine

    def _run(self, work: Callable[[Transaction], T], begin: str | None, engine: Engine | None = None) -> T:
        """Run `work` on a connection. begin: statement that begins a transaction; None for a single read."""
        with (engine or self._engine).connect() as connection:
            if begin is not None:
                connection.exec_driver_sql(begin)
            result = work(Transaction(connection, self._clock))
            if begin is not None:
                connection.exec_driver_sql("COMMIT")
            return result

    @contextmanager
    def _only_writer(self, doing: str) -> Iterator[None]:
        """Hold this process's right to write to SQLite until the block ends. Threads that wait here do not poll the file's lock."""
        if self._path is None:
            yield
            return
        if not self._writing.acquire(timeout=self._patience):
            raise LakeError(f"{doing}: journal {self.where}: another thread has been writing for {self._patience:g} s; try again")
        try:
            yield
        finally:
            self._writing.release()

    def _retry(self, doing: str, work: Callable[[], T]) -> T:
        """Run `work` again while the server is unavailable or aborts the transaction, for at most the patience."""
        until = time.monotonic() + self._patience
        while True:
            with self._convert_errors(doing):
                try:
                    return work()
                except DBAPIError as error:
                    if not self._is_transient(error) or time.monotonic() >= until:
                        raise
            time.sleep(random.uniform(0.02, 0.2))

    def _is_transient(self, error: DBAPIError) -> bool:
        """Return True if `work` may succeed when run again: the server is unavailable or aborted the transaction."""
        if isinstance(error.orig, sqlite3.Error):
            return False
        state = getattr(error.orig, "sqlstate", None)
        away = self._ready and isinstance(error, OperationalError) and state is None
        return away or error.connection_invalidated or state in _PASSING

    @contextmanager
    def _convert_errors(self, doing: str) -> Iterator[None]:
        """Convert database errors to this project's errors, without their cause, which may quote parameters."""
        try:
            yield
        except SQLAlchemyError as error:
            converted = convert_error(f"{doing}: journal {self.where}", error, self._url.password)
        except OSError as error:
            converted = ConfigError(f"{doing}: journal {self.where}: {error.strerror}; choose another place in {SETTING}")
        else:
            return
        raise converted from None

    def open(self) -> None:
        """Check that the database is a journal, and create the tables in a new database. Done once per process."""
        if self._process != os.getpid():
            self._engine.dispose(close=False)
            self._process, self._ready = os.getpid(), False
            self._opening, self._writing = threading.Lock(), threading.Lock()
        if self._ready:
            return
        with self._opening:
            if not self._ready:
                self._retry("opening", self._check_or_create)
                self._ready = True

    def _check_or_create(self) -> None:
        self._check_file()
        if self._path is not None and not (self._path.exists() and self._path.stat().st_size):
            self.before_creation()
            self._path.touch(mode=0o600)
        self._create_tables()

    def _check_file(self) -> None:
        """Raise an error for a file that is not SQLite's, and for a log without its file. SQLite could take either for a new database."""
        if self._path is None:
            return
        if self._path.is_dir():
            raise ConfigError(f"opening the journal {self.where}: it is a folder; name a file in {SETTING}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        log = _log_path(self._path)
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
                f"opening the journal {self.where}: the file is gone but its log {log.name} is there; restore the file next to it"
            )

    def _create_tables(self) -> None:
        with self._engine.connect() as connection:
            if self._is_ours(connection):
                return
            if self._path is None:
                self.before_creation()
            else:
                self._switch_to_wal(connection)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self._path is not None else "BEGIN")
            transaction = Transaction(connection, self._clock)
            transaction.lock("create")
            if not self._is_ours(connection):
                metadata.create_all(connection, checkfirst=False)
                connection.execute(journal_version.insert(), {"version": VERSION, "created_at": transaction.now()})
            connection.exec_driver_sql("COMMIT")

    def _is_ours(self, connection: Connection) -> bool:
        """Return True for a journal that this version can read, False for a new database. Raises an error for any other database."""
        tables = _table_names(connection)
        if journal_version.name not in tables:
            foreign = tables if self._path is not None else tables & set(metadata.tables)
            if foreign:
                raise ConfigError(
                    f"opening the journal {self.where}: the database is not a journal, it contains the table {min(foreign)!r}; "
                    f"name another database in {SETTING}"
                )
            return False
        version = connection.execute(sa.select(journal_version.c.version)).scalar()
        if version != VERSION:
            raise LakeError(
                f"opening the journal {self.where}: its tables have version {version}, this Bellwether reads version {VERSION}; "
                f"use the Bellwether that made it, or name a new database in {SETTING}"
            )
        return True

    def _switch_to_wal(self, connection: Connection) -> None:
        """Switch SQLite to write-ahead logging. Retries while another process does the same, for which SQLite itself does not wait."""
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
def _savepoint(transaction: Transaction) -> Iterator[None]:
    """Make a part of a SQLite transaction atomic: an error undoes this part only, and propagates."""
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


def _try_work(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error


def _try_in_transaction(transaction: Transaction, work: Callable[[], T]) -> T | Exception:
    """Return the result or error of `work`. Raises the error if it ended the whole transaction, such as a full disk."""
    raw: Any = transaction.connection.connection.driver_connection
    try:
        return work()
    except Exception as error:
        if not raw.in_transaction:
            raise
        return error


def _table_names(connection: Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def _create_engine(url: URL, path: Path | None, patience: float) -> Engine:
    shared: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "hide_parameters": True, "pool_timeout": patience}
    try:
        if path is None:
            engine = sa.create_engine(url, **shared)
            sa.event.listen(engine, "connect", lambda connection, record: _set_postgres(connection, patience))
        else:
            engine = sa.create_engine(_file_url(url, path), connect_args={"timeout": patience}, **shared)
            sa.event.listen(engine, "connect", lambda connection, record: _set_sqlite(connection))
    except ImportError:
        raise ConfigError(
            f"opening the journal {describe_url(url)}: Postgres' driver is not installed; run `pip install bellwether[postgres]`"
        ) from None
    except NoSuchModuleError:
        raise ConfigError(f"reading {SETTING}: there is no driver for {url.drivername!r}; use sqlite:// or postgresql://") from None
    return engine


def _restrict(path: Path) -> None:
    """Remove the permissions of other users from a journal, which contains prompts and answers. SQLite creates its log with the same permissions."""
    for file in (path, _log_path(path), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):
            if file.stat().st_mode & 0o007:
                file.chmod(0o600)


def _log_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _file_url(url: URL, path: Path) -> URL:
    """Return the SQLite URL of the file. A file in a read-only folder without a log is opened as immutable, since no process can be writing to it."""
    log = _log_path(path)
    if path.is_file() and not os.access(path.parent, os.W_OK) and not (log.is_file() and log.stat().st_size):
        return url.set(database=f"file:{quote(str(path))}", query={"immutable": "1", "uri": "true"})
    return url.set(database=str(path))


def _set_sqlite(connection: Any) -> None:
    for pragma in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _set_postgres(connection: Any, patience: float) -> None:
    """Enable durable commits, even if the server's default is not durable, and limit the wait for locks."""
    connection.autocommit = True
    settings: Mapping[str, str] = {"lock_timeout": f"{int(patience * 1000)}ms", "timezone": "UTC", "client_encoding": "UTF8"}
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    connection.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
