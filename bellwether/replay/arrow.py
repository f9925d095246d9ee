"""Conversions between numpy and Arrow without copying. pyarrow's own conversions import pandas, which takes longer than a replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def values_of(array: Any) -> np.ndarray:
    """Return an Arrow array of integers or floats as a numpy array that shares its memory. The array must have no nulls."""
    kind = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    dtype = np.dtype(f"{kind}{array.type.bit_width // 8}")
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def texts_of(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets, int64[n + 1], and the bytes, uint8, of Arrow strings. The array must have no nulls."""
    array = array.cast(pa.large_string())
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    return offsets, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def first_null(array: Any) -> int:
    """Return the index of the first null of an Arrow array; -1 without a null."""
    return int(pc.index(array.is_null(), True).as_py()) if array.null_count else -1
