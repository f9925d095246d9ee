"""Callbacks of compiled agents: compiled by themselves, and called by their addresses between decisions for fills, updates of orders, trades, books
that changed, and timers.

What became known since the last look is one batch, in that order; what the callbacks themselves cause is the next batch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core.typing import signature
from numba.extending import intrinsic

from bellwether.replay.engine.agent_view import rewind
from bellwether.replay.engine.compilation import address_of, compiled, inlined
from bellwether.replay.engine.memory import array_at, markets_of, seen_state_of, sides_of, state_of, trades_of
from bellwether.replay.engine.state import CALLBACK_WORDS, PARAMS_WORD

#: Callbacks, in the order of calls; the bits of `callbacks` are 1 << these.
ON_FILL, ON_ORDER, ON_TRADE, ON_BOOK, ON_TIMER = range(5)
#: Answer of `next_news` when there is no more.
NOTHING = -1

_SIM = types.Array(types.int64, 1, "C")


def _call(typing: Any, sim: Any, what: Any, number: Any) -> Any:
    """Call the callback `what` with the words, the strategy's parameters and a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state, callback, index = arguments
        words = context.make_array(_SIM)(context, builder, state).data
        address = builder.load(builder.gep(words, [builder.add(callback, callback.type(CALLBACK_WORDS))]))
        params = array_at(context, builder, words, PARAMS_WORD, _SIM)
        value = context.get_value_type(_SIM)
        kind = ir.FunctionType(context.get_value_type(types.void), [value, value, index.type])
        builder.call(builder.inttoptr(address, kind.as_pointer()), [state, params, index])
        return context.get_dummy_value()

    return types.void(_SIM, types.int64, types.int64), generate


#: Parameters of any type are passed as an array of whole numbers: an address and a length, whose meaning the callback knows.
call: Any = intrinsic(_call)


@cache
def _address(function: Callable[..., Any], params: Any) -> int:
    return address_of(function, signature(types.void, _SIM, params, types.int64))


def addresses(callbacks: Sequence[Any], params: np.ndarray) -> np.ndarray:
    """int64[n]: where functions made by `@strategy` lie, compiled now or loaded from the cache; 0 for None. params: what they will get as `params`."""
    return np.array([0 if callback is None else _address(callback.py_func, typeof(params)) for callback in callbacks], np.int64)


@inlined
def _hears(state, what):
    return state.callbacks & (1 << what) != 0


@compiled
def next_news(sim):
    """Return the next callback, with the number in `news` of a fill, an update, a trade or a market; NOTHING after the last one."""
    state = state_of(sim)
    if state.step + state.at_news == 0:
        # Before the first stop nothing is known.
        return NOTHING
    what = _next_of_batch(sim)
    return _next_of_batch(sim) if what == NOTHING and _new_batch(sim) else what


@compiled
def _next_of_batch(sim):
    state = state_of(sim)
    if state.fills_at < state.fills_end:
        state.news = state.fills_at
        state.fills_at += 1
        return ON_FILL
    if state.update_head < state.update_end:
        state.news = state.update_head
        state.update_head += 1
        return ON_ORDER
    if state.trades_at < state.trades_end:
        state.news = state.trades_at
        state.trades_at += 1
        return ON_TRADE
    while state.books_at < state.tickers:
        m = state.books_at
        state.books_at += 1
        if markets_of(sim)[m].moved == 1:
            state.news = m
            return ON_BOOK
    return NOTHING


@compiled
def _new_batch(sim):
    """Take in what is new since the last batch; whether there is anything."""
    state, seen, trades = state_of(sim), seen_state_of(sim), trades_of(sim)
    found = False
    if _hears(state, ON_FILL):
        state.fills_end = state.told = seen.fills
        found |= state.fills_at < state.fills_end
    if _hears(state, ON_ORDER):
        rewind(state, seen)
        state.update_end = state.update_told = seen.update_tail
        found |= state.update_head < state.update_end
    if _hears(state, ON_TRADE):
        end = state.trades_end
        # Where decisions stand before the prints of their instant, these are not known yet.
        last = state.time - (1 if state.by_rows == 1 and state.at_news == 0 else 0)
        while end < len(trades) and trades[end].ts <= last:
            end += 1
        state.trades_end = end
        found |= state.trades_at < end
    if _hears(state, ON_BOOK) and _books_moved(sim):
        state.books_at = 0
        found = True
    return found


@compiled
def _books_moved(sim):
    """Mark the markets whose best prices are not those of the last call; whether there are any."""
    found, sides = False, sides_of(sim)
    for m in range(state_of(sim).tickers):
        yes, no = sides[2 * m], sides[2 * m + 1]
        moved = yes.best != yes.told or no.best != no.told
        markets_of(sim)[m].moved = 1 if moved else 0
        yes.told, no.told = yes.best, no.best
        found |= moved
    return found


@contextmanager
def errors_of_callbacks(stop: Callable[[], Any]) -> Iterator[list[BaseException]]:
    """The errors that callbacks raise in this thread while it is open; `stop` is called at each.

    Compiled code that was called by its address has nobody to hand an error to, so Python treats it as one that cannot be raised.
    """
    raised: list[BaseException] = []
    here, before = threading.get_ident(), sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if threading.get_ident() == here and isinstance(unraisable.object, str) and unraisable.exc_value is not None:
            raised.append(unraisable.exc_value)
            stop()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield raised
    finally:
        sys.unraisablehook = before
