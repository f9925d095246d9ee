"""Tables of pages: titles, definitions and formats of columns come from the data dictionary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple

import polars as pl
from rich.table import Table as Grid
from rich.text import Text

from bellwether.calibration import METRICS
from bellwether.console import plain_grid
from bellwether.formatting import visible
from bellwether.pages.model import Cell, Facts, Head, Note, PageTable
from bellwether.pages.values import add_bars, any_value, interval, money, number, percent, price, timestamp
from bellwether.tables import table
from bellwether.tables.replay import HORIZONS_S, INSTANT
from bellwether.tables.schema import Column

#: Spelling of words of column names.
_WORDS = {
    **{one: one.upper() for one in ("auc", "ece", "id", "corp", "f1", "roc", "sha256", "uma", "url", "utc", "yes", "no")},
    "pnl": "P&L", "brier": "Brier", "sharpe": "Sharpe", "kalshi": "Kalshi", "polymarket": "Polymarket", "smece": "smooth ECE",
}  # fmt: skip
#: Titles that differ from the name.
_TITLES = {
    "agent_id": "Agent", "brier_could_know": "Brier of known outcomes",
    "brier_price": "Brier, price", "brier_size": "Brier, size", "brier_stated": "Brier, stated", "brier_vs_price": "Brier vs price",
    "closes_at": "Ends", "could_know": "Known outcomes", "could_know_share": "Share that it could know", "ece": "Calibration error", "ece_expected": "Calibration error if calibrated",
    "ece_p_calibrated": "p of calibration", "ended_at": "Ended", "fill_id": "Fill", "filled_at": "Time", "in_mcs": "In the confidence set of the best",
    "known_at": "Known", "lineup": "List of agents", "market_id": "Market", "max_drawdown": "Largest drawdown",
    "mcs_p": "p of the confidence set", "n": "Scored", "p": "p", "p_holm": "p, Holm", "p_calibrated": "p of calibration", "letters": "Group", "no_position": "NO left",
    "opened_at": "Opened", "order_id": "Order", "queues": "Sampled queues", "queue_pnl_median": "Sampled queues, median P&L",
    "queue_pnl_low": "5 % of queues below", "queue_pnl_high": "5 % of queues above", "queue_profitable": "Queues with a profit",
    "cadence_seconds": "Seconds between decisions", "queue_wait": "Waited, s", "queue_wait_mean": "Mean wait in the queue, s",
    "queue_wait_median": "Median wait in the queue, s", "sample_seconds": "Seconds between samples", "sent_at": "Sent", "settled_at": "Settled",
    "skill_price": "Skill over the price", "ticker": "Market", "time_in_force": "In force",
    "unranked_because": "Not ranked because", "yes_position": "YES left",
    **{f"adverse_selection_{horizon}s": f"Markout after {horizon} s" for horizon in HORIZONS_S},
    **{f"markout_{horizon}s": f"Markout after {horizon} s" for horizon in HORIZONS_S},
}  # fmt: skip
#: Patterns of other titles: `{}` is the title of the rest of the name.
_STARTS = {"n": "Number of {}"}
_ENDS = {
    "mean": "Mean {}", "median": "Median {}", "min": "Lowest {}", "max": "Highest {}", "lower": "{}, low end", "upper": "{}, high end", "reason": "{}, why no interval",
}  # fmt: skip
_COST = Column("cost", pl.Float64(), "cost", "dollars")
_SHARES = frozenset({"share", "fraction", "ratio"})
#: Columns of prices, whose ticks may be below a cent.
_PRICES = frozenset({"price", "bid", "ask"})
_METRIC = re.compile(r"(\w+), as in benchmark/scores")
#: Mark of an estimate with its interval in a title.
LEVEL = "[95\u00a0%]"


@cache
def title(name: str) -> str:
    """Return the title of a column or metric."""
    if name in _TITLES:
        return _TITLES[name]
    first, _, after = name.partition("_")
    before, _, last = name.rpartition("_")
    if after and first in _STARTS:
        return _STARTS[first].format(after.replace("_", " "))
    if before and last in _ENDS:
        rest, form = title(before), _ENDS[last]
        is_proper = form.startswith("{}") or before.partition("_")[0] in _WORDS
        return form.format(rest if is_proper else rest[:1].lower() + rest[1:])
    words = " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


Row = Mapping[str, Any]


class Shown(NamedTuple):
    """Column of a page's table: its head, and a function that formats the cells of all rows."""

    head: Head
    cells: Callable[[Sequence[Row]], list[Cell]]


def build_column(title: str, form: Callable[[Row], Cell], meaning: str = "", *, numeric: bool = False, hidden: bool = False) -> Shown:
    """Build a column that no table of the warehouse has. form: formats a row's cell."""
    return Shown(Head(title, meaning, numeric, hidden), lambda rows: [form(row) for row in rows])


def estimate_column(
    title: str,
    column: str,
    meaning: str = "",
    digits: int = 3,
    *,
    unit: str = "",
    reference: float | None = None,
    drawn: bool = False,
    hidden: bool = False,
    ends: tuple[str, str] = ("", ""),
    scale: Callable[[Row], bool] = lambda row: True,
) -> Shown:
    """Build a column of estimates with 95 % intervals, which `drawn` draws below the numbers.

    column: with `_lower`, `_upper` and `_reason` after its name, the columns of the interval. unit: as in `values.number`. reference: value at which
    a line is drawn. ends: columns of another range than the interval. scale: whether a row determines the scale of the drawing.
    """
    low, high = ends if ends[0] else (f"{column}_lower", f"{column}_upper")

    def cells(rows: Sequence[Row]) -> list[Cell]:
        values = [(row.get(column), row.get(low), row.get(high)) for row in rows]
        formatted = [interval(*one, digits, row.get(f"{column}_reason"), unit=unit) for one, row in zip(values, rows, strict=True)]
        return add_bars(formatted, values, reference, [scale(row) for row in rows]) if drawn else formatted

    cut = "; longer bars are cut at the edge" if drawn else ""
    return Shown(Head(title, f"{meaning}; in brackets its {'range' if ends[0] else '95 % interval'}{cut}", True, hidden), cells)


def hidden_columns(name: str, *columns: str) -> list[Shown]:
    """Return columns of the table `name` that readers must pick to see them."""
    shown = (_named_column(name, column, (), {}) for column in columns)
    return [one._replace(head=one.head._replace(hidden=True)) for one in shown]


def build_table(
    declared: str,
    caption: str,
    rows: Iterable[Row],
    *columns: str | tuple[str, str] | Shown,
    links: Mapping[str, Callable[[Row], str]] | None = None,
    filters: Sequence[str] = (),
    search: Sequence[str] = (),
    initial: Mapping[str, str] | None = None,
    empty: str = "",
    **options: Any,
) -> PageTable | Note:
    """Build a table of rows.

    Args:
        declared: Table of the warehouse that declares meanings and units of columns, as `group/name`, or empty. Other columns are shown
            by their values.
        caption: Title of the table.
        rows: Values by column.
        columns: Each a column's name, a pair of name and title, or a `Shown`.
        links: Functions that return the path to which a row's cell leads, by column.
        filters: Titles of the columns that can be filtered by value.
        search: Titles of the searched columns.
        initial: Values of the filters at first, by title.
        empty: Text of the note that replaces a table without rows.
        options: Other attributes of `PageTable`.
    """
    listed = list(rows)
    if not listed and empty:
        return Note(empty)
    shown = [one if isinstance(one, Shown) else _named_column(declared, one, listed, links or {}) for one in columns]
    lines = list(zip(*(one.cells(listed) for one in shown), strict=True))
    heads = [one.head for one in shown]
    places = {head.text: place for place, head in enumerate(heads)}
    options |= {"filters": [places[one] for one in filters], "search": [places[one] for one in search]}
    options["chosen"] = {places[title]: value for title, value in (initial or {}).items()}
    return PageTable(caption, heads, lines, **options)


def _named_column(name: str, column: str | tuple[str, str], rows: Sequence[Row], links: Mapping[str, Callable[[Row], str]]) -> Shown:
    """Build a column from its values in the rows. name: table that may declare it."""
    column, text = (column, title(column)) if isinstance(column, str) else column
    declared, link = _columns(name).get(column), links.get(column)

    def form(row: Row) -> Cell:
        formatted = cell(declared, row[column])
        return formatted._replace(href=link(row)) if link and row[column] is not None else formatted

    numeric = declared.dtype.is_numeric() if declared else any(_is_number(row[column]) for row in rows)
    return build_column(text, form, meaning(declared) if declared else "", numeric=numeric)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)


def text_table(table: PageTable, width: int = 80) -> Grid:
    """Format a table for the terminal: its first visible columns, as many as fit `width` characters. Long titles take several lines."""
    heads, columns, used = list[str](), list[list[str]](), -1
    for place, head in enumerate(table.heads):
        cells = [visible(f"{row[place].text} {row[place].note}".strip() if head.number else row[place].text) for row in table.rows]
        room = max(map(len, [*cells, *head.text.split(" ")]))
        used += 1 + room
        if head.hidden or used > width:
            break
        heads.append("\n".join(wrap(head.text, room)))
        columns.append(cells)
    texts = [text for text, head in zip(heads, table.heads, strict=False) if not head.number]
    grid = plain_grid(Text(table.caption, style="italic"), heads, texts)
    for row in zip(*columns, strict=True):
        grid.add_row(*map(Text, row))
    return grid


def definition(name: str, column: str) -> str:
    """Return the description of a column, followed by its unit."""
    return meaning(_columns(name)[column])


def meaning(column: Column) -> str:
    """Return a column's description and unit. If the description refers to a metric, the metric's definition replaces it."""
    found = _METRIC.match(column.description)
    text = METRICS[found[1]].meaning if found and found[1] in METRICS else column.description
    return f"{text} [{column.unit}]" if column.unit else text


def facts(name: str, row: Mapping[str, Any], leave_out: Collection[str] = ()) -> Facts:
    """Format a row of a table as named values. An estimate and its interval become one value.

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
        text = f"{title(column)} {LEVEL}" if estimated else title(column)
        declared = _columns(name).get(column)
        named_values.append((text, _estimate(column, row, declared) if estimated else cell(declared, value)))
        meanings[text] = meaning(declared) if declared else ""
    return Facts(named_values, meanings)


def cell(column: Column | None, value: Any) -> Cell:
    """Format a value according to its column's unit, with three significant digits."""
    if isinstance(value, date):
        return timestamp(value, seconds=column is not None and column.dtype == INSTANT)
    if not _is_real(value):
        return any_value(value)
    unit = column.unit if column else None
    if column and column.name in _PRICES:
        return price(value)
    if unit == "dollars":
        return money(value) if abs(value) >= 0.1 or not value else number(value, _count_decimals(value), unit="$")
    if unit in _SHARES:
        return percent(value, max(0, _count_decimals(100 * value, 2)))
    return number(value, _count_decimals(value))


def cost(dollars: Any) -> Cell:
    """Format a cost in dollars, with three significant digits if it is small."""
    return cell(_COST, None if dollars is None else float(dollars))


def _is_real(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, int) and math.isfinite(value)


def _count_decimals(value: Any, most: int = 5) -> int:
    """Return how many decimals show three significant digits of a value, at most `most`."""
    size = abs(float(value))
    return min(most, max(0, 2 - math.floor(math.log10(size)))) if size else 2


def _estimate(name: str, row: Mapping[str, Any], column: Column | None) -> Cell:
    value, lower, upper = row[name], row[f"{name}_lower"], row[f"{name}_upper"]
    unit = {"dollars": "$", **dict.fromkeys(_SHARES, "%")}.get((column.unit if column else None) or "", "")
    digits = 2 if unit == "$" else 1 if unit == "%" or abs(value or 0) >= 10 else 3
    return interval(value, lower, upper, digits, row.get(f"{name}_reason"), unit=unit)


@cache
def _columns(name: str) -> dict[str, Column]:
    return {one.name: one for one in table(name).columns} if name else {}
