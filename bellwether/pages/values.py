"""Formatting of warehouse values as cells, and of names as file names."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import polars as pl

from bellwether import formatting
from bellwether.pages.model import Bar, Cell

#: Text of a missing or undefined value.
NONE = "–"
#: Maximum length of the text of a cell.
MOST = 240

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_OTHER = re.compile(r"[^a-z0-9]+")
#: Names of pages, and reserved names of some file systems.
_RESERVED = frozenset({"index", "con", "prn", "aux", "nul", "page"})


@lru_cache(maxsize=8192)
def slug(name: str) -> str:
    """Return a unique file name for a name: a plain name itself, any other name as letters and digits with a hash."""
    stem = name.partition(".")[0]
    if _PLAIN.fullmatch(name) and stem not in _RESERVED and not re.fullmatch(r"(com|lpt)\d", stem) and not name.endswith("."):
        return name
    letters = _OTHER.sub("-", name.lower()).strip("-")[:40].strip("-")
    return f"{letters or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def show_controls(value: str) -> str:
    """Replace control characters, except line breaks and tabs, with visible symbols."""
    return value.translate(_CONTROLS)


_CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10, 13)} | {13: None, 127: 0x2421}


@lru_cache(maxsize=8192)
def _line(value: str, href: str, most: int) -> Cell:
    whole = " ".join(show_controls(value).split())
    short = whole if len(whole) <= most else whole[: most - 1] + "…"
    return Cell(short or "(empty)", short, href)


def text(value: object, href: str = "", *, most: int = MOST) -> Cell:
    """Format a text on one line, cut to `most` characters."""
    return _MISSING if value is None else _line(str(value), href, most)


def number(value: object, digits: int | None = None, *, signed: bool = False, unit: str = "") -> Cell:
    """Format a number with `digits` decimals (default: all digits). Cells sort by the exact value; a rounded number shows it as a tooltip.

    unit: "$", written before the number, or "%".
    """
    if value is None:
        return _MISSING
    if isinstance(value, bool):
        return Cell("yes" if value else "no", str(value))
    assert isinstance(value, _NUMBERS)
    if isinstance(value, float) and not math.isfinite(value):
        return _NAN if math.isnan(value) else Cell(("−" if value < 0 else "") + "∞", repr(value))
    size = -value if value < 0 else value
    if unit == "%":
        size *= 100
    if digits is None:
        plain, title = f"{size:,}", ""
    else:
        plain, title = f"{size:,.{digits}f}", "" if round(size, digits) == size else str(value)
    if value < 0 and plain.strip("0.,"):
        plain = f"−{unit}{plain}" if unit == "$" else f"−{plain}"
    elif unit == "$":
        plain = f"+${plain}" if signed and plain.strip("0.,") else f"${plain}"
    elif signed and plain.strip("0.,"):
        plain = f"+{plain}"
    return Cell(f"{plain}\u00a0%" if unit == "%" else plain, float(value), "", title)


_NUMBERS = (int, float, Decimal)
_MISSING, _NAN = Cell(NONE), Cell(NONE, None, "", "not a number")


def money(value: object, *, signed: bool = False) -> Cell:
    """Format an amount in dollars and cents."""
    return number(value, 2, signed=signed, unit="$")


def price(value: object) -> Cell:
    """Format a price in dollars or a probability derived from prices, with two to four decimals: ticks are at least $0.0001."""
    exact = number(value, 4)
    whole, point, decimals = exact.text.partition(".")
    return exact._replace(text=whole + point + decimals.rstrip("0").ljust(2, "0")) if point else exact


def percent(value: object, digits: int = 0) -> Cell:
    """Format a share as a percentage."""
    return number(value, digits, unit="%")


def earning(value: float | None) -> Cell:
    """Format a return as a percentage with two decimals, or more where a return other than 0 would be written as 0."""
    return percent(value, 2 if value is None else formatting.earning_digits(value))


def rank(place: int | None, places: Iterable[int | None], reason: str | None = None) -> Cell:
    """Format a rank among `places`, its own included; a tied rank starts with "=". reason: cause of a missing rank, shown as a tooltip."""
    return Cell(formatting.rank(place, places), None if place is None else float(place), title="" if place is not None else reason or "")


def leader(best: Sequence[Cell], none: str) -> Cell:
    """Return the cell of the only leader, or one that names the number of tied ones. none: text without any."""
    if len(best) == 1:
        return best[0]
    names = ", ".join(cell.text for cell in best)
    return Cell(f"{names if len(best) <= _TIED else len(best)} tie", title=names) if best else Cell(none)


#: Maximum number of tied leaders that are named.
_TIED = 3


def p_value(value: float | None, digits: int = 4) -> Cell:
    """Format a p-value. Cells sort by the exact value."""
    probability = finite(value)
    return _MISSING if probability is None else Cell(formatting.p_value(probability, digits), probability, "", str(value))


def interval(value: object, lower: object, upper: object, digits: int = 3, reason: str | None = None, *, unit: str = "") -> Cell:
    """Format a value and its interval. reason: why there is no interval, shown as a tooltip. unit: as in `number`."""
    if not unit and isinstance(value, float) and abs(value) >= 100:
        digits = 0
    main = number(value, digits, unit=unit)
    if lower is None or upper is None:
        return Cell(main.text, main.key, title=f"no interval: {reason}" if reason else main.title)
    ends = f"[{number(lower, digits, unit=unit).text},\u00a0{number(upper, digits, unit=unit).text}]"
    return Cell(f"{main.text} {ends}", main.key, title=f"{value} [{lower}, {upper}]")


#: Distance beyond the quartiles, in units of their distance, from which a value is an outlier (Tukey's outer fence).
_FENCE = 3.0
#: Number of values up to which none is an outlier.
_FEW = 4


def visible_range(values: Iterable[float | None]) -> tuple[float, float, bool]:
    """Return the range of an axis on which outliers do not flatten the other values, and whether there are outliers."""
    known = sorted(value for value in map(finite, values) if value is not None)
    if not known:
        return 0.0, 1.0, False
    lower, upper = (known[round(share * (len(known) - 1))] for share in (0.25, 0.75))
    fence = _FENCE * (upper - lower)
    inner = [value for value in known if lower - fence <= value <= upper + fence] if fence and len(known) > _FEW else known
    low, high = inner[0], inner[-1]
    if low == high:
        low, high = low - (abs(low) / 10 or 0.1), high + (abs(high) / 10 or 0.1)
    return low, high, len(inner) < len(known)


def add_bars(
    cells: Sequence[Cell], values: Sequence[tuple[Any, Any, Any]], reference: float | None = None, scaled: Sequence[bool] = ()
) -> list[Cell]:
    """Add to each cell its interval, drawn on a common scale.

    values: value, lower and upper end of each cell. reference: value of a thin line. scaled: whether a cell determines the scale (default: all do).
    """
    chosen = [one for one, is_scaled in zip(values, scaled or [True] * len(values), strict=True) if is_scaled]
    low, high, _ = visible_range(number for one in chosen for number in one)
    width = high - low

    def place(value: float) -> float:
        return round(2 + 96 * (value - low) / width, 1)

    line = place(reference) if reference is not None and low <= reference <= high else None
    drawn = []
    for cell, one in zip(cells, values, strict=True):
        value, lower, upper = map(finite, one)
        if value is None:
            drawn.append(cell)
            continue
        ends = (value, value) if lower is None or upper is None else (lower, upper)
        drawn.append(cell._replace(bar=Bar(place(ends[0]), min(100.0, max(0.0, place(value))), place(ends[1]), line)))
    return drawn


def interval_note(lower: object, upper: object, digits: int = 3, *, unit: str = "") -> str:
    """Format the interval that is shown as the remark of a headline number. unit: as in `number`."""
    if finite(lower) is None or finite(upper) is None:
        return "no interval"
    return f"95 %: {number(lower, digits, unit=unit).text} to {number(upper, digits, unit=unit).text}"


def timestamp(value: datetime | date | None, *, seconds: bool = False) -> Cell:
    """Format an instant in UTC to the minute, or to the second if `seconds`; a date without a time."""
    if value is None:
        return _MISSING
    exact = value.isoformat()
    if not isinstance(value, datetime):
        return Cell(exact, exact)
    formatted = exact[:19].replace("T", " ")
    return Cell(formatted, exact) if seconds else Cell(formatted[:16], exact, "", f"{formatted} UTC")


def instant(at: datetime) -> str:
    """Format a UTC instant for a chart's time axis, with milliseconds."""
    return f"{at.isoformat(timespec='milliseconds')[:23]}Z"


def yes_no(value: bool | None) -> Cell:
    """Format a boolean as yes or no."""
    return Cell(NONE) if value is None else Cell("yes" if value else "no", "yes" if value else "no")


def any_value(value: Any) -> Cell:
    """Format a value by its Python type."""
    if isinstance(value, bool):
        return yes_no(value)
    if isinstance(value, Decimal):
        value = value.normalize() if value != value.to_integral_value() else value.to_integral_value()
    if isinstance(value, _NUMBERS):
        return number(value)
    if isinstance(value, date):
        return timestamp(value, seconds=True)
    if isinstance(value, list):
        return text(", ".join(str(one) for one in value)) if value else Cell(NONE)
    return text(value)


def finite(value: object) -> float | None:
    """Convert a number to a float; None if missing or not finite."""
    if value is None:
        return None
    real = float(value)  # type: ignore[arg-type]
    return real if math.isfinite(real) else None


def thin_indices(count: int, most: int) -> Sequence[int]:
    """Return at most `most` evenly spaced indices from 0 to `count` - 1, always with the first and the last."""
    if count <= most:
        return range(count)
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def group_rows(frame: pl.DataFrame, by: str) -> dict[Any, list[dict[str, Any]]]:
    """Group the rows of a frame by the value of a column, in their order. Splitting rows once is faster than filtering a frame for each page."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        groups.setdefault(row[by], []).append(row)
    return groups


def cast_decimals(frame: pl.DataFrame) -> pl.DataFrame:
    """Cast the Decimal columns to floats. Python Decimals are slow to create, and their text keeps trailing zeros."""
    return frame.with_columns(pl.col(pl.Decimal).cast(pl.Float64))
