"""Compilation of the engine by numba, cached on disk by the sources of all that compiled code contains.

numba compares a cached function with its own file alone, but compiled code contains what it calls. So the cache lies in a folder that is named after
the digest of the engine's sources, below numba's own cache folder or the user's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import cfunc, njit
from numba.core import config
from platformdirs import user_cache_path

from bellwether.replay import units
from bellwether.replay.rules import terms
from bellwether.replay.tape import layout

#: Without the GIL, and without counting references: the engine allocates nothing.
_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def _digest() -> str:
    files = [*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(module.__file__)) for module in (terms, layout, units))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SOURCES = _digest()


def _use_own_cache() -> None:
    """Have numba cache below a folder of this version of the sources: the user's choice, else the package's, else the user's cache."""
    settings: Any = config
    chosen = settings.CACHE_DIR
    if Path(chosen).name == SOURCES[:16]:
        return
    own = Path(__file__).parent / "__pycache__"
    own.mkdir(exist_ok=True) if os.access(own.parent, os.W_OK) else None
    root = Path(chosen) if chosen else own if os.access(own, os.W_OK) else user_cache_path("bellwether")
    settings.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(root / SOURCES[:16])


_use_own_cache()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function as a part of those that call it."""
    return njit(**_PLAIN)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, repeated at each place of a call."""
    return njit(**_PLAIN, forceinline=True)(function)


def compiled_alone(function: Callable[..., Any]) -> Any:
    """Compile on first use, with the result on disk."""
    return njit(**_PLAIN, cache=True)(function)


def compiled_allocating(function: Callable[..., Any]) -> Any:
    """As `compiled_alone`, for a function that makes arrays."""
    return njit(nogil=True, cache=True)(function)


def address_of(function: Callable[..., Any], signature: Any) -> int:
    """Address of a function for calls from C, compiled now or loaded from disk; the caller asks once for each function."""
    entry = cfunc(signature, **_PLAIN, cache=True)(function)
    _entries.append(entry)
    address: Any = entry.address
    return int(address)


#: Compiled code whose address was given away lives as long as the process.
_entries: list[Any] = []
