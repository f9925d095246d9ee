"""SQLite file or Postgres database of known tables: connections, transactions, retries, locks with a time limit, and conversion of errors.

The journal and the lake's catalog are such databases. No message contains a password.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Dialect, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bellwether.errors import BellwetherError, ConfigError, LakeError

T = TypeVar("T")

_MAGIC = b"SQLite format 3\x00"
#: Numbers of the advisory locks on Postgres; any constants of ours serve.
_LOCKS = {"create": 0x62656C6C, "begin": 0x62656C6D, "catalog": 0x62656C6E, "limits": 0x62656C6F}
#: Postgres: serialisation, deadlock, shutdown, crash and start of the server. Interrupted work can be retried.
_PASSING = {"40001", "40P01", "57P01", "57P02", "57P03"}

#: With these settings, a Postgres server detects a lost holder of an advisory lock within a minute.
_KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


class Utc(sa.TypeDecorator[datetime]):
    """Column type for aware UTC times to the microsecond: `timestamptz` on Postgres, text of fixed width on SQLite, which sorts by time."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """Return a timestamp with time zone on PostgreSQL, text elsewhere."""
        return dialect.type_descriptor(sa.DateTime(timezone=True) if dialect.name == "postgresql" else sa.String(32))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Convert a time for storage. Raises `ConfigError` for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ConfigError(f"the database: the time {value.isoformat()} has no zone; give aware times")
        instant = value.astimezone(UTC)
        return instant if dialect.name == "postgresql" else instant.isoformat(" ", "microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Convert a stored value to an aware time, UTC."""
        if value is None:
            return None
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """Tables of a database, one of which has a single row with their version.

    Attributes:
        name: of the database in messages, such as "journal".
        setting: environment variable that names the database.
        metadata: all tables.
        version_table: table with the columns `version` and `created_at`; its presence identifies the database.
        version: version of the tables. A database of another version is refused.
        repair: what to do about a damaged file.
        private: whether only its owner may read the file.
    """

    name: str
    setting: str
    metadata: sa.MetaData
    version_table: sa.Table
    version: int
    repair: str = "Restore a backup"
    private: bool = False


class Transaction:
    """Connection to the database during a transaction."""

    def __init__(self, connection: Connection, clock: Callable[[], datetime] | None) -> None:
        self.connection = connection
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
        schema: its tables.
        where: the file, or the server and database, without a password.
        path: the SQLite file; None on Postgres.
        clock: for tests.
        patience: maximum seconds to wait for a lock, or for a server that restarts.
        durable: whether commits to SQLite survive a power failure.
        pooled: keep connections to SQLite open, for many small transactions. Otherwise the file may be replaced while the program runs.
        before_creation: called before tables are created in a new database; an exception prevents that.

    Raises `ConfigError` if the URL is wrong or the driver is not installed.
    """

    def __init__(
        self,
        url: str | Path,
        schema: DatabaseSchema,
        *,
        clock: Callable[[], datetime] | None = None,
        patience: float = 30.0,
        durable: bool = True,
        pooled: bool = True,
    ) -> None:
        self._url = URL.create("sqlite", database=str(url)) if isinstance(url, Path) else parse_url(url, schema.setting)
        self.schema = schema
        self.before_creation: Callable[[], None] = lambda: None
        self.where = describe_url(self._url)
        self.path = Path(self.where) if self._url.get_backend_name() == "sqlite" else None
        self._clock = clock
        self._patience = patience
        self._engine = self._create_engine(durable=durable, pooled=pooled)
        self._fast_engine = self._create_engine(durable=False, pooled=pooled) if durable and self.path is not None else self._engine
        self._process = os.getpid()
        self._ready = False
        self._opening = threading.Lock()
        self._writing = threading.Lock()

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self._engine.dispose()
        self._fast_engine.dispose()

    def exists(self) -> bool:
        """Return True if the database exists and contains the tables. Nothing is created."""
        if self.path is not None and not self.path.exists():
            return False
        with self._convert_errors("opening"):
            self._check_file()
            with self._engine.connect() as connection:
                return self.schema.version_table.name in _table_names(connection)

    def read(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which sees all tables at one instant, and return its result. doing: for errors.

        A missing file counts as an empty database and is not created.
        """
        if self._is_absent():
            with sa.create_engine("sqlite://", poolclass=sa.NullPool).connect() as connection:
                self.schema.metadata.create_all(connection)
                return work(Transaction(connection, self._clock))
        self.open()
        begin = "BEGIN" if self.path is not None else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return self._retry(doing, lambda: self._run(work, begin, self._engine))

    def write(self, doing: str, work: Callable[[Transaction], T], *, durable: bool = True) -> T:
        """Run `work` in a transaction and return its result. The changes are committed on return.

        doing: for errors. durable: False for changes to SQLite that a power failure may undo, which need not wait for the disk.

        After a lost connection it is run again, even if it had been committed: `work` must recognise its own changes.
        Raises `LakeError` if a lock is not free, or the server is not available, within the patience.
        """
        self.open()
        begin = "BEGIN IMMEDIATE" if self.path is not None else "BEGIN ISOLATION LEVEL READ COMMITTED"
        with self._only_writer(doing):
            return self._retry(doing, lambda: self._run(work, begin, self._engine if durable else self._fast_engine))

    def open(self) -> None:
        """Check that the database has these tables, and create them in a new database. Done once per process."""
        if self._process != os.getpid():
            self._engine.dispose(close=False)
            self._fast_engine.dispose(close=False)
            self._process, self._ready = os.getpid(), False
            self._opening, self._writing = threading.Lock(), threading.Lock()
        if self._ready:
            return
        with self._opening:
            if not self._ready:
                self._retry("opening", self._check_or_create)
                self._ready = True

    def _is_absent(self) -> bool:
        """Return True for an SQLite file that does not exist yet."""
        return self.path is not None and not self._ready and not self.path.exists() and not _log_path(self.path).exists()

    def _run(self, work: Callable[[Transaction], T], begin: str, engine: Engine) -> T:
        """Run `work` in a transaction. begin: statement that begins it."""
        with engine.connect() as connection:
            connection.exec_driver_sql(begin)
            result = work(Transaction(connection, self._clock))
            connection.exec_driver_sql("COMMIT")
            return result

    @contextmanager
    def _only_writer(self, doing: str) -> Iterator[None]:
        """Hold this process's right to write to SQLite until the block ends. Threads that wait here do not poll the file's lock."""
        if self.path is None:
            yield
            return
        if not self._writing.acquire(timeout=self._patience):
            raise LakeError(
                f"{doing}: {self.schema.name} {self.where}: another thread has been writing for {self._patience:g} s; try again"
            )
        try:
            yield
        finally:
            self._writing.release()

    def _retry(self, doing: str, work: Callable[[], T]) -> T:
        """Run `work` again while the server is unavailable or aborts the transaction, for at most the patience after the first failure."""
        until: float | None = None
        while True:
            with self._convert_errors(doing):
                try:
                    return work()
                except DBAPIError as error:
                    until = until or time.monotonic() + self._patience
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
        subject = f"{doing}: {self.schema.name} {self.where}"
        try:
            yield
        except SQLAlchemyError as error:
            converted = convert_error(subject, error, self.schema.setting, password=self._url.password, repair=self.schema.repair)
        except OSError as error:
            converted = ConfigError(f"{subject}: {error.strerror}; choose another place in {self.schema.setting}")
        else:
            return
        raise converted from None

    def _check_or_create(self) -> None:
        self._check_file()
        if self.path is not None and not file_size(self.path):
            self.before_creation()
            self.path.touch(mode=0o600 if self.schema.private else 0o666)
        self._create_tables()

    def _check_file(self) -> None:
        """Raise an error for a file that is not SQLite's, and for a log without its file. SQLite could take either for a new database."""
        if self.path is None:
            return
        opening = f"opening the {self.schema.name} {self.where}"
        if self.path.is_dir():
            raise ConfigError(f"{opening}: it is a folder; name a file in {self.schema.setting}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        log = _log_path(self.path)
        has_log = file_size(log) > 0
        if self.schema.private:
            _restrict(self.path)
        head = b""
        if self.path.exists():
            with self.path.open("rb") as file:
                head = file.read(len(_MAGIC))
        if head not in (b"", _MAGIC):
            raise LakeError(f"{opening}: the file is damaged or not SQLite's; it was left as it is. {self.schema.repair}")
        if not head and has_log:
            raise LakeError(f"{opening}: the file is gone but its log {log.name} is there; restore the file next to it")

    def _create_tables(self) -> None:
        with self._engine.connect() as connection:
            if self._has_tables(connection):
                return
            if self.path is None:
                self.before_creation()
            else:
                self._switch_to_wal(connection)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self.path is not None else "BEGIN")
            transaction = Transaction(connection, self._clock)
            transaction.lock("create")
            if not self._has_tables(connection):
                self.schema.metadata.create_all(connection, checkfirst=False)
                row = {"version": self.schema.version, "created_at": transaction.now()}
                connection.execute(self.schema.version_table.insert(), row)
            connection.exec_driver_sql("COMMIT")

    def _has_tables(self, connection: Connection) -> bool:
        """Return True for a database with the tables of this version, False for a new database. Raises an error for any other database."""
        name, opening = self.schema.name, f"opening the {self.schema.name} {self.where}"
        tables = _table_names(connection)
        if self.schema.version_table.name not in tables:
            foreign = tables if self.path is not None else tables & set(self.schema.metadata.tables)
            if foreign:
                raise ConfigError(
                    f"{opening}: the database is not a {name}, it contains the table {min(foreign)!r}; "
                    f"name another database in {self.schema.setting}"
                )
            return False
        version = connection.execute(sa.select(self.schema.version_table.c.version)).scalar()
        if version != self.schema.version:
            raise LakeError(
                f"{opening}: its tables have version {version}, this Bellwether reads version {self.schema.version}; "
                f"use the Bellwether that made it, or name a new database in {self.schema.setting}"
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
                raise ConfigError(
                    f"opening the {self.schema.name} {self.where}: this place does not allow SQLite's write-ahead log; use a local disk"
                )
            time.sleep(random.uniform(0.005, 0.05))

    def _create_engine(self, *, durable: bool, pooled: bool) -> Engine:
        options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "hide_parameters": True}
        pool: dict[str, Any] = {"poolclass": sa.QueuePool, "pool_timeout": self._patience} if pooled else {"poolclass": sa.NullPool}
        if self.path is not None:
            return sa.create_engine("sqlite://", creator=partial(self._open_file, self.path, durable=durable), **options, **pool)
        try:
            engine = sa.create_engine(self._url, pool_timeout=self._patience, **options)
        except ImportError:
            raise ConfigError(
                f"opening the {self.schema.name} {self.where}: Postgres' driver is not installed; run `pip install bellwether[postgres]`"
            ) from None
        sa.event.listen(engine, "connect", lambda connection, record: _set_postgres(connection, self._patience))
        return engine

    def _open_file(self, path: Path, *, durable: bool) -> sqlite3.Connection:
        """Open the SQLite file. In a read-only folder without a log it is immutable, since no process can be writing to it."""
        log = _log_path(path)
        is_fixed = not os.access(path.parent, os.W_OK) and not file_size(log)
        options = "mode=ro&immutable=1" if is_fixed else "mode=rw"
        connection = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, timeout=self._patience, check_same_thread=False)
        for pragma in (f"synchronous={'FULL' if durable else 'NORMAL'}", f"fullfsync={'ON' if durable else 'OFF'}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        return connection


class AdvisoryLock:
    """Lock in a Postgres database that all machines share. The server releases it when the connection ends.

    url: of the database. key: number of the lock. setting: environment variable with the URL.
    """

    def __init__(self, url: str, key: int, setting: str) -> None:
        self._url, self._key, self._setting = parse_url(url, setting), key, setting
        self._engine = sa.create_engine(
            self._url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 10, "options": _KEEPALIVE}
        )
        self._connection: Connection | None = None
        self._is_held = False

    def acquire(self, *, wait: bool = True) -> bool:
        """Acquire the lock, or confirm that this process still has it. Returns True if this process has the lock. wait: wait until it is free.

        Raises `BellwetherError` if Postgres does not answer.
        """
        function = sa.func.pg_advisory_lock if wait else sa.func.pg_try_advisory_lock
        try:
            self._connection = self._connection or self._engine.connect()
            if self._is_held:
                self._connection.execute(sa.text("SELECT 1"))
            else:
                self._is_held = self._connection.scalar(sa.select(function(self._key))) is not False
        except SQLAlchemyError as error:
            self.close()
            raise convert_error(f"locking in {describe_url(self._url)}", error, self._setting, password=self._url.password) from None
        return self._is_held

    def close(self) -> None:
        """End the connection, which also releases the lock."""
        connection, self._connection, self._is_held = self._connection, None, False
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()

    @property
    def file(self) -> int:
        """File descriptor of the connection, or -1 without one. A child process that inherits it keeps the lock."""
        return int(self._connection.connection.fileno()) if self._connection is not None else -1


def parse_url(url: str, setting: str) -> URL:
    """Parse a database URL. Raises `ConfigError`, whose message does not quote the URL, because it may contain a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError, TypeError, AttributeError):
        parsed = None
    if parsed is None:
        raise ConfigError(
            f"reading {setting}: this is not a database URL; write sqlite:////absolute/path.db or postgresql://user@host/database "
            "(percent-encode special characters of the password)"
        )
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ConfigError(f"reading {setting}: there is no driver for {parsed.drivername!r}; use sqlite:// or postgresql://")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:") or parsed.query:
        raise ConfigError(f"reading {setting}: the data outlives the process; name a file, such as sqlite:////srv/bellwether/journal.db")
    return parsed


def describe_url(url: URL) -> str:
    """Return a description for messages: the file, or the server and database, without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    host = url.host or url.query.get("host") or "localhost"
    port = url.port or url.query.get("port")
    place = ",".join(host) if isinstance(host, tuple) else host
    return f"postgresql://{f'{url.username}@' if url.username else ''}{place}{f':{port}' if port else ''}/{url.database or ''}"


@contextmanager
def open_read_only(path: Path, *, immutable: bool = False) -> Iterator[sqlite3.Connection]:
    """Open an SQLite file for reading until the end of the block. immutable: no process writes to it; no files are created next to it."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable={immutable:d}", uri=True)) as connection:
        yield connection


def verify_file(path: Path, schema: DatabaseSchema, doing: str, *, immutable: bool) -> None:
    """Check the pages, indexes, constraints and references of an SQLite file.

    doing: the operation and the file, for the message. immutable: as in `open_read_only`.
    Raises `LakeError` if the file is damaged or does not have the tables.
    """
    try:
        with open_read_only(path, immutable=immutable) as connection:
            faults = [text for (text,) in connection.execute("PRAGMA integrity_check(3)") if text != "ok"]
            faults += [f"{table} has a row without its {parent}" for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check")]
            if not faults:
                connection.execute(f"SELECT version FROM {schema.version_table.name}")  # noqa: S608 - a constant
    except sqlite3.Error as error:
        raise convert_driver_error(doing, error, schema.setting, repair=schema.repair) from None
    if faults:
        raise LakeError(f"{doing}: the file is damaged ({' '.join(faults[0].split())}); it was left as it is. {schema.repair}")


def convert_error(doing: str, error: SQLAlchemyError, setting: str, *, password: object = None, repair: str = "") -> BellwetherError:
    """Convert an error of SQLAlchemy to one of this project, without password and parameters.

    doing: the failed operation. setting: environment variable that names the database. repair: what to do about a damaged file.
    """
    if isinstance(error, PoolTimeout):
        return LakeError(f"{doing}: all connections of this process are busy; start fewer calls at once")
    if not isinstance(error, DBAPIError) or error.orig is None:
        return LakeError(f"{doing}: {type(error).__name__}; nothing was changed")
    return convert_driver_error(doing, error.orig, setting, password=password, repair=repair)


def convert_driver_error(doing: str, error: BaseException, setting: str, *, password: object = None, repair: str = "") -> BellwetherError:
    """Convert an error of a database driver to one of this project, without the password. Arguments: as of `convert_error`."""
    message = " ".join(str(error).split())
    if password:
        message = message.replace(str(password), "***")
    if isinstance(error, sqlite3.Error):
        return _convert_sqlite_error(doing, message, error, setting, repair)
    return _convert_postgres_error(doing, message, getattr(error, "sqlstate", None), setting)


def sqlite_code(error: object) -> str:
    """Return SQLite's name of an error, such as SQLITE_BUSY."""
    return str(getattr(error, "sqlite_errorname", ""))


def _convert_sqlite_error(doing: str, message: str, error: sqlite3.Error, setting: str, repair: str) -> BellwetherError:
    code = sqlite_code(error)
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LakeError(f"{doing}: another process keeps it locked; end what holds it open for writing, then try again")
    if code.startswith("SQLITE_FULL"):
        return LakeError(f"{doing}: the disk is full; nothing was changed. Make room, then try again")
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return LakeError(f"{doing}: the file is damaged or not SQLite's ({message}); it was left as it is. {repair}")
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ConfigError(f"{doing}: {message}; the file and its folder must be writable, or name another place in {setting}")
    return LakeError(f"{doing}: {message}; nothing was changed")


def _convert_postgres_error(doing: str, message: str, state: str | None, setting: str) -> BellwetherError:
    kind = (state or "")[:2]
    if state is None and "connection" in message:
        return ConfigError(f"{doing}: {message}; check {setting}, and that the server runs")
    if kind in ("28", "3D", "3F") or state == "42501":
        return ConfigError(f"{doing}: {message}; check the user, its rights and the database in {setting}")
    if kind == "53":
        return LakeError(f"{doing}: the server is out of room or connections ({message}); nothing was changed. Make room, then try again")
    if state == "55P03":
        return LakeError(f"{doing}: another process keeps it locked; look for a transaction that never ends (pg_stat_activity)")
    return LakeError(f"{doing}: {message}; run it again: what was done before is found")


def _table_names(connection: Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def _restrict(path: Path) -> None:
    """Remove the permissions of other users from a database. SQLite creates its log with the same permissions."""
    for file in (path, _log_path(path), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):
            if file.stat().st_mode & 0o007:
                file.chmod(0o600)


def _log_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 for a missing file. SQLite's log disappears whenever the last process closes the database."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _set_postgres(connection: Any, patience: float) -> None:
    """Enable durable commits, even if the server's default is not durable, and limit the wait for locks and for a frozen process that has one."""
    connection.autocommit = True
    settings: Mapping[str, str] = {
        "lock_timeout": f"{int(patience * 1000)}ms",
        "idle_in_transaction_session_timeout": f"{int(patience * 500)}ms",
        "timezone": "UTC",
        "client_encoding": "UTF8",
    }
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    connection.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
