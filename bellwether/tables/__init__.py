"""All tables of the lake, collected from the modules in which the domains declare them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bellwether.domains import DOMAINS
from bellwether.errors import ConfigError
from bellwether.tables.schema import Column, Table

if TYPE_CHECKING:
    TABLES: dict[str, Table]


def __getattr__(name: str) -> Any:
    """Build `TABLES` on first use, because modules that declare tables import this package."""
    if name == "TABLES":
        return _collect_tables()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _collect_tables() -> dict[str, Table]:
    """Return the tables of all domains by name."""
    return {declared.name: declared for domain in DOMAINS for module in domain.table_modules() for declared in module.TABLES}


def table(name: str) -> Table:
    """Return the declaration of the table `name` (`group/name`). Raises `ConfigError` for an unknown table."""
    tables = _collect_tables()
    try:
        return tables[name]
    except KeyError:
        raise ConfigError(f"unknown table {name!r}; choose from {', '.join(tables)}") from None


__all__ = ["TABLES", "Column", "Table", "table"]
