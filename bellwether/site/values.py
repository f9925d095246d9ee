"""Values of the warehouse as cells, and names as paths."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from bellwether.site.model import Cell

#: Stands for a value that is missing or undefined.
NONE = "–"
#: Longest text of a cell; the page of a thing has the whole.
MOST = 240

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_OTHER = re.compile(r"[^a-z0-9]+")
#: Names of pages, and of devices on some file systems.
_RESERVED = frozenset({"index", "con", "prn", "aux", "nul", "page"})


@lru_cache(maxsize=8192)
def slug(name: str) -> str:
    """A file name for `name`: itself where it is plain, else its letters and digits with a hash, so that two names never share one."""
    stem = name.partition(".")[0]
    if _PLAIN.fullmatch(name) and stem not in _RESERVED and not re.fullmatch(r"(com|lpt)\d", stem) and not name.endswith("."):
        return name
    letters = _OTHER.sub("-", name.lower()).strip("-")[:40].strip("-")
    return f"{letters or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def visible(value: str) -> str:
    """`value` with its control characters, but for line breaks and tabs, as the symbols that stand for them."""
    return value.translate(_CONTROLS)


_CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10, 13)} | {13: None, 127: 0x2421}


@lru_cache(maxsize=8192)
def _line(value: str, href: str, most: int) -> Cell:
    whole = " ".join(visible(value).split())
    short = whole if len(whole) <= most else whole[: most - 1] + "…"
    return Cell(short or "(empty)", short, href)


def text(value: object, href: str = "", *, most: int = MOST) -> Cell:
    """A text on one line, cut to `most` characters."""
    if value is None:
        return Cell(NONE)
    return _line(str(value), href, most)


def number(value: object, digits: int | None = None, *, signed: bool = False, unit: str = "") -> Cell:
    """A number with `digits` decimals, or as it is; sorted by its exact value. `unit` stands before it where it is $, else after."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell(NONE, None, title="" if value is None else "not a number")
    if isinstance(value, bool):
        return Cell("yes" if value else "no", str(value))
    assert isinstance(value, int | float | Decimal)
    if math.isinf(value):
        return Cell(("−" if value < 0 else "") + "∞", repr(float(value)))
    factor = 100 if unit == "%" else 1
    plain = f"{abs(value * factor):,}" if digits is None else f"{abs(value * factor):,.{digits}f}"
    is_zero = not plain.strip("0.,")
    sign = "" if is_zero else "−" if value < 0 else "+" if signed else ""
    shown = f"{sign}{'$' if unit == '$' else ''}{plain}{unit if unit != '$' else ''}"
    exact = str(value)
    return Cell(shown, float(value), title=exact if exact != plain else "")


def money(value: object, *, signed: bool = False) -> Cell:
    """Dollars and cents."""
    return number(value, 2, signed=signed, unit="$")


def percent(value: object, digits: int = 0) -> Cell:
    """A share as a percentage."""
    return number(value, digits, unit="%")


def interval(value: object, lower: object, upper: object, digits: int = 3, reason: str | None = None) -> Cell:
    """A value with its interval."""
    main = number(value, digits)
    if lower is None or upper is None:
        return Cell(main.text, main.key, title=f"no interval: {reason}" if reason else main.title)
    ends = f"[{number(lower, digits).text}, {number(upper, digits).text}]"
    return Cell(f"{main.text} {ends}", main.key, title=f"{value} [{lower}, {upper}]")


def when(value: datetime | date | None, *, seconds: bool = False) -> Cell:
    """An instant in UTC, or a day."""
    if value is None:
        return Cell(NONE)
    if not isinstance(value, datetime):
        return Cell(value.isoformat(), value.isoformat())
    return Cell(
        f"{value:%Y-%m-%d %H:%M:%S}" if seconds else f"{value:%Y-%m-%d %H:%M}", value.isoformat(), title=f"{value:%Y-%m-%d %H:%M:%S} UTC"
    )


def yes_no(value: bool | None) -> Cell:
    """A flag."""
    return Cell(NONE) if value is None else Cell("yes" if value else "no", "yes" if value else "no")


def any_value(value: Any) -> Cell:
    """A value of any column."""
    if isinstance(value, bool):
        return yes_no(value)
    if isinstance(value, int | float | Decimal):
        return number(value)
    if isinstance(value, date):
        return when(value, seconds=True)
    if isinstance(value, list):
        return text(", ".join(str(one) for one in value)) if value else Cell(NONE)
    return text(value)


def finite(value: object) -> float | None:
    """A number for a chart; None where it is missing or not finite."""
    if value is None:
        return None
    found = float(value)  # type: ignore[arg-type]
    return found if math.isfinite(found) else None


def thin(count: int, most: int) -> Sequence[int]:
    """At most `most` indices of `count`, evenly spread, with the first and the last."""
    if count <= most:
        return range(count)
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})
