"""Rows taken over from the previous publication of the warehouse: standings, and the number of each name, which decides its colour in charts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb

from bellwether.lake import meta

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
Row = Mapping[str, Any]


def name_rows(connection: duckdb.DuckDBPyConnection, tables: Collection[str], former: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows of meta.names: those of the previous publication (`former`), followed by names that only the published `tables` have."""
    numbers = {str(row["name"]): int(row["number"]) for row in former}
    for table, sql in _NAMES.items():
        if table in tables:
            for (name,) in connection.execute(sql).fetchall():
                numbers.setdefault(name, len(numbers))
    return [{"name": name, "number": number} for name, number in numbers.items()]


def standing_rows(
    connection: duckdb.DuckDBPyConnection, tables: Collection[str], published_at: datetime, former: Sequence[Row]
) -> list[dict[str, Any]]:
    """Return the rows of meta.standings: current standings, and for comparison the most recent earlier ones that differ.
    former: rows of the previous publication.
    """
    standings = [row for table, sql in _STANDINGS.items() if table in tables for row in connection.execute(sql).fetchall()]
    current = [{**dict(zip(_COLUMNS, row, strict=True)), "published_at": published_at, "current": True} for row in standings]
    previous = [row for row in former if row["current"]]
    changed = set(standings) != {tuple(row[name] for name in _COLUMNS) for row in previous}
    earlier = [{**row, "current": False} for row in previous] if changed else [dict(row) for row in former if not row["current"]]
    return [*current, *earlier]


def history_rows(
    connection: duckdb.DuckDBPyConnection, tables: Collection[str], published_at: datetime, former: Mapping[str, Sequence[Row]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of meta.names and meta.standings by table name. former: rows of both tables in the previous publication."""
    return {
        meta.NAMES.name: name_rows(connection, tables, former.get(meta.NAMES.name, ())),
        meta.STANDINGS.name: standing_rows(connection, tables, published_at, former.get(meta.STANDINGS.name, ())),
    }
