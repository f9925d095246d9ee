"""Declaration of the fields of JSON objects: their types and valid values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def format_number(number: float) -> str:
    """Format a number as decimal text without an exponent: 1e-05 -> "0.00001"."""
    return format(Decimal(repr(number)), "f")


@dataclass(frozen=True, slots=True)
class DecimalRule:
    """Format of a decimal field in JSON, and its valid values. The number is text in the field with a suffix, or a number or text in the
    field without it.

    suffix: `X` + suffix contains the number as a string. If that is null, `X` contains it, as a string or as a number of one of the types
    `numbers`, which `text` converts to a string. pattern: strings that fit `dtype` exactly. unfit: reason of the reject for other strings.
    highest: largest valid value; the smallest is 0. absent: values that mean a missing value.
    """

    suffix: str
    text: Callable[[Any], str]
    pattern: str
    dtype: pl.DataType
    unfit: str
    highest: int
    numbers: tuple[type, ...] = (int,)
    absent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Names of the fields that a JSON object has, grouped by type.

    tickers: required ids that may be elements of a comma-separated list. texts: verbatim text. text_lists: lists of texts, empty for null.
    times: column -> field with an RFC 3339 time. decimals: field (without suffix) -> rule. flags: booleans. numbers: JSON numbers, stored as
    Float64. objects: any value, stored as JSON text.
    """

    tickers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    text_lists: tuple[str, ...] = ()
    times: Mapping[str, str] = field(default_factory=dict)
    decimals: Mapping[str, DecimalRule] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
