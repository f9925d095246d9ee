"""The journal's database URL: read without being quoted, shown without its password."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from bellwether.errors import ConfigError

#: The variable that users set.
SETTING = "BELLWETHER_JOURNAL"


def parsed(url: str) -> URL:
    """The URL, or `ConfigError` that quotes nothing of it: it may hold a password."""
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


def shown(url: URL) -> str:
    """Where the database is, without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    host = url.host or url.query.get("host") or "localhost"
    port = url.port or url.query.get("port")
    place = ",".join(host) if isinstance(host, tuple) else host
    return f"postgresql://{f'{url.username}@' if url.username else ''}{place}{f':{port}' if port else ''}/{url.database or ''}"
