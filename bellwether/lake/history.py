"""History of publications in the lake: standings, and the number of each name, which determines its colour in charts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import duckdb
import polars as pl

from bellwether.lake.lake import Lake
from bellwether.tables import Table
from bellwether.tables.history import HISTORY, NAMES, STANDINGS

#: Query of names in the order of their numbers, by table. Only marts: other tables may be on a store.
_NAMES = {
    "benchmark/leaderboard": "SELECT forecaster FROM benchmark.leaderboard GROUP BY ALL ORDER BY min(known_at), forecaster",
    "replay/backtests": "SELECT agent FROM replay.backtests GROUP BY ALL ORDER BY min(known_at), agent",
    "arena/leaderboard": "SELECT DISTINCT family FROM arena.leaderboard ORDER BY family",
}
#: area, board, metric, name, place and value, by table.
_STANDINGS = {
    "benchmark/leaderboard": "SELECT 'benchmark', release, 'brier', forecaster, rank, brier FROM benchmark.leaderboard WHERE rank IS NOT NULL",
    "replay/summary": """
        SELECT 'trading', rules, 'pnl_mean', agent, (rank() OVER (PARTITION BY rules ORDER BY pnl_mean DESC))::INTEGER, pnl_mean::DOUBLE
        FROM replay.summary WHERE pnl_mean IS NOT NULL AND orders > 0 AND episodes >= 3""",
    "arena/rankings": """
        SELECT 'arena', concat_ws(', ', methodology, if(reconstructed, 'reconstructed', 'live'), if(contaminated, 'could know', NULL)), metric, family, rank, value
        FROM arena.rankings WHERE rank IS NOT NULL
        AND metric IN ('brier_stated', 'brier_size', 'brier_vs_price', 'return')""",
}
_COLUMNS = ("area", "board", "metric", "name", "place", "value")
#: Name of the run that writes the history.
_RUN = "publication"


def load_history(lake: Lake) -> dict[Table, pl.DataFrame]:
    """Read the history that the lake stores, by table; empty before the first publication. Raises `LakeError` for a damaged file."""
    return {table: lake.slice(table, [()], missing="skip").read() for table in HISTORY}


def continue_history(
    connection: duckdb.DuckDBPyConnection, tables: Collection[str], published_at: datetime, former: Mapping[Table, pl.DataFrame]
) -> dict[Table, pl.DataFrame]:
    """Return the history with the names and standings in the marts of `connection`.

    tables: names of the tables there. Without all tables that are compared, the history stays unchanged.
    """
    if not {*_NAMES, *_STANDINGS} <= set(tables):
        return dict(former)
    names = [name for sql in _NAMES.values() for (name,) in connection.execute(sql).fetchall()]
    standings = [row for sql in _STANDINGS.values() for row in connection.execute(sql).fetchall()]
    return {
        NAMES: _number_names(names, former[NAMES]),
        STANDINGS: _compare_standings(standings, published_at, former[STANDINGS]),
    }


def store_history(lake: Lake, former: Mapping[Table, pl.DataFrame], rows: Mapping[Table, pl.DataFrame]) -> None:
    """Store the tables of the history that differ from `former`."""
    for table, frame in rows.items():
        if not frame.equals(former[table]):
            lake.write(table, (), frame, run_id=_RUN)


def _number_names(names: Collection[str], former: pl.DataFrame) -> pl.DataFrame:
    """Append new names to the numbered ones."""
    numbers = dict(former.select(NAMES.names).iter_rows())
    for name in names:
        numbers.setdefault(name, len(numbers))
    return NAMES.frame([{"name": name, "number": number} for name, number in numbers.items()])


def _compare_standings(standings: Collection[tuple[object, ...]], published_at: datetime, former: pl.DataFrame) -> pl.DataFrame:
    """Return `former` if its current standings equal these; otherwise these as the current ones, and the current ones of `former` as the earlier."""
    previous = former.filter("current")
    if set(standings) == set(previous.select(_COLUMNS).iter_rows()):
        return former
    current = STANDINGS.frame(
        [{**dict(zip(_COLUMNS, row, strict=True)), "published_at": published_at, "current": True} for row in standings]
    )
    return pl.concat([previous.with_columns(current=False), current]).sort(STANDINGS.order)
