"""Titles, definitions and formats of table columns, from the data dictionary."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import polars as pl

from bellwether.pages.model import Cell, Facts, Head
from bellwether.pages.values import any_value, interval, money, number, percent
from bellwether.tables import table
from bellwether.tables.schema import Column

#: Spelling of words of column names.
_WORDS = {
    **{one: one.upper() for one in ("auc", "ece", "id", "mcs", "roc", "sha256", "uma", "url", "utc", "yes", "no")},
    "pnl": "P&L", "brier": "Brier", "sharpe": "Sharpe", "kalshi": "Kalshi", "polymarket": "Polymarket", "df": "degrees of freedom",
}  # fmt: skip
#: Titles that differ from the name.
_TITLES = {
    "agent_id": "Agent", "brier_adjusted": "Brier, adjusted", "brier_size": "Brier, size", "brier_stated": "Brier, stated", "closes_at": "Ends",
    "ece": "Calibration error", "ended_at": "Ended", "fill_id": "Fill", "filled_at": "Time", "known_at": "Known", "market_id": "Market",
    "max_drawdown": "Largest drawdown", "no_position": "NO left", "opened_at": "Opened", "order_id": "Order", "queue_wait": "Waited, s", "queue_wait_median": "Median wait in the queue, s",
    "sent_at": "Sent", "settled_at": "Settled", "ticker": "Market", "time_in_force": "In force", "yes_position": "YES left",
}  # fmt: skip
_COST = Column("cost", pl.Float64(), "cost", "dollars")
_SHARES = frozenset({"share", "fraction", "ratio"})
#: Ranges of metrics that an interval by Student's t may exceed, by prefix.
_RANGES = {"fill_ratio": (0.0, 1.0), "max_drawdown": (0.0, 1.0), "maker_share": (0.0, 1.0), "win_rate": (0.0, 1.0), "accuracy": (0.0, 1.0)}


@cache
def title(name: str) -> str:
    """Return the title of a column or metric."""
    if name in _TITLES:
        return _TITLES[name]
    words = " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


@cache
def head(name: str, column: str, text: str = "", *, numeric: bool | None = None) -> Head:
    """Return the head of a column, with its definition as a tooltip. numeric: whether cells are numbers (default: by the column's type)."""
    declared = _columns(name)[column]
    return Head(text or title(column), meaning(declared), declared.dtype.is_numeric() if numeric is None else numeric)


def heads(name: str, *columns: str | tuple[str, str]) -> list[Head]:
    """Return the heads of columns of a table. columns: names, or pairs of a name and its title."""
    return [head(name, column) if isinstance(column, str) else head(name, *column) for column in columns]


def definition(name: str, column: str) -> str:
    """Return the description of a column, followed by its unit."""
    return meaning(_columns(name)[column])


def meaning(column: Column) -> str:
    """Return the description of a declared column, followed by its unit."""
    return f"{column.description} [{column.unit}]" if column.unit else column.description


def facts(name: str, row: Mapping[str, Any], leave_out: Collection[str] = ()) -> Facts:
    """Format a row of a table as named values. An estimate and the columns of its interval become one value.

    Args:
        name: The table, as `group/name`.
        row: Values by column.
        leave_out: Columns to leave out.
    """
    named_values, meanings = list[tuple[str, Cell]](), dict[str, str]()
    for column, value in row.items():
        base, _, end = column.rpartition("_")
        if column in leave_out or (end in ("lower", "upper", "reason") and base in row):
            continue
        estimated = f"{column}_lower" in row
        text = f"{title(column)} [95 %]" if estimated else title(column)
        declared = _column(name, column)
        named_values.append((text, _estimate(column, row, declared) if estimated else cell(declared, value)))
        meanings[text] = meaning(declared) if declared else ""
    return Facts(named_values, meanings)


def cell(column: Column | None, value: Any) -> Cell:
    """Format a value in the unit of its column, with three significant digits."""
    if not _is_real(value):
        return any_value(value)
    unit = column.unit if column else None
    if unit == "dollars":
        return money(value) if abs(value) >= 0.1 or not value else number(value, _count_decimals(value), unit="$")
    if unit in _SHARES:
        return percent(value, max(0, _count_decimals(100 * value, 2)))
    return number(value, _count_decimals(value))


def value_cell(name: str, column: str, value: Any) -> Cell:
    """Format a value of a table's column."""
    return cell(_columns(name)[column], value)


def cost(dollars: Any) -> Cell:
    """Format a cost in dollars, with three significant digits if it is small."""
    return cell(_COST, None if dollars is None else float(dollars))


def _is_real(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, int) and math.isfinite(value)


def _count_decimals(value: Any, most: int = 5) -> int:
    """Return the number of decimals that gives three significant digits."""
    size = abs(float(value))
    return min(most, max(0, 2 - math.floor(math.log10(size)))) if size else 2


def _estimate(name: str, row: Mapping[str, Any], column: Column | None) -> Cell:
    value, lower, upper = row[name], row[f"{name}_lower"], row[f"{name}_upper"]
    unit = {"dollars": "$", **dict.fromkeys(_SHARES, "%")}.get((column.unit if column else None) or "", "")
    lower, upper = clip_interval(name, lower, upper)
    digits = 2 if unit == "$" else 1 if unit == "%" or abs(value or 0) >= 10 else 3
    return interval(value, lower, upper, digits, row.get(f"{name}_reason"), unit=unit)


def clip_interval(name: str, lower: float | None, upper: float | None) -> tuple[float | None, float | None]:
    """Clip an interval to the range of its metric."""
    for metric, (least, most) in _RANGES.items():
        if name.startswith(metric) and lower is not None and upper is not None:
            return max(lower, least), min(upper, most)
    return lower, upper


def _column(name: str, column: str) -> Column | None:
    return _columns(name).get(column)


@cache
def _columns(name: str) -> dict[str, Column]:
    return {one.name: one for one in table(name).columns}
