"""Compiled: the words that stand for a replay, how compiled code reads its arrays by them, and how it calls the engine.

Strategies do not contain the engine: the first word is the address of its entry, so that they stay small, compile fast, and find it in each process.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic

from bellwether.replay.engine.arena import (
    W_BATCH,
    W_CORES,
    W_ENTRY,
    W_EVENT,
    W_FILLS,
    W_GRID,
    W_LEDGERS,
    W_MESSAGES,
    W_NOTED,
    W_ORDERS,
    W_SAMPLES,
    W_SCHEDULE,
    W_SEEN,
    W_SEEN_ORDERS,
    W_SERIES,
    W_TRADES,
    W_TS,
    W_UPDATES,
)
from bellwether.replay.engine.compiling import inlined

_WORD = ir.IntType(64)
_STATE, _POINTER = types.Array(types.int64, 1, "C"), types.CPointer(types.int64)
#: What the entry is for C: the words, what is asked for, and up to seven arguments of it.
ENTRY = signature(types.int64, _POINTER, *[types.int64] * 8)


def _load(typing: Any, address: Any, index: Any) -> Any:
    """The word `index` of those at `address`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.inttoptr(arguments[0], _WORD.as_pointer())
        return builder.load(builder.gep(first, [arguments[1]]))

    return types.int64(types.int64, types.int64), generate


load: Any = intrinsic(_load)


def array_at(context: Any, builder: Any, words: Any, first: int, kind: Any) -> Any:
    """The array of type `kind` whose address and shape are the words from `first` on, as a value of compiled code."""
    address, *shape = (builder.load(builder.gep(words, [_WORD(first + n)])) for n in range(kind.ndim + 1))
    strides = [_WORD(kind.dtype.bitwidth // 8)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    array = context.make_array(kind)(context, builder)
    array.data = builder.inttoptr(address, array.data.type)
    array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
    array.itemsize, array.nitems = strides[-1], reduce(builder.mul, shape)
    return array._getvalue()


def _array(first: int, item: Any, dimensions: int) -> Any:
    kind = types.Array(item, dimensions, "C")

    @intrinsic
    def array_of(typing: Any, state: Any) -> Any:
        """The array whose address and shape are the words of the state from `first` on."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return array_at(context, builder, arguments[0], first, kind)

        return kind(_POINTER), generate

    return array_of


#: The replay's arrays, each by the pointer to the words.
ts_of, event_of = _array(W_TS, types.int64, 1), _array(W_EVENT, types.int64, 1)
grid_of, schedule_of = _array(W_GRID, types.uint8, 2), _array(W_SCHEDULE, types.int64, 2)
cores_of, batch_of = _array(W_CORES, types.int64, 2), _array(W_BATCH, types.int64, 2)
orders_of, fills_of = _array(W_ORDERS, types.int64, 3), _array(W_FILLS, types.int64, 3)
samples_of, messages_of = _array(W_SAMPLES, types.int64, 3), _array(W_MESSAGES, types.int64, 3)
updates_of, noted_of = _array(W_UPDATES, types.int64, 2), _array(W_NOTED, types.int64, 2)
trades_of, ledgers_of, series_of = _array(W_TRADES, types.int64, 2), _array(W_LEDGERS, types.int64, 2), _array(W_SERIES, types.int64, 2)
seen_of, seen_orders_of = _array(W_SEEN, types.int64, 2), _array(W_SEEN_ORDERS, types.int64, 2)


def _enter(typing: Any, entry: Any, sim: Any, what: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
    """Call the entry at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state = context.make_array(_STATE)(context, builder, arguments[1]).data
        kind = ir.FunctionType(_WORD, [_WORD.as_pointer()] + [_WORD] * 8)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [state, *arguments[2:]])

    return types.int64(types.int64, _STATE, *[types.int64] * 8), generate


_enter_compiled: Any = intrinsic(_enter)


@inlined
def ask(sim, what, a, b, c, d, e, f, g):
    """Have the engine do one of `commands`."""
    return _enter_compiled(sim[W_ENTRY], sim, what, a, b, c, d, e, f, g)
