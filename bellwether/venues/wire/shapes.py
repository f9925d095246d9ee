"""Shapes of objects on the wire: their fields, the kinds of the fields, and the valid values of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def format_number(number: float) -> str:
    """Format a JSON number as plain decimal text: 0.5 -> "0.5", 1e-05 -> "0.00001"."""
    return format(Decimal(repr(number)), "f")


@dataclass(frozen=True, slots=True)
class DecimalRule:
    """Format of a decimal on the wire.

    suffix: the field `X` + suffix contains it as a string; if that is null, `X` does, as a string (in /historical) or as a JSON number of
    one of the types `numbers`, which `text` converts to the string. pattern: the strings that fit `dtype` exactly. highest: the largest
    valid value; the smallest is 0. absent: values that represent a missing value.
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
    """Typed fields of one kind of object, by kind.

    tickers: text that every object must have and that may be an element of a list of tickers. texts: text as sent. text_lists: lists of
    texts, null for an empty one. times: column -> field with an RFC 3339 time. decimals: field (without suffix) -> rule. flags: truth
    values. numbers: JSON numbers, stored as Float64. objects: any value, stored as JSON text.
    """

    tickers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    text_lists: tuple[str, ...] = ()
    times: Mapping[str, str] = field(default_factory=dict)
    decimals: Mapping[str, DecimalRule] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
