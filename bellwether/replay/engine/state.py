"""Memory layout of a replay: record types of its arrays, and access to the arrays in compiled code.

The *words* (`sim`) are an array that contains the address and length of every other array. Strategies do not contain the engine: they call
it by the address in the first word, so they stay small and compile fast.

Fields are int64, but for those of an order. Prices are in $0.0001, sizes in lots of 0.01 contract, money in micro-dollars, times in ns UTC. A *level* is the
number of a price in its market's list: 1 for the lowest, 0 for none; a dollar follows the highest. Level l of YES and level n + 1 - l of NO
are one price.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic

from bellwether.replay.engine.codes import FILL, ORDER, SAMPLE, TRADE, UPDATE, record
from bellwether.replay.engine.compilation import inlined
from bellwether.replay.tape.layout import FEE_COLS, UNIT_COLS

#: Infinite time, ns.
NEVER = 2**63 - 1
#: Mark of a level whose market has no book yet.
NO_BOOK_YET = 1 << 30


#: Account, clock, settings, and the number of used rows of each array.
STATE = record(
    # Clock: next event, engine time, time of the decision, decisions so far, next row of the schedule, last time of the tape.
    "cursor time now step stop last over timer timer_at",
    "tickers grid_width orders fills samples message_head message_tail full failed refused",
    # flagged: a crossing check is due. sweep: a filled order is still linked. stirred: own orders may have changed in this instant.
    "flagged sweep stirred expiry expiry_at",
    "cash fees realised reserved equity mid_equity",
    # Settings.
    "queue queue_number cancel_maker taker_only order_latency data_latency max_orders max_resting",
    # watch: bits of WATCH_*. fills_reported: fills at the last stop for news. Then the fills known at the last two decisions.
    "watch fills_reported fills_before fills_then at_news",
    # Updates are rows [update_head, update_tail); noted: orders recorded so far, of which `open` were open.
    "update_head update_tail updates_reported noted open",
    # Bits 1 << ON_* of the watched news and callbacks, and the next item of each kind in the current batch.
    "callbacks fills_at fills_end update_end trades_at trades_end books_at news",
)

#: A market. levels: n. prices, numbers, grid: first place of its levels in `prices`, of the level of each price in `numbers`, of its grid in `grids`.
MARKET = np.dtype(
    [
        *record("status levels prices numbers grid flagged realised settled paid moved").descr,
        ("fees", np.int64, (FEE_COLS,)),
        *record("min_lots lot_step fee_unit balance_unit rebate_unit rebate_above").descr,
    ]
)
assert len(MARKET.names or ()) == 11 + UNIT_COLS

#: One side of a market, at 2 x market + side. book: first place of its levels in `shown`. best: best displayed level, price: its price. meets: level
#: from which a displayed bid meets an own order of the other side. head, top: best own order, and its level; own: number of own orders. prices: as of
#: its market. quote: the order that is the side's quote. reported_best: best level that a compiled agent was last called for.
SIDE = record("book best price meets top prices head own reserve position basis reported_best quote")

#: A message in transit, with its arrival time and tape index.
MESSAGE = record("kind order price lots time at")
PLACE_MESSAGE, CANCEL_MESSAGE, AMEND_MESSAGE, CANCEL_ALL_MESSAGE = (np.int64(kind) for kind in range(4))
#: Value of an argument or a field of a message without a meaning.
UNUSED = np.int64(0)

#: An open order as of the last call of `record_updates`.
NOTED = record("order status price count filled")
STOP = record("at ts kind")
REQUEST = record("market side action price lots tif expires")

WATCH_FILLS, WATCH_ORDERS = 1, 2

_INT = np.dtype(np.int64)
#: The arrays of a replay, in the order of their words, and the type of their items.
ARRAYS: dict[str, np.dtype] = {
    "ts": _INT,
    "event": _INT,
    "prices": _INT,
    "numbers": np.dtype(np.int16),
    "grids": np.dtype(np.uint8),
    "schedule": STOP,
    "state": STATE,
    "markets": MARKET,
    "sides": SIDE,
    "shown": _INT,
    "marks": np.dtype(np.int32),
    "taken": _INT,
    "orders": ORDER,
    "fills": FILL,
    "samples": SAMPLE,
    "messages": MESSAGE,
    "batch": REQUEST,
    "updates": UPDATE,
    "noted": NOTED,
    "trades": TRADE,
}

#: Words: address of the engine's entry, address and length of each array and of a strategy's parameters, addresses of its callbacks.
ENTRY_WORD = 0
WORD_OF = {name: 1 + 2 * place for place, name in enumerate(ARRAYS)}
PARAMS_WORD = 1 + 2 * len(ARRAYS)
CALLBACK_WORDS = PARAMS_WORD + 2
WORDS = CALLBACK_WORDS + 8


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
orders_of, fills_of, samples_of = (_array_accessor(name) for name in ("orders", "fills", "samples"))
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
