"""Digests of all results of the demo home: columns of tables, printed tables, reports and exports."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from click.testing import CliRunner

from bellwether.lake.warehouse import connect
from tests.demo_home import RELEASE, WEEKS

DIGESTS = Path(__file__).parent / "digests.json"
#: Columns and JSON fields that describe the process, not the result.
VOLATILE = frozenset(
    {
        "run_id",
        "written_at",
        "latency",
        "latency_ms",
        "avg_latency_ms",
        "limited_seconds",
        "version",
        "software",
        "packages",
        "sha256",
        "bytes",
    }
)
#: Printed tables, stored line by line.
PRINTED = ("leaderboard",)
#: Time at which a printed table was computed, by the clock of the machine.
DATE = re.compile(r"^As of .* UTC\.\n", re.MULTILINE)
#: Exports, each to its own folder.
EXPORTS = {"release": ("export", RELEASE, "--to"), "cohort": ("export", str(WEEKS[0]), "--format", "arena", "--to")}
#: A table of a report whose last column is the time of calls.
_WITH_LATENCY = re.compile(r"^\|.*latency \(ms\) \|\n(?:\|.*\n)+", re.MULTILINE)
#: Pictures depend on fonts and libraries.
PICTURES = frozenset({".png", ".svg"})

Digests = dict[str, dict[str, Any]]


def digests(home: Path) -> Digests:
    """Compute the digests of the demo home: `tables`, `printed` and `files`. Exports are written elsewhere."""
    files = dict(_files(home / "sandbox" / "reports", "reports"))
    with _commands(home) as run, tempfile.TemporaryDirectory() as elsewhere:
        printed = {words: DATE.sub("", run(words.split())).splitlines() for words in PRINTED}
        for name, words in EXPORTS.items():
            folder = Path(elsewhere) / name
            run([*words, str(folder)])
            files |= dict(_files(folder, name))
    return {"tables": dict(tables(home / "sandbox" / "warehouse.duckdb")), "printed": printed, "files": files}


def tables(path: Path | str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compute the number of rows and a digest per column of each table and view. Rows are sorted by the table's key or else by all columns."""
    with connect(path) as warehouse:
        keys = dict(warehouse.execute("SELECT table_name, key FROM meta.tables").fetchall())
        names = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema != 'meta' ORDER BY ALL"
        for schema, table in warehouse.execute(names).fetchall():
            name = f"{schema}.{table}"
            order = ", ".join(f'"{column}"' for column in keys.get(name) or ()) or "ALL"
            result = warehouse.execute(f'SELECT * FROM "{schema}"."{table}" ORDER BY {order}')
            columns = [column[0] for column in result.description]
            values = list(zip(*result.fetchall(), strict=True)) or [()] * len(columns)
            digested = {
                column: _digest(map(_text, column_values))
                for column, column_values in zip(columns, values, strict=True)
                if column not in VOLATILE
            }
            yield name, {"rows": len(values[0]), "columns": digested}


def _text(value: object) -> str:
    """Format a value. Floats have twelve significant digits."""
    if isinstance(value, float):
        return f"{value + 0.0:.12g}"
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else str(value)


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:16]


def _files(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in PICTURES):
        yield f"{name}/{path.relative_to(folder)}", _digest(_lines(path))


def _lines(path: Path) -> list[str]:
    """Return the lines of a file: JSON without fields of the process, Parquet as rows."""
    if path.suffix == ".json":
        return [json.dumps(_plain(json.loads(path.read_text(encoding="utf-8"))), sort_keys=True)]
    if path.suffix == ".parquet":
        return [_text(list(row)) for row in duckdb.sql(f"SET TimeZone = 'UTC'; FROM '{path}'").fetchall()]
    text = path.read_text(encoding="utf-8")
    return _WITH_LATENCY.sub(lambda table: "".join(f"{line.rsplit('|', 2)[0]}\n" for line in table[0].splitlines()), text).splitlines()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(below) for name, below in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    return _text(value) if isinstance(value, float) else value


@contextmanager
def _commands(home: Path) -> Iterator[Any]:
    """Return a function that runs `bellwether` on a home at 120 columns and returns its output."""
    from unittest.mock import patch

    from bellwether.console import console
    from bellwether.settings import settings
    from cli.main import main

    def run(words: list[str]) -> str:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, (words, result.output[-2000:], result.exception)
        return result.stdout.replace(str(home), "HOME")

    with patch.dict(os.environ, {"BELLWETHER_HOME": str(home), "COLUMNS": "120"}):
        settings.cache_clear()
        console.cache_clear()
        yield run
    settings.cache_clear()
    console.cache_clear()


def differences(old: Digests, new: Digests) -> list[str]:
    """Return one line per difference: added, removed or changed tables, printed lines and files."""
    lines = []
    for kind in ("tables", "printed", "files"):
        before, after = old.get(kind, {}), new.get(kind, {})
        lines += [f"{kind}: {name} is gone" for name in sorted(before.keys() - after.keys())]
        lines += [f"{kind}: {name} is new" for name in sorted(after.keys() - before.keys())]
        for name in sorted(before.keys() & after.keys()):
            if before[name] != after[name]:
                lines += _table(name, before[name], after[name]) if kind == "tables" else _other(name, before[name], after[name])
    return lines


def _table(name: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    lines = [f"{name}: {before['rows']} rows became {after['rows']}"] if before["rows"] != after["rows"] else []
    columns = sorted(before["columns"].keys() | after["columns"].keys())
    changed = [column for column in columns if before["columns"].get(column) != after["columns"].get(column)]
    return [*lines, f"{name}: other values in {', '.join(changed)}"] if changed else lines


def _other(name: str, before: Any, after: Any) -> list[str]:
    if isinstance(before, str):
        return [f"{name}: other contents"]
    from difflib import unified_diff

    return [f"{name}: {line}" for line in unified_diff(before, after, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))]


def read() -> Digests:
    """Return the committed digests, or none if the file is missing."""
    return json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}


def write(found: Digests) -> None:
    """Replace the committed digests."""
    DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
