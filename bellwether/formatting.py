"""Numbers and Markdown tables as text. Negative zero is 0; missing values are a dash unless stated otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import overload

NOTHING = "–"
#: Alignment of a Markdown column.
LEFT, RIGHT, PLAIN = ":--", "--:", "---"


def number(value: float | Decimal | None, digits: int = 4, *, sign: str = "", none: str = NOTHING) -> str:
    """A number with `digits` decimals, a whole number with separators of thousands. sign: "+" writes that of positive numbers too."""
    if value is None:
        return none
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign}z.{digits}f}"


def money(value: float | Decimal | None, *, sign: str = "") -> str:
    """Dollars and cents with separators of thousands, without a unit."""
    return NOTHING if value is None else f"{value:{sign}z,.2f}"


def percent(value: float | None, digits: int = 1, unit: str = " %") -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{100 * value:z.{digits}f}{unit}"


def p_value(value: float | None, digits: int = 4, *, short: bool = False) -> str:
    """A p-value: never 0, but below the smallest number with so many decimals. short: without blank and leading zero."""
    if value is None or math.isnan(value):
        return NOTHING
    smallest = 10.0**-digits
    text = f"{value:.{digits}f}" if value >= smallest else f"< {smallest:.{digits}f}"
    return text.replace("0.", ".").replace(" ", "") if short else text


def interval(lower: float | None, upper: float | None, digits: int = 3, *, sign: str = "") -> str:
    """Both ends in brackets; a dash where there is no interval."""
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
    """A number and its interval, where there is one; `ends` are the decimals of the interval if they differ."""
    if value is None or lower is None or upper is None:
        return number(value, digits, sign=sign, none=none)
    return f"{number(float(value), digits, sign=sign)} {interval(lower, upper, digits if ends is None else ends, sign=sign)}"


@overload
def rounded_down(share: float) -> float: ...
@overload
def rounded_down(share: None) -> None: ...
def rounded_down(share: float | None) -> float | None:
    """A share in whole tenths of a percent, rounded down, so that it never appears to reach a minimum that it misses; None and NaN unchanged."""
    return share if share is None or math.isnan(share) else math.floor(round(share * 1000, 6)) / 1000


def rounded_up(share: float | None) -> float | None:
    """A share in whole tenths of a percent, rounded up, so that it never appears to respect a maximum that it exceeds; None and NaN unchanged."""
    return None if share is None else -rounded_down(-share)


def floor_percent(share: float) -> str:
    """A share that is compared with a minimum, in percent: 269 of 300 is "89.6%", nine of ten is "90%"."""
    return f"{100 * rounded_down(share):.1f}".removesuffix(".0") + "%"


def counted(count: int, what: str) -> str:
    """A count with its noun: 1 row, 2 rows."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] | None = None) -> list[str]:
    """The lines of a Markdown table. rule: `LEFT`, `RIGHT` or `PLAIN` per column; `PLAIN` everywhere when left out. Cells are Markdown already."""
    return [markdown_row(header), markdown_row(rule or [PLAIN] * len(header)), *map(markdown_row, rows)]


def markdown_row(cells: Iterable[str]) -> str:
    """The line of a row."""
    return f"| {' | '.join(cells)} |"


def escape_cell(text: str) -> str:
    """`text` with escaped vertical bars, which would end its cell."""
    return text.replace("|", "\\|")
