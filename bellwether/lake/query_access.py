"""Restrictions of queries from the command line: they only read, and only the published warehouse and the files of its lake."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from os.path import commonpath

import duckdb

from bellwether.errors import ConfigError
from bellwether.lake.duckdb_connection import file_pattern, literal

_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s*\(\s*(ANALYZE|FORMAT)\b[^)]*\)|\s+ANALYZE\b)?", re.IGNORECASE)
#: DuckDB creates a temporary type for a PIVOT. Any other created object is in memory: the warehouse is attached read-only.
_READ_ONLY = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.CREATE})


def require_read_only(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise `ConfigError` for SQL that does more than read one result. Invalid SQL raises `duckdb.Error`."""
    statements = connection.extract_statements(sql)
    results = [statement for statement in statements if statement.type != duckdb.StatementType.CREATE]
    if not statements or len(results) > 1:
        raise ConfigError(f"querying the warehouse: give one SELECT, not {len(results)} statements")
    for statement in statements:
        if statement.type == duckdb.StatementType.EXPLAIN and (begin := _EXPLAIN.match(statement.query)):
            require_read_only(connection, statement.query[begin.end() :])
        elif statement.type not in _READ_ONLY:
            raise ConfigError(
                f"querying the warehouse with {statement.type.name}: it is read-only; use SELECT, or another DuckDB client for anything else"
            )


def require_parameters(connection: duckdb.DuckDBPyConnection, sql: str, names: Collection[str]) -> None:
    """Raise `ConfigError` unless `names` are exactly the `$name` parameters in the SQL. Invalid SQL raises `duckdb.Error`."""
    wanted = {name for statement in connection.extract_statements(sql) for name in statement.named_parameters}
    if missing := sorted(wanted - set(names)):
        values = " ".join(f"--set {name}=VALUE" for name in missing)
        raise ConfigError(f"querying the warehouse: no value for {', '.join(f'${name}' for name in missing)}; give {values}")
    if unknown := sorted(set(names) - wanted):
        have = ", ".join(f"${name}" for name in sorted(wanted)) or "no parameter"
        raise ConfigError(f"querying the warehouse: the query does not use ${unknown[0]}; it has {have}")


def restrict_access(connection: duckdb.DuckDBPyConnection, files: Iterable[str]) -> None:
    """Allow `connection` to read no files except below the common folder of `files`, and lock its settings."""
    folders = [name.rpartition("/")[0] for name in files]
    common = f"{_common_folder(folders)}/" if folders else ""
    # DuckDB compares both the pattern of a view and the files that it matches.
    allowed = f"[{literal(common)}, {literal(file_pattern(common))}]" if folders else "[]"
    connection.execute(f"SET allowed_directories = {allowed}; SET enable_external_access = false; SET lock_configuration = true")


def _common_folder(folders: list[str]) -> str:
    """Return the deepest folder, or prefix of an object store, that contains all `folders`."""
    scheme, separator, _ = folders[0].rpartition("://")
    return scheme + separator + commonpath([folder.removeprefix(scheme + separator) for folder in folders])
