"""Formatting of numbers and Markdown tables. Negative zero is formatted as 0, a missing value as a dash."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import overload

NOTHING = "–"
#: Alignment of a Markdown column.
LEFT, RIGHT, PLAIN = ":--", "--:", "---"


def number(value: float | Decimal | None, digits: int = 4, *, sign: str = "", none: str = NOTHING) -> str:
    """Format a number with `digits` decimals, or an integer with thousands separators. sign: "+" for positive numbers too."""
    if value is None:
        return none
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign}z.{digits}f}"


def money(value: float | Decimal | None, *, sign: str = "") -> str:
    """Format dollars and cents with thousands separators, without a unit."""
    return NOTHING if value is None else f"{value:{sign}z,.2f}"


def percent(value: float | None, digits: int = 1, unit: str = " %") -> str:
    """Format a share in percent."""
    return NOTHING if value is None else f"{100 * value:z.{digits}f}{unit}"


def p_value(value: float | None, digits: int = 4, *, short: bool = False) -> str:
    """Format a p-value. Values below `digits` decimals are shown as "< 0.0001". short: without blank and leading zero."""
    if value is None or math.isnan(value):
        return NOTHING
    smallest = 10.0**-digits
    text = f"{value:.{digits}f}" if value >= smallest else f"< {smallest:.{digits}f}"
    return text.replace("0.", ".").replace(" ", "") if short else text


def interval(lower: float | None, upper: float | None, digits: int = 3, *, sign: str = "") -> str:
    """Format an interval in brackets; a dash if a bound is missing."""
    return NOTHING if lower is None or upper is None else f"[{lower:{sign}z.{digits}f}, {upper:{sign}z.{digits}f}]"


def estimate(
    value: float | None,
    lower: float | None,
    upper: float | None,
    digits: int = 3,
    *,
    ends: int | None = None,
    sign: str = "",
    none: str = NOTHING,
) -> str:
    """Format a number with its interval in brackets, if there is one. ends: decimals of the interval, default `digits`."""
    if value is None or lower is None or upper is None:
        return number(value, digits, sign=sign, none=none)
    return f"{number(float(value), digits, sign=sign)} {interval(lower, upper, digits if ends is None else ends, sign=sign)}"


@overload
def rounded_down(share: float) -> float: ...
@overload
def rounded_down(share: None) -> None: ...
def rounded_down(share: float | None) -> float | None:
    """Round a share down to tenths of a percent, so that a missed minimum never appears to be reached."""
    return share if share is None or math.isnan(share) else math.floor(round(share * 1000, 6)) / 1000


def rounded_up(share: float | None) -> float | None:
    """Round a share up to tenths of a percent, so that an exceeded maximum never appears to be met."""
    return None if share is None else -rounded_down(-share)


def floor_percent(share: float) -> str:
    """Format a share in percent, rounded down: 269 of 300 is "89.6%", nine of ten is "90%"."""
    return f"{100 * rounded_down(share):.1f}".removesuffix(".0") + "%"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: 1 row, 2 rows."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] | None = None) -> list[str]:
    """Return the lines of a Markdown table. Cells are Markdown already. rule: `LEFT`, `RIGHT` or `PLAIN` per column; default `PLAIN`."""
    return [markdown_row(header), markdown_row(rule or [PLAIN] * len(header)), *map(markdown_row, rows)]


def markdown_row(cells: Iterable[str]) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def escape_cell(text: str) -> str:
    """Escape vertical bars in a cell of a Markdown table."""
    return text.replace("|", "\\|")
