"""Packed events, and tapes made by hand."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from bellwether.replay.tape import Tape
from bellwether.replay.tape.layout import MAX_LOTS, PRICES, pack, unpack


def test_fields_lie_where_the_layout_says() -> None:
    assert pack(2, 0, 0, 0, 0) == 2
    assert pack(0, 0, 1, 0, 0) == 1 << 4
    assert pack(0, 0, 0, 1, 0) == 1 << 5
    assert pack(0, 1, 0, 0, 0) == 1 << 15
    assert pack(0, 0, 0, 0, 1) == 1 << 29


def test_compiled_code_packs_alike() -> None:
    compiled = numba.njit(lambda word: pack(*unpack(word)))
    word = pack(2, 7, 1, 999, MAX_LOTS)
    assert compiled(word) == word


def tape(**changes: object) -> Tape:
    return Tape(**{"ts": [1, 2], "event": [0, 1], "tickers": ("A", "B"), "start": 0, "end": 9, **changes})  # type: ignore[arg-type]


def test_all_arrays_are_of_one_type_to_compiled_code() -> None:
    strided = np.arange(4)[::2]
    made = tape(ts=strided, event=strided.astype(np.int32))
    assert {str(numba.typeof(values)) for values in (made.ts, made.event, made.rows_ts, made.rows_end)} == {"readonly array(int64, 1d, C)"}
    with pytest.raises(ValueError, match="read-only"):
        made.event[0] = 5


@pytest.mark.parametrize("changes", [{"ts": [1]}, {"rows_ts": [1]}, {"grid": np.ones((1, PRICES), np.uint8)}, {"fees": np.zeros((2, 3))}])
def test_columns_that_do_not_fit_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"differ in length|do not fit"):
        tape(**changes)
