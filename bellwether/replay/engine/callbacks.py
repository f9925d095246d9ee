"""Callbacks of compiled agents for fills, order updates, trades, changed books and timers.

They are compiled separately and called by address between decisions. All events since the previous batch form one batch, ordered by kind;
events that the callbacks cause form the next batch. `sim` is the whole replay, the array of *words* from which compiled code finds all
others.
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

from bellwether.replay.engine.compilation import address_of, compiled, inlined
from bellwether.replay.engine.state import CALLBACK_WORDS, PARAMS_WORD, array_at, markets_of, sides_of, state_of, trades_of

#: Callbacks in the order of calls; the bits of `callbacks` are 1 << these.
ON_FILL, ON_ORDER, ON_TRADE, ON_BOOK, ON_TIMER = range(5)
#: Result of `next_callback` after the last one.
NOTHING = -1

_SIM = types.Array(types.int64, 1, "C")


def _call_callback(typing: Any, sim: Any, callback: Any, number: Any) -> Any:
    """Generate the machine code that calls a callback with the words, the strategy's parameters and the number of an event."""

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


#: Parameters of any type are passed as an array of integers, by address and length; the callback knows their type.
call: Any = intrinsic(_call_callback)


@cache
def _callback_address(function: Callable[..., Any], params: Any) -> int:
    return address_of(function, signature(types.void, _SIM, params, types.int64))


def callback_addresses(callbacks: Sequence[Any], params: np.ndarray) -> np.ndarray:
    """Compile or load `@strategy` functions and return their addresses, int64[n], 0 for None. params: array of the type they receive."""
    return np.array([0 if callback is None else _callback_address(callback.py_func, typeof(params)) for callback in callbacks], np.int64)


@inlined
def _has_callback(state, callback):
    return state.callbacks & (1 << callback) != 0


@compiled
def next_callback(sim):
    """Return which callback to call next (ON_*), or NOTHING, and set `news` to the number of its fill, update, trade or market."""
    state = state_of(sim)
    if state.step + state.at_news == 0:
        # Nothing is known before the first stop.
        return NOTHING
    callback = _next_in_batch(sim)
    return _next_in_batch(sim) if callback == NOTHING and collect_news(sim) else callback


@compiled
def _next_in_batch(sim):
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
def collect_news(sim):
    """Start a batch with the watched events since the previous batch. Returns False without such events."""
    state, trades = state_of(sim), trades_of(sim)
    has_news = False
    if _has_callback(state, ON_FILL):
        state.fills_end = state.fills_reported = state.fills
        has_news |= state.fills_at < state.fills_end
    if _has_callback(state, ON_ORDER):
        if state.update_head == state.update_tail:
            state.update_head = state.update_tail = 0
        state.update_end = state.updates_reported = state.update_tail
        has_news |= state.update_head < state.update_end
    if _has_callback(state, ON_TRADE):
        end = state.trades_end
        while end < len(trades) and trades[end].ts <= state.time:
            end += 1
        state.trades_end = end
        has_news |= state.trades_at < end
    if _has_callback(state, ON_BOOK) and _mark_changed_books(sim):
        state.books_at = 0
        has_news = True
    return has_news


@compiled
def _mark_changed_books(sim):
    """Mark the markets whose best prices changed since this function last ran. Returns False if no market did."""
    any_moved, sides = False, sides_of(sim)
    for m in range(state_of(sim).tickers):
        yes, no = sides[2 * m], sides[2 * m + 1]
        moved = yes.best != yes.reported_best or no.best != no.reported_best
        markets_of(sim)[m].moved = 1 if moved else 0
        yes.reported_best, no.reported_best = yes.best, no.best
        any_moved |= moved
    return any_moved


@contextmanager
def collect_callback_errors(stop: Callable[[], Any]) -> Iterator[list[BaseException]]:
    """Collect the errors that callbacks raise in this thread while the context is open, and call `stop` for each.

    Compiled code called by address has no Python caller, so Python treats its errors as unraisable.
    """
    raised: list[BaseException] = []
    thread, previous_hook = threading.get_ident(), sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if threading.get_ident() == thread and isinstance(unraisable.object, str) and unraisable.exc_value is not None:
            raised.append(unraisable.exc_value)
            stop()
        else:
            previous_hook(unraisable)

    sys.unraisablehook = hook
    try:
        yield raised
    finally:
        sys.unraisablehook = previous_hook
