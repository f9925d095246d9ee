"""Callbacks of compiled agents: compiled by themselves, and called by their addresses between decisions."""

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

from bellwether.replay.engine.arena import W_CALLBACKS, W_PARAMS
from bellwether.replay.engine.compiling import address_of
from bellwether.replay.engine.words import array_at

_SIM = types.Array(types.int64, 1, "C")


def _call(typing: Any, sim: Any, what: Any, number: Any) -> Any:
    """Call the callback `what` with the words, the strategy's parameters and a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state, callback, index = arguments
        words = context.make_array(_SIM)(context, builder, state).data
        address = builder.load(builder.gep(words, [builder.add(callback, callback.type(W_CALLBACKS))]))
        params = array_at(context, builder, words, W_PARAMS, _SIM)
        value = context.get_value_type(_SIM)
        kind = ir.FunctionType(context.get_value_type(types.void), [value, value, index.type])
        builder.call(builder.inttoptr(address, kind.as_pointer()), [state, params, index])
        return context.get_dummy_value()

    return types.void(_SIM, types.int64, types.int64), generate


#: Parameters of any type are passed as an array of whole numbers: an address and a length, whose meaning the callback knows.
call: Any = intrinsic(_call)


@cache
def _address(function: Callable[..., Any], params: Any) -> int:
    return address_of(function, signature(types.void, _SIM, params, types.int64), alone=True)


def addresses(callbacks: Sequence[Any], params: np.ndarray) -> np.ndarray:
    """int64[n]: where functions made by `@strategy` lie, compiled now or loaded from the cache; 0 for None. params: what they will get as `params`."""
    return np.array([0 if callback is None else _address(callback.py_func, typeof(params)) for callback in callbacks], np.int64)


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
