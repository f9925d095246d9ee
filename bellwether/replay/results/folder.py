"""Folders written by `bellwether backtest --out`: a Parquet file per table, the reality check, and the backtests as CSV."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.files import atomic_file, atomic_folder, writing
from bellwether.replay.results.summary import reality_check
from bellwether.tables.exports import neutralise_formulas
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS, MARKET_PNL, ORDERS

#: Tables of runs.
_TABLES = (ORDERS, FILLS, EQUITY, MARKET_PNL, BACKTESTS)
#: File that marks a complete folder; written last.
_MARKER = f"{BACKTESTS.short_name}.parquet"
#: Times of the CSV: ISO 8601 in UTC, to the microsecond.
_CSV_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"

#: Runs whose tables are written together.
_RUNS_PER_PART = 100


@contextmanager
def table_writer(
    out: Path, varied: Sequence[Mapping[str, Any]]
) -> Iterator[Callable[[Mapping[str, Any], Mapping[str, pl.DataFrame]], None]]:
    """Yield a function that adds a run: its row of replay/backtests, and its other tables by name. When the block ends, the folder `out`
    contains the tables of all runs, in the order of the calls.

    Until the block ends, added tables are in `out/backtests.parts/<table>`, and remain there if it fails. Then a new folder, which also
    contains all other files of `out`, replaces `out`.

    Args:
        out: Folder.
        varied: Columns of the CSV for each agent: `agent` and its varied parameters.

    Raises:
        BellwetherError: The folder cannot be written.
    """
    out = out.resolve()
    parts = out / "backtests.parts"
    with writing(parts):
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
    waiting: list[Mapping[str, pl.DataFrame]] = []
    written_runs = 0

    def add(row: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        waiting.append({**tables, BACKTESTS.name: BACKTESTS.frame([row])})
        if len(waiting) >= _RUNS_PER_PART:
            write_waiting()

    def write_waiting() -> None:
        nonlocal written_runs
        for table in _TABLES if waiting else ():
            with atomic_file(parts / table.short_name / f"{written_runs:09d}.parquet") as draft:
                pl.concat([run[table.name] for run in waiting]).write_parquet(draft)
        written_runs += len(waiting)
        waiting.clear()

    try:
        yield add
    finally:
        write_waiting()
    with atomic_folder(out, _MARKER) as draft:
        _join_parts(parts, draft, varied)
        written = {parts.name, *(file.name for file in draft.iterdir())}
        shutil.copytree(
            out,
            draft,
            ignore=lambda folder, names: written if Path(folder) == out else (),
            copy_function=os.link,
            dirs_exist_ok=True,
            symlinks=True,
        )


def _join_parts(parts: Path, target: Path, varied: Sequence[Mapping[str, Any]]) -> None:
    """Write the final files into `target`: each table, joined from its parts in the order of runs, the CSV file, and the reality check."""
    for table in _TABLES:
        files = sorted((parts / table.short_name).glob("*.parquet"))
        rows = pl.scan_parquet(files, glob=False) if files else table.empty().lazy()
        rows.sink_parquet(target / f"{table.short_name}.parquet")
    backtests = pl.read_parquet(target / _MARKER, glob=False)
    columns = pl.DataFrame(varied or [{"agent": ""}], infer_schema_length=None, strict=False).unique("agent")
    named = backtests.join(columns, on="agent", how="left", maintain_order="left")
    neutralise_formulas(named.drop("queue_pnls")).write_csv(target / "backtests.csv", datetime_format=_CSV_TIME)
    reality_check(backtests).frame().write_parquet(target / "reality_check.parquet")
