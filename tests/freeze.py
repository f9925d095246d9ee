"""Comparison of all tables before and after a change of the code, row by row.

`python -m tests.freeze store FOLDER` stores the tables of the demo home with two seeds, and those of a real recording if there is one. `compare FOLDER` builds
them again and lists every difference; it exits with 1 if there is one. Ids of runs, times of the machine and paths are left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from bellwether.lake.warehouse import connect
from tests.demo_home import AGENTS, build, open_world, publish, selected
from tests.golden.digests import VOLATILE

SEEDS = (7, 11)
#: Capture of a real event, below the folder of recordings.
CAPTURE = Path("kalshi/ws_btc15m_2026_05")
_SHOWN = 3


def build_all(folder: Path) -> Iterator[tuple[str, Path]]:
    """Build each frozen home below `folder`, and yield its name and its warehouse."""
    for seed in SEEDS:
        home = folder / f"seed{seed}"
        build(home, sandbox_seed=seed)
        yield home.name, home / "sandbox" / "warehouse.duckdb"
    recordings = Path(os.environ.get("BELLWETHER_RECORDINGS", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if (recordings / CAPTURE).exists():
        home = folder / "recording"
        _trade(home, recordings / CAPTURE)
        yield home.name, home / "sandbox" / "warehouse.duckdb"
    else:
        sys.stdout.write(f"without a real recording: there is no {recordings / CAPTURE}\n")


def _trade(home: Path, capture: Path) -> None:
    """Import a capture, and backtest the agents in its episodes."""
    from assets.replay.runs import run_backtests
    from bellwether.recordings.captures import import_captures

    with selected(home):
        world = open_world(home)
        with world.instance:
            import_captures(world.config.recordings_path, capture)
            runner = world.runner()
            run_backtests(runner, AGENTS)
            publish(runner)


def store(warehouse: Path, folder: Path) -> None:
    """Write each table and view of a warehouse as Parquet, without volatile columns."""
    folder.mkdir(parents=True, exist_ok=True)
    with connect(warehouse) as connection:
        names = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema != 'meta' ORDER BY ALL"
        for schema, name in connection.execute(names).fetchall():
            found = connection.sql(f'FROM "{schema}"."{name}"')
            kept = [column for column in found.columns if column not in VOLATILE]
            columns = ", ".join(f'"{column}"' for column in kept)
            connection.sql(f'SELECT {columns} FROM "{schema}"."{name}"').write_parquet(str(folder / f"{schema}.{name}.parquet"))


def compare(before: Path, after: Path) -> Iterator[str]:
    """Compare the tables in two folders. Yields a line per added, removed or changed table, with its first changed rows."""
    old, new = ({path.stem: path for path in folder.glob("*.parquet")} for folder in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if name not in new or name not in old:
            yield f"{name} is {'new' if name in new else 'gone'}"
            continue
        first, second = (duckdb.read_parquet(str(path)) for path in (old[name], new[name]))
        if (first.columns, first.types) != (second.columns, second.types):
            yield f"{name}: columns {sorted(set(zip(first.columns, first.types, strict=True)) ^ set(zip(second.columns, second.types, strict=True)))}"
        shared = ", ".join(f'"{column}"' for column in first.columns if column in second.columns)
        for sign, own, other in (("-", first, second), ("+", second, first)):
            changed = own.select(shared).except_(other.select(shared)).order("ALL")
            count = len(changed)
            if count or len(own) > len(other):
                yield f"{name}: {sign} {count} of {len(own)} rows"
                yield from (f"  {sign} {row}" for row in changed.limit(_SHOWN).fetchall())


def main(command: str, folder: Path) -> int:
    """Store or compare all frozen tables. Returns the exit code."""
    differs = False
    with tempfile.TemporaryDirectory() as temporary:
        for name, warehouse in build_all(Path(temporary)):
            target = folder / name if command == "store" else Path(temporary) / "tables" / name
            store(warehouse, target)
            for line in compare(folder / name, target) if command == "compare" else ():
                differs = True
                sys.stdout.write(f"{name}: {line}\n")
    sys.stdout.write(f"stored in {folder}\n" if command == "store" else "different\n" if differs else "equal\n")
    return int(differs)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("store", "compare"):
        sys.exit("usage: python -m tests.freeze store|compare FOLDER")
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
