"""How the engine's functions are compiled: cached on disk, without the GIL, and never from a cache of other sources.

numba compares a cached function with the file it stands in alone. Compiled code holds what it calls, though, so a change of another module would go
unnoticed: the digest of all sources of the engine, and of those whose constants it holds, is part of what a cached function is compared with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from bellwether.replay import units
from bellwether.replay.rules import terms
from bellwether.replay.tape import layout


def _digest() -> str:
    files = [*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(module.__file__)) for module in (terms, layout, units))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SOURCES = _digest()

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile on first use: cached, without the GIL, and without counting references, which costs more than a function that allocates nothing."""
    return stamped(njit(**_PLAIN)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, but made part of each caller: a call hands over some thirty words for the engine's arrays."""
    return stamped(njit(**_PLAIN, forceinline=True)(function))


def compiled_allocating(function: Callable[..., Any]) -> Any:
    """Compile on first use a function that makes arrays: cached, without the GIL."""
    return stamped(njit(cache=True, nogil=True)(function))


def stamped(dispatcher: Any) -> Any:
    """Tie a compiled function's cache to the engine's sources; a function that is not cached is left as it is."""
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    stamp = getattr(cache_file, "_source_stamp", None)
    if stamp is not None and not (isinstance(stamp, tuple) and stamp[-1] == SOURCES):
        cache_file._source_stamp = (stamp, SOURCES)
    return dispatcher
