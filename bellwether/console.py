"""What the command line shows: tables and progress for people, JSON for programs."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import click
import polars as pl
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text


@lru_cache(maxsize=1)
def console() -> Console:
    """The console for people, on standard output."""
    return Console(highlight=False)


def emit(value: Any) -> None:
    """Print `value` as JSON: times in ISO format, decimals as text so that no digit is lost."""
    click.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return str(value)


def grid(frame: pl.DataFrame, *, title: str | None = None, most: int = 100) -> Grid:
    """A frame as a table of at most `most` rows; cells are text, never markup."""
    table = Grid(title=Text(title) if title else None, title_justify="left")
    numeric = {name for name, dtype in frame.schema.items() if dtype.is_numeric()}
    for name in frame.columns:
        table.add_column(Text(name), justify="right" if name in numeric else "left", overflow="fold")
    for row in frame.head(most).iter_rows():
        table.add_row(*(Text(_cell(value)) for value in row))
    if frame.height > most:
        table.caption = f"{most} of {frame.height} rows"
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return repr(value) if isinstance(value, bytes) else str(value)


def leaderboard_table(release: str, frame: pl.DataFrame) -> Grid:
    """Rows of benchmark/leaderboard as people read them: score [95 % interval]."""
    table = Grid(
        title=Text(f"{release}: {frame['n_questions'].max() or 0} questions, 95 % cluster-bootstrap intervals"), title_justify="left"
    )
    for name in ("rank", "forecaster", "Brier", "skill", "skill vs market", "log loss", "ECE", "accuracy", "coverage"):
        table.add_column(name, justify="left" if name == "forecaster" else "right")
    for row in frame.iter_rows(named=True):
        cells = [_interval(row, metric) for metric in ("brier", "brier_skill", "skill_vs_market")]
        plain = [_number(row[metric]) for metric in ("log_loss", "ece", "accuracy")]
        rank = "–" if row["rank"] is None else str(row["rank"])
        table.add_row(rank, Text(row["forecaster"]), *cells, *plain, f"{row['coverage']:.0%}")
    table.caption = (
        "ranked by Brier score (lower is better); – below the coverage floor; skill vs market: against the price 24 h before close"
    )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(row: dict[str, Any], metric: str) -> str:
    if row[metric] is None:
        return ""
    if row[f"{metric}_lower"] is None:
        return _number(row[metric])
    return f"{row[metric]:.3f} [{row[f'{metric}_lower']:.3f}, {row[f'{metric}_upper']:.3f}]"
