"""Columns of integers and texts that grow by appending, with a few bytes per value, and become arrays at the end."""

from __future__ import annotations

from array import array

import numpy as np
import pyarrow as pa

#: Columns of book rows: place of the frame's time, its ordinal, ticker code, kind, side (0 yes, 1 no, -1 none), price, lots (-1: not a level).
BOOK = ("time", "ordinal", "ticker", "kind", "side", "price", "lots")
#: Columns of trades: side is the taker's, price the price of YES.
TRADES = ("time", "ordinal", "ticker", "side", "price", "lots")
#: Kinds of book rows.
LEVEL, SNAPSHOT_START, INVALID = range(3)


class Rows:
    """Rows of integers, eight bytes per value."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._values = array("q")
        self.add = self._values.extend

    def __len__(self) -> int:
        return len(self._values) // len(self._columns)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values by column, int64[rows] each. No rows can be added while the arrays are in use."""
        table = np.frombuffer(self._values, np.int64).reshape(-1, len(self._columns))
        return {name: table[:, place] for place, name in enumerate(self._columns)}


class Texts:
    """Column of texts, stored in one buffer."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])

    def add(self, text: str) -> None:
        """Append a text."""
        self._bytes += text.encode()
        self._ends.append(len(self._bytes))

    def arrow(self) -> pa.Array:
        """Return the texts as an Arrow large_string array."""
        return pa.LargeStringArray.from_buffers(len(self._ends) - 1, pa.py_buffer(self._ends), pa.py_buffer(self._bytes))
