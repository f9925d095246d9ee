"""Every table of the lake, declared once."""

from __future__ import annotations

from bellwether.errors import ConfigError
from bellwether.tables import benchmark, clean, raw, recordings, replay
from bellwether.tables.schema import Column, Table

TABLES: dict[str, Table] = {
    table.name: table for table in (*raw.TABLES, *recordings.TABLES, *clean.TABLES, *benchmark.TABLES, *replay.TABLES)
}


def table(name: str) -> Table:
    """The declaration of `name` (`group/name`); raises `ConfigError` when there is none."""
    try:
        return TABLES[name]
    except KeyError:
        raise ConfigError(f"no table is called {name!r}; there are {', '.join(TABLES)}") from None


__all__ = ["TABLES", "Column", "Table", "table"]
