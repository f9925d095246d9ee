"""Formatting of numbers and of Markdown tables, and of text from outside: without credentials, on one line, with visible control characters.

A missing number becomes a dash, and negative zero becomes 0.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import overload

NOTHING = "–"
#: Alignment of a Markdown column.
LEFT, RIGHT, PLAIN = ":--", "--:", "---"


def _drop_sign_of_zero(text: str) -> str:
    """Remove the plus sign of a number that rounds to zero: the number may be negative."""
    return text if any(digit in text for digit in "123456789") else text.removeprefix("+")


def number(value: float | Decimal | None, digits: int = 4, *, sign: str = "", none: str = NOTHING) -> str:
    """Format a float or decimal with `digits` decimals, an integer with thousands separators.
    sign: "+" to mark positive numbers. none: text for None.
    """
    if value is None:
        return none
    return _drop_sign_of_zero(f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign}z.{digits}f}")


def money(value: float | Decimal | None, *, sign: str = "") -> str:
    """Format dollars and cents with thousands separators, without a dollar sign. sign: "+" to mark positive amounts."""
    return NOTHING if value is None else _drop_sign_of_zero(f"{value:{sign}z,.2f}")


def rank(place: int | None, places: Iterable[int | None]) -> str:
    """Format a rank among `places`, its own included: "=2" if another one is equal, a dash for None."""
    if place is None:
        return NOTHING
    return f"{'=' if sum(other == place for other in places) > 1 else ''}{place}"


def percent(value: float | None, digits: int = 1, unit: str = " %") -> str:
    """Format a share, such as 0.25, in percent. unit: text after the number."""
    return NOTHING if value is None else f"{100 * value:z.{digits}f}{unit}"


def earning(value: float | None, *, sign: str = "", unit: str = " %") -> str:
    """Format a return, such as -0.0123, in percent with two decimals, or more where a return other than 0 would be written as 0. sign: "+"
    to mark gains. unit: text after the number.
    """
    return NOTHING if value is None else f"{number(100 * value, earning_digits(value), sign=sign)}{unit}"


def earning_digits(value: float) -> int:
    """Return the number of decimals of a return in percent: 2, or as many as its first significant digit needs."""
    return max(2, -math.floor(math.log10(abs(100 * value)))) if value and math.isfinite(value) else 2


def p_value(value: float | None, digits: int = 4, *, short: bool = False) -> str:
    """Format a p-value; one too small for `digits` decimals becomes "< 0.0001". short: without blank and leading zero."""
    if value is None or math.isnan(value):
        return NOTHING
    smallest = 10.0**-digits
    text = f"{value:.{digits}f}" if value >= smallest else f"< {smallest:.{digits}f}"
    return text.replace("0.", ".").replace(" ", "") if short else text


def interval(lower: float | None, upper: float | None, digits: int = 3, *, sign: str = "") -> str:
    """Format an interval in brackets; a dash if a bound is missing."""
    return (
        NOTHING
        if lower is None or upper is None
        else f"[{number(float(lower), digits, sign=sign)}, {number(float(upper), digits, sign=sign)}]"
    )


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
    """Format a number, followed by its interval in brackets if there is one. ends: decimals of the interval, by default `digits`."""
    if value is None or lower is None or upper is None:
        return number(value, digits, sign=sign, none=none)
    return f"{number(float(value), digits, sign=sign)} {interval(lower, upper, digits if ends is None else ends, sign=sign)}"


@overload
def rounded_down(share: float) -> float: ...
@overload
def rounded_down(share: None) -> None: ...
def rounded_down(share: float | None) -> float | None:
    """Round a share down to tenths of a percent, so that a value just below a required minimum does not appear to reach it."""
    return share if share is None or math.isnan(share) else math.floor(round(share * 1000, 6)) / 1000


def floor_percent(share: float) -> str:
    """Format a share in percent, rounded down: 269 of 300 is "89.6%", nine of ten is "90%"."""
    return f"{100 * rounded_down(share):.1f}".removesuffix(".0") + "%"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun in singular or plural: 1 row, 2 rows."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] | None = None) -> list[str]:
    """Return the lines of a Markdown table. Cells must be valid Markdown. rule: `LEFT`, `RIGHT` or `PLAIN` (default) for each column."""
    return [markdown_row(header), markdown_row(rule or [PLAIN] * len(header)), *map(markdown_row, rows)]


def markdown_row(cells: Iterable[str]) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def escape_cell(text: str) -> str:
    """Escape the vertical bars in a text, so that it is one cell of a Markdown table."""
    return text.replace("|", "\\|")


# --- text from outside ---------------------------------------------------------------------------------------------------

#: Pattern of credentials, valid in Python and in Polars.
CREDENTIAL = (
    r"(?i)\b(?:bearer\s+[^\s\"']+|(?:sk|pk|rk)-[\w-]{8,}|gsk_\w{8,}|fw_\w{8,}|hf_\w{8,}|tgp_v1_[\w-]{8,}|xai-[\w-]{8,}|AIza[\w-]{8,})"
)
_CREDENTIAL = re.compile(CREDENTIAL)

#: Names that carry credentials and determine nothing; compared in lower case with underscores.
CREDENTIAL_NAMES = frozenset(
    {"api_key", "apikey", "x_api_key", "authorization", "proxy_authorization", "access_token", "bearer_token", "client_secret", "password"}
    | {"headers", "extra_headers", "default_headers"}
)


def redact(text: str) -> str:
    """Replace parts of `text` that look like credentials by asterisks."""
    return _CREDENTIAL.sub("***", text)


def redact_name(text: str) -> str:
    """Replace parts of a market's name that look like credentials. Parts in capitals are kept, because they may be tickers."""
    return _CREDENTIAL.sub(lambda match: match[0] if match[0].isupper() else "***", text)


def is_credential_name(name: str) -> bool:
    """Return True if a field of this name usually contains a credential."""
    return name.lower().replace("-", "_") in CREDENTIAL_NAMES


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can express and UTF-8 cannot, by question marks."""
    return text.encode(errors="replace").decode()


def one_line(text: str, most: int | None = None) -> str:
    """Convert text to one line, shortened to `most` characters. Unprintable characters become spaces."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def visible(text: str, allowed: str = "") -> str:
    """Replace control characters, except those in `allowed`, by symbols such as `␛` for an escape."""
    return text if text.isprintable() else "".join(letter if letter in allowed else _sign(letter) for letter in text)


def _sign(letter: str) -> str:
    if letter < " ":
        return chr(ord("\N{SYMBOL FOR NULL}") + ord(letter))
    # Controls, marks that turn the direction of writing, separators of lines, and what no terminal can show.
    return letter if unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else "\N{REPLACEMENT CHARACTER}"
