"""Reading of the levels in full-snapshot rows, stored as lists of structs or as JSON text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from bellwether.errors import SchemaError
from bellwether.replay import units
from bellwether.replay.arrow import first_null, texts_of, values_of
from bellwether.replay.episode.columns import FileColumns, first_true

#: Names of a level's price and size, with the $0.0001 and lots in one of them.
PRICES = {"price_cents": units.CENT, "price": units.CENT, "price_mills": units.MILL, "price_centicents": 1}
SIZES = {"size": units.CONTRACT, "lots": 1}


@dataclass(frozen=True, eq=False)
class Levels:
    """Price levels of one side of the book in a batch of rows, flattened to arrays of prices and sizes.

    offsets: int64[n + 1], start of each row in prices and sizes. prices, sizes: int64, in units of price_unit $0.0001 and size_unit lots.
    """

    offsets: np.ndarray
    prices: np.ndarray
    sizes: np.ndarray
    price_unit: int
    size_unit: int


def read_levels(columns: FileColumns, name: str) -> Levels:
    """Read the levels of one side from the column `name`. Raises `SchemaError` for another type, a null, or an invalid number."""
    array = columns.array(name)
    kind = array.type
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_struct(kind.value_type):
        return _read_structs(columns, name, array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _read_json_levels(columns, name, array)
    raise columns.type_error(name, "list<struct<price_cents, size>>, or JSON text of the same")


def _read_structs(columns: FileColumns, name: str, array: Any) -> Levels:
    """Read the levels from a column of lists of structs."""
    offsets = values_of(array.offsets).astype(np.int64)
    # A slice keeps all values of its array; only those of its rows count.
    low, high = int(offsets[0]), int(offsets[-1])
    lists = _Lists(columns, name, offsets - low, array.values.slice(low, high - low))
    price, size = lists.field(PRICES), lists.field(SIZES)
    prices, sizes = lists.numbers(price), lists.numbers(size)
    price_unit, size_unit = PRICES[price], SIZES[size]
    if prices.dtype.kind == "f":
        prices = lists.whole(np.where((prices >= 0) & (prices < 1), np.round(100 * prices), prices), prices, "cents, or dollars below 1")
    if sizes.dtype.kind == "f":
        sizes, size_unit = lists.whole(sizes * size_unit, sizes, "whole hundredths of a contract"), 1
    return Levels(lists.offsets, prices, sizes, price_unit, size_unit)


@dataclass(frozen=True, eq=False)
class _Lists:
    """Column of lists of structs, flattened: row i has the structs from offsets[i] to offsets[i + 1]."""

    columns: FileColumns
    name: str
    offsets: np.ndarray
    structs: Any

    def field(self, choices: dict[str, int]) -> str:
        """Return the first name in `choices` that is a field of the structs. Raises `SchemaError` if no name is."""
        fields = {field.name for field in self.structs.type}
        field = next((name for name in choices if name in fields), None)
        if field is None:
            raise self.columns.type_error(self.name, f"a list of structs with one of {', '.join(choices)}")
        return field

    def numbers(self, field: str) -> np.ndarray:
        """Read a field of all structs as int64 or float64. Raises `SchemaError` for nulls and other types."""
        child = self.structs.flatten()[self.structs.type.get_field_index(field)]
        if child.null_count:
            raise self.value_error(first_null(child), None, f"given, as is {field}")
        if pa.types.is_integer(child.type) and child.type != pa.uint64():
            return values_of(child).astype(np.int64, copy=False)
        if pa.types.is_floating(child.type) and field in ("price", "size"):
            return values_of(child).astype(np.float64, copy=False)
        raise SchemaError(f"reading {self.columns.file}: {field} in {self.name} has the type {child.type}; it must be an integer")

    def whole(self, scaled: np.ndarray, values: np.ndarray, wanted: str) -> np.ndarray:
        """Convert `scaled`, floats that must be whole, to int64. values: the numbers as read; wanted: the valid values, both for errors."""
        with np.errstate(invalid="ignore"):
            rounded = np.round(scaled)
            valid = np.isfinite(scaled) & (np.abs(scaled - rounded) < 1e-6) & (np.abs(rounded) < 2**53)
        if (position := first_true(~valid)) >= 0:
            raise self.value_error(position, float(values[position]), wanted)
        return rounded.astype(np.int64)

    def value_error(self, position: int, value: object, wanted: str) -> SchemaError:
        """Build the error for an invalid value at a position of the flattened column. wanted: description of the valid values."""
        row = int(np.searchsorted(self.offsets, position, "right")) - 1
        return self.columns.value_error(row, f"a level of {self.name}", value, wanted)


def _read_json_levels(columns: FileColumns, name: str, array: Any) -> Levels:
    """Read the levels from a column of JSON text: with Arrow if all rows are simple, otherwise with a full JSON parser."""
    try:
        prefix, suffix, empty = (pa.scalar(part, pa.large_string()) for part in ('{"levels":', "}\n", ""))
        joined = pc.binary_join_element_wise(prefix, array.cast(pa.large_string()), suffix, empty)
        offsets, text = texts_of(joined)
        buffer = pa.py_buffer(text[offsets[0] : offsets[-1]])
        options = json.ReadOptions(use_threads=False, block_size=max(len(buffer), 1))
        lists = json.read_json(buffer, options).column("levels").combine_chunks()
        if len(lists) == len(array) and not lists.null_count and pa.types.is_struct(lists.type.value_type):
            return _read_structs(columns, name, lists)
    except (pa.ArrowException, SchemaError, AttributeError):
        pass
    return _parse_rows(columns, name, array.to_pylist())


def _parse_rows(columns: FileColumns, name: str, texts: list[str]) -> Levels:
    """Parse the levels of rows of JSON with a full JSON parser. Raises `SchemaError` for an invalid row."""
    offsets, prices, sizes = [0], [], []
    for row, text in enumerate(texts):
        try:
            levels = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise columns.value_error(row, name, text, f"JSON ({error})") from None
        if not isinstance(levels, list):
            raise columns.value_error(row, name, text, "a JSON list of levels")
        for level in levels:
            price, size = _parse_level(level) if isinstance(level, dict) else (None, None)
            if price is None or size is None:
                raise columns.value_error(row, f"a level of {name}", level, "an object with a price in cents and a size in contracts")
            prices.append(price)
            sizes.append(size)
        offsets.append(len(prices))
    return Levels(np.array(offsets, np.int64), np.array(prices, np.int64), np.array(sizes, np.int64), 1, 1)


def _parse_level(level: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return (price in $0.0001, size in lots) of a level as parsed from JSON; None for an invalid number."""
    name = next((name for name in PRICES if name in level), "price")
    price = level.get(name)
    if name == "price" and isinstance(price, float) and 0 <= price < 1:
        price = round(100 * price)
    unit = next((name for name in SIZES if name in level), "size")
    return _to_integer(price, PRICES[name], 1), _to_integer(level.get(unit), SIZES[unit], SIZES[unit])


def _to_integer(value: Any, unit: int, parts: int) -> int | None:
    """Return value × unit as an integer; None if the value is not a whole multiple of 1 / parts."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**53:
        return None
    whole = round(value * parts)
    return whole * (unit // parts) if abs(value * parts - whole) < 1e-6 else None
