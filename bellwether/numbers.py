"""Numbers as text in tables, reports and pages: one way to write each. Negative zero is 0; missing values are a dash unless said otherwise."""

from __future__ import annotations

from decimal import Decimal

NOTHING = "–"


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
