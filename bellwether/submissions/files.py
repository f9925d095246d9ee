"""Reader of submitted forecast files with forecaster, market, probability and time."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bellwether.errors import ScoringError
from bellwether.scoring.columns import NAMES, Role, find_named, format_names
from bellwether.scoring.files import read_table
from bellwether.scoring.table import ForecastTable

#: Names of the columns of a submission, the first that is present counts; those without which a file is refused come first.
COLUMNS = {
    "market": ("market_id", "question_id", "market"),
    "probability": NAMES[Role.PROBABILITY],
    "stated_at": ("stated_at",),
    "forecaster": NAMES[Role.FORECASTER],
    "venue": ("venue",),
    "week": ("week",),
}
_REQUIRED = 3


def read_forecasts(path: Path) -> ForecastTable:
    """Read a file of forecasts. The result has the columns row, market, probability, stated_at and, if present in the file, venue, week and
    forecaster, all but row as text.

    Formats as in `bellwether score`. Raises `ScoringError` if the file cannot be read or lacks a column.
    """
    return select_columns(read_table(path))


def select_columns(table: ForecastTable) -> ForecastTable:
    """Return the columns of a submission in the table `table`, as `read_forecasts` does. Raises `ScoringError` if it lacks a column."""
    present = table.frame.columns
    chosen = {column: next(iter(find_named(present, names)), None) for column, names in COLUMNS.items()}
    for column in [*COLUMNS][:_REQUIRED]:
        if chosen[column] is None:
            raise ScoringError(f"{table.source}: no column {COLUMNS[column][0]} among {format_names(present)}; add it, or rename one")
    rows = table.frame.select(pl.col(name).alias(column) for column, name in chosen.items() if name is not None)
    return ForecastTable(table.source, rows.with_row_index("row"), table.place)
