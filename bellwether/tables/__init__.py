"""All tables of the lake, collected from the modules in which the domains declare them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bellwether.domains import load_domains
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
    """Return the tables of all domains by name. Raises `ConfigError` for a name that two domains declare."""
    tables: dict[str, Table] = {}
    for domain in load_domains():
        for module in domain.table_modules():
            for declared in module.TABLES:
                if declared.name in tables:
                    raise ConfigError(f"the domain {domain.name!r} declares the table {declared.name} of another domain; rename it")
                tables[declared.name] = declared
    return tables


def table(name: str) -> Table:
    """Return the declaration of the table `name` (`group/name`). Raises `ConfigError` for an unknown table."""
    tables = _collect_tables()
    try:
        return tables[name]
    except KeyError:
        raise ConfigError(f"unknown table {name!r}; choose from {', '.join(tables)}") from None


__all__ = ["TABLES", "Column", "Table", "table"]
