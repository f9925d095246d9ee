"""Conversion of values in Polymarket's JSON: lists inside strings, numbers as text, and names in camel case."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import polars as pl

from bellwether.tables.schema import EXACT_PRICE, SIZE, USDC
from bellwether.venues.wire.columns import Record, Typed, WireColumns
from bellwether.venues.wire.shapes import DecimalRule, ObjectShape, format_number

#: Decimals of columns of prices and amounts. Further decimals are truncated instead of rounded, so that no price becomes 1.
PRICE_PLACES, USDC_PLACES = 20, 6
#: Largest absolute exponent that is written as plain text; 1e999999999 would fill the memory.
_MOST_POWER = 400

#: Patterns of ids that the venue accepts. Condition ids of Protocol V2 may have 62 digits.
ID, CONDITION_ID = r"^[0-9]{1,90}$", r"^0x(?:[0-9a-fA-F]{62}|[0-9a-fA-F]{64})$"

E = TypeVar("E", pl.Series, pl.Expr)

_SHORT_ZONE = re.compile(r"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d)$")


def to_plain_decimal(value: Any, places: int) -> Any:
    """Convert a number or numeric text to decimal text, truncated after `places` decimals; return other values unchanged."""
    text = format_number(value) if type(value) in (int, float) else value
    if type(text) is not str:
        return value
    if "e" in text or "E" in text:
        try:
            number = Decimal(text)
        except InvalidOperation:
            return value
        if abs(number.adjusted()) > _MOST_POWER:
            return value
        text = format(number, "f")
    whole, dot, decimals = text.partition(".")
    return f"{whole}.{decimals[:places]}" if dot and decimals.isascii() and decimals.isdigit() else text


def _decimal(dtype: pl.DataType, digits: int, places: int, highest: int) -> DecimalRule:
    return DecimalRule(
        "",
        lambda value: to_plain_decimal(value, places),
        rf"^-?[0-9]{{1,{digits}}}(\.[0-9]{{1,{places}}})?$",
        dtype,
        f"not a decimal of at most {digits} digits and {places} decimals",
        highest,
        numbers=(int, float),
    )


PRICE = _decimal(EXACT_PRICE, 4, PRICE_PLACES, 1)
#: A quote at 0 or 1 is a missing quote; a trade at 0 means that nothing traded.
QUOTE = replace(PRICE, absent=(0, 1))
TRADE = replace(PRICE, absent=(0,))
AMOUNT = _decimal(USDC, 18, USDC_PLACES, 10**18)
ORDER_SIZE = _decimal(SIZE, 16, 2, 10**16)
RATIO = _decimal(pl.Decimal(10, 6), 4, 6, 9999)
BASIS_POINTS = DecimalRule("", format_number, r"^[0-9]{1,9}$", pl.Int64(), "not a whole number of basis points", 10**9)


def unpack_list(value: Any) -> Any:
    """Parse a JSON list inside a text, with numbers as text; return lists and other values unchanged, and None for an empty text.

    Integers of any length inside a text keep their digits. A number in a real list may already have lost digits, so it stays a number.
    """
    if type(value) is str:
        try:
            value = json.loads(value, parse_int=str, parse_float=str) if value.strip() else None
        except (ValueError, RecursionError):
            return value
    return value


def unpack_ids(value: Any) -> Any:
    """Parse a JSON list of ids like `unpack_list`, and convert integers to text."""
    items = unpack_list(value)
    return [format_id(item) for item in items] if type(items) is list else items


def normalize_condition(condition: E) -> E:
    """Normalize a condition id to lower case and 64 digits; Protocol V2 may omit the last two, which are zero."""
    return condition.str.to_lowercase().str.pad_end(66, "0")


def unpack_decimals(value: Any, places: int) -> Any:
    """Parse a JSON list like `unpack_list`, and convert each element to decimal text of at most `places` decimals."""
    items = unpack_list(value)
    return [to_plain_decimal(item, places) for item in items] if type(items) is list else items


def format_time(value: Any) -> Any:
    """Convert a time to RFC 3339: 2026-07-24 00:00:16+00 becomes 2026-07-24T00:00:16+00:00."""
    return _SHORT_ZONE.sub(r"\1T\2:00", value) if type(value) is str else value


def format_id(value: Any) -> Any:
    """Convert an id to text; some responses contain it as a number."""
    return str(value) if type(value) is int else value


def take_first(value: Any) -> Any:
    """Return the first element of a list, None for an empty list, and other values unchanged."""
    return (value[0] if value else None) if type(value) is list else value


def extract_texts(value: Any, field: str) -> Any:
    """Return the texts under `field` of the objects in a list; return other values unchanged."""
    if type(value) is not list or not all(type(item) is dict for item in value):
        return value
    return [item[field] for item in value if item.get(field)]


def rename_columns(columns: WireColumns, shape: ObjectShape, names: Mapping[str, str]) -> Typed:
    """Return the typed columns of `shape`, renamed. names: column of the table -> field; other fields keep their names."""
    typed = columns.typed(shape)
    fields = {field: column for column, field in names.items()}
    return {fields.get(field, field): series for field, series in typed.items()}


def parse_price_lists(columns: WireColumns, field: str, texts: pl.Series) -> pl.Series:
    """Parse lists of decimal texts into lists of prices in [0, 1]; invalid lists are noted as problems of `field`."""
    fits = texts.list.eval(pl.element().str.contains(PRICE.pattern)).list.all()
    columns.note_where(~fits, field, f"a price in it is {PRICE.unfit}")
    lists = texts.zip_with(fits, pl.Series([[]], dtype=texts.dtype)).cast(pl.List(EXACT_PRICE))
    columns.note_where(~lists.list.eval(pl.element().is_between(0, 1)).list.all(), field, "a price in it lies outside [0, 1]")
    return lists


def prepare_records(records: Sequence[Record], **readers: Any) -> list[Record]:
    """Return copies of `records` with converted fields. readers: conversion by name of the field."""
    return [{**record, **{name: read(record.get(name)) for name, read in readers.items()}} if record else record for record in records]
