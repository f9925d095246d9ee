"""URL of the journal's database, whose password appears in no message, and conversion of errors of SQLite and Postgres."""

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
    """Parse the URL. The `ConfigError` for an invalid one does not quote it: it may contain a password."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError, TypeError, AttributeError):
        found = None
    if found is None:
        raise ConfigError(
            f"reading {SETTING}: this is not a database URL; write sqlite:////absolute/path.db or postgresql://user@host/database "
            "(percent-encode special characters of the password)"
        )
    if found.drivername in ("postgresql", "postgresql+psycopg"):
        return found.set(drivername="postgresql+psycopg")
    if found.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ConfigError(f"reading {SETTING}: there is no driver for {found.drivername!r}; use sqlite:// or postgresql://")
    if not found.database or found.database == ":memory:" or found.database.startswith("file:") or found.query:
        raise ConfigError(f"reading {SETTING}: the journal outlives the process; name a file, such as sqlite:////srv/bellwether/journal.db")
    return found


def describe_url(url: URL) -> str:
    """Return the place of the database without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    host = url.host or url.query.get("host") or "localhost"
    port = url.port or url.query.get("port")
    place = ",".join(host) if isinstance(host, tuple) else host
    return f"postgresql://{f'{url.username}@' if url.username else ''}{place}{f':{port}' if port else ''}/{url.database or ''}"


def convert_error(doing: str, error: SQLAlchemyError, password: object) -> BellwetherError:
    """Convert an error; the message quotes neither the password nor parameters."""
    if isinstance(error, PoolTimeout):
        return LakeError(f"{doing}: all connections of this process are busy; start fewer calls at once")
    if not isinstance(error, DBAPIError) or error.orig is None:
        return LakeError(f"{doing}: {type(error).__name__}; nothing was changed")
    return convert_driver_error(doing, error.orig, password)


def convert_driver_error(doing: str, error: BaseException, password: object) -> BellwetherError:
    """Convert an error of a database driver."""
    words = _hide_password(" ".join(str(error).split()), password)
    if isinstance(error, sqlite3.Error):
        return _convert_sqlite_error(doing, words, error)
    return _convert_postgres_error(doing, words, getattr(error, "sqlstate", None))


def sqlite_code(error: object) -> str:
    """Return SQLite's name of an error, such as SQLITE_BUSY."""
    return str(getattr(error, "sqlite_errorname", ""))


def _hide_password(words: str, password: object) -> str:
    secret = str(password) if password else ""
    return words.replace(secret, "***") if secret else words


def _convert_sqlite_error(doing: str, words: str, error: sqlite3.Error) -> BellwetherError:
    code = sqlite_code(error)
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LakeError(f"{doing}: another process keeps it locked; end what holds it open for writing, then try again")
    if code.startswith("SQLITE_FULL"):
        return LakeError(f"{doing}: the disk is full; nothing was changed. Make room, then try again")
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return LakeError(f"{doing}: the file is damaged or not SQLite's ({words}); it was left as it is. Restore a backup")
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ConfigError(f"{doing}: {words}; the file and its folder must be writable, or name another place in {SETTING}")
    return LakeError(f"{doing}: {words}; nothing was changed")


def _convert_postgres_error(doing: str, words: str, state: str | None) -> BellwetherError:
    kind = (state or "")[:2]
    if state is None and "connection" in words:
        return ConfigError(f"{doing}: {words}; check {SETTING}, and that the server runs")
    if kind in ("28", "3D", "3F") or state == "42501":
        return ConfigError(f"{doing}: {words}; check the user, its rights and the database in {SETTING}")
    if kind == "53":
        return LakeError(f"{doing}: the server is out of room or connections ({words}); nothing was changed. Make room, then try again")
    if state == "55P03":
        return LakeError(f"{doing}: another process keeps it locked; look for a transaction that never ends (pg_stat_activity)")
    return LakeError(f"{doing}: {words}; run it again: what was done before is found")
