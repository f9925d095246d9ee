"""Parsing of the journal's database URL, and conversion of SQLite and Postgres errors. No message contains the password."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bellwether.errors import BellwetherError, ConfigError, LakeError

#: Environment variable of the URL.
SETTING = "BELLWETHER_JOURNAL"


def parse_url(url: str) -> URL:
    """Parse a database URL. Raises `ConfigError`, whose message does not quote the URL, because it may contain a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError, TypeError, AttributeError):
        parsed = None
    if parsed is None:
        raise ConfigError(
            f"reading {SETTING}: this is not a database URL; write sqlite:////absolute/path.db or postgresql://user@host/database "
            "(percent-encode special characters of the password)"
        )
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ConfigError(f"reading {SETTING}: there is no driver for {parsed.drivername!r}; use sqlite:// or postgresql://")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:") or parsed.query:
        raise ConfigError(f"reading {SETTING}: the journal outlives the process; name a file, such as sqlite:////srv/bellwether/journal.db")
    return parsed


def describe_url(url: URL) -> str:
    """Return a description for messages: the file, or the server and database, without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    host = url.host or url.query.get("host") or "localhost"
    port = url.port or url.query.get("port")
    place = ",".join(host) if isinstance(host, tuple) else host
    return f"postgresql://{f'{url.username}@' if url.username else ''}{place}{f':{port}' if port else ''}/{url.database or ''}"


def convert_error(doing: str, error: SQLAlchemyError, password: object) -> BellwetherError:
    """Convert an error of SQLAlchemy to one of this project, without password and parameters. doing: the failed operation."""
    if isinstance(error, PoolTimeout):
        return LakeError(f"{doing}: all connections of this process are busy; start fewer calls at once")
    if not isinstance(error, DBAPIError) or error.orig is None:
        return LakeError(f"{doing}: {type(error).__name__}; nothing was changed")
    return convert_driver_error(doing, error.orig, password)


def convert_driver_error(doing: str, error: BaseException, password: object) -> BellwetherError:
    """Convert an error of a database driver to one of this project, without the password. doing: the failed operation."""
    message = " ".join(str(error).split())
    if password:
        message = message.replace(str(password), "***")
    if isinstance(error, sqlite3.Error):
        return _convert_sqlite_error(doing, message, error)
    return _convert_postgres_error(doing, message, getattr(error, "sqlstate", None))


def sqlite_code(error: object) -> str:
    """Return SQLite's name of an error, such as SQLITE_BUSY."""
    return str(getattr(error, "sqlite_errorname", ""))


def _convert_sqlite_error(doing: str, message: str, error: sqlite3.Error) -> BellwetherError:
    code = sqlite_code(error)
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LakeError(f"{doing}: another process keeps it locked; end what holds it open for writing, then try again")
    if code.startswith("SQLITE_FULL"):
        return LakeError(f"{doing}: the disk is full; nothing was changed. Make room, then try again")
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return LakeError(f"{doing}: the file is damaged or not SQLite's ({message}); it was left as it is. Restore a backup")
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ConfigError(f"{doing}: {message}; the file and its folder must be writable, or name another place in {SETTING}")
    return LakeError(f"{doing}: {message}; nothing was changed")


def _convert_postgres_error(doing: str, message: str, state: str | None) -> BellwetherError:
    kind = (state or "")[:2]
    if state is None and "connection" in message:
        return ConfigError(f"{doing}: {message}; check {SETTING}, and that the server runs")
    if kind in ("28", "3D", "3F") or state == "42501":
        return ConfigError(f"{doing}: {message}; check the user, its rights and the database in {SETTING}")
    if kind == "53":
        return LakeError(f"{doing}: the server is out of room or connections ({message}); nothing was changed. Make room, then try again")
    if state == "55P03":
        return LakeError(f"{doing}: another process keeps it locked; look for a transaction that never ends (pg_stat_activity)")
    return LakeError(f"{doing}: {message}; run it again: what was done before is found")
