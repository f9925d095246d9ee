"""Access to the arrays of a replay in compiled code, and calls of the engine from strategies.

The *words* (`sim`) are an array that contains the address and length of every other array. Strategies do not contain the engine: they call
it by the address in the first word, so they stay small and compile fast.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic

from bellwether.replay.engine.compilation import inlined
from bellwether.replay.engine.state import ARRAYS, ENTRY_WORD, WORD_OF

_WORD = ir.IntType(64)
_SIM, POINTER = types.Array(types.int64, 1, "C"), types.CPointer(types.int64)
#: C signature of the engine's entry: the words, the command, and up to seven arguments.
ENTRY = signature(types.int64, POINTER, *[types.int64] * 8)


def _words(context: Any, builder: Any, kind: Any, sim: Any) -> Any:
    """Generate the code that returns the pointer to the words, from an array or a pointer."""
    return sim if kind == POINTER else context.make_array(kind)(context, builder, sim).data


def array_at(context: Any, builder: Any, words: Any, first: int, kind: Any) -> Any:
    """Generate the one-dimensional array of type `kind` whose address and length are the words number `first` and `first` + 1."""
    address, length = (builder.load(builder.gep(words, [_WORD(first + n)])) for n in range(2))
    array = context.make_array(kind)(context, builder)
    array.data = builder.inttoptr(address, array.data.type)
    item = _WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    array.shape, array.strides = cgutils.pack_array(builder, [length]), cgutils.pack_array(builder, [item])
    array.itemsize, array.nitems = item, length
    return array._getvalue()


def _array_accessor(name: str) -> Any:
    """Create the compiled function that takes the words and returns the array `name` of the replay."""
    kind = types.Array(from_dtype(ARRAYS[name]), 1, "C")

    @intrinsic
    def array_of(typing: Any, sim: Any) -> Any:
        """Array of this name."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return array_at(context, builder, _words(context, builder, signature.args[0], arguments[0]), WORD_OF[name], kind)

        return kind(sim), generate

    return array_of


def _record_accessor(name: str) -> Any:
    """Create the compiled function that takes the words and returns the only item of the array `name`."""
    kind = from_dtype(ARRAYS[name])

    @intrinsic
    def record_of(typing: Any, sim: Any) -> Any:
        """Single item of the array of this name."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = _words(context, builder, signature.args[0], arguments[0])
            address = builder.load(builder.gep(words, [_WORD(WORD_OF[name])]))
            return builder.inttoptr(address, context.get_value_type(kind))

        return kind(sim), generate

    return record_of


state_of = _record_accessor("state")
ts_of, event_of, prices_of, numbers_of = (_array_accessor(name) for name in ("ts", "event", "prices", "numbers"))
grids_of, schedule_of = _array_accessor("grids"), _array_accessor("schedule")
markets_of, sides_of, shown_of, marks_of, taken_of = (_array_accessor(name) for name in ("markets", "sides", "shown", "marks", "taken"))
scratch_of, orders_of, fills_of, samples_of = (_array_accessor(name) for name in ("scratch", "orders", "fills", "samples"))
messages_of, batch_of, updates_of, noted_of = (_array_accessor(name) for name in ("messages", "batch", "updates", "noted"))
trades_of = _array_accessor("trades")


def _enter(typing: Any, entry: Any, sim: Any, code: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
    """Generate the machine code that calls the engine at the address `entry`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _words(context, builder, signature.args[1], arguments[1])
        kind = ir.FunctionType(_WORD, [_WORD.as_pointer()] + [_WORD] * 8)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [words, *arguments[2:]])

    return types.int64(types.int64, sim, *[types.int64] * 8), generate


_enter_compiled: Any = intrinsic(_enter)


@inlined
def call_engine(sim, code, a, b, c, d, e, f, g):
    """Run a command of the engine (`code`, see `codes`) with up to seven arguments, and return its result."""
    return _enter_compiled(sim[ENTRY_WORD], sim, code, a, b, c, d, e, f, g)
