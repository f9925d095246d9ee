"""Compilation of the engine: functions are parts of one entry, cached on disk by their sources.

numba compares a cached function with the file it stands in alone. Compiled code holds what it calls, though, so a change of another module would go
unnoticed: the digest of all sources of the engine, and of those whose constants it holds, is part of what a cached function is compared with.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.ccallback import CFunc

from bellwether.replay import units
from bellwether.replay.engine.linking import pipelines, without_literals
from bellwether.replay.rules import terms
from bellwether.replay.tape import layout


def _digest() -> str:
    files = [*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(module.__file__)) for module in (terms, layout, units))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SOURCES = _digest()

#: Without the GIL, and without counting references, which costs more than a function that allocates nothing.
_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
#: On disk, for calls from Python and from compiled code.
_KEPT: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
#: How parts and entries are compiled, or None for numba's own way.
_PART, _ENTRY = pipelines()


class Part:
    """A function that compiled code calls. It is compiled within its callers only; called from Python, it is compiled by itself, and cached."""

    def __init__(self, function: Callable[..., Any], *, forceinline: bool = False) -> None:
        self.py_func = function
        self._part: Any = njit(**_PLAIN, forceinline=forceinline, **({"pipeline_class": _PART} if _PART else {"cache": True}))(function)
        stamped(self._part)
        if _PART:
            without_literals(self._part)

    @property
    def _numba_type_(self) -> Any:
        return self._part._numba_type_

    @cached_property
    def _alone(self) -> Any:
        return compiled_alone(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Call it from Python, outside of compiled code."""
        return self._alone(*arguments)


def compiled(function: Callable[..., Any]) -> Any:
    """Make a function a part of what calls it."""
    return Part(function)


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, at each place of a call: a call hands over some thirty words for the engine's arrays."""
    return Part(function, forceinline=True)


def compiled_alone(function: Callable[..., Any]) -> Any:
    """Compile on first use: cached, without the GIL, and without counting references."""
    return stamped(njit(**_PLAIN, **_KEPT)(function))


def compiled_allocating(function: Callable[..., Any]) -> Any:
    """Compile on first use a function that makes arrays: cached, without the GIL."""
    return stamped(njit(nogil=True, **_KEPT)(function))


def address_of(function: Callable[..., Any], signature: Any, *, alone: bool = False) -> int:
    """Address of a function as C would call it, compiled now or loaded from the cache; the caller keeps it from being asked for twice. alone: it is no
    entry of the engine.
    """
    options = {"pipeline_class": _ENTRY} if _ENTRY and not alone else {}
    entry = CFunc(function, (signature.args, signature.return_type), {}, {**_PLAIN, "nopython": True}, **options)
    entry.enable_caching()
    with _collector_paused():
        stamped(entry).compile()
    (_callbacks if alone else _entries).append(entry)
    address: Any = entry.address
    return int(address)


#: Compiled code whose address was given away lives as long as the process.
_entries: list[CFunc] = []
_callbacks: list[CFunc] = []


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Looking through the compiler's objects again and again takes a tenth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def stamped(dispatcher: Any) -> Any:
    """Tie a compiled function's cache to the engine's sources; a function that is not cached is left as it is."""
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    stamp = getattr(cache_file, "_source_stamp", None)
    if stamp is not None and not (isinstance(stamp, tuple) and stamp[-1] == SOURCES):
        cache_file._source_stamp = (stamp, SOURCES)
    return dispatcher
