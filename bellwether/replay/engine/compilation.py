"""Compilation of the engine by numba, cached on disk under a digest of the sources.

numba checks a cached function against its own file only, but compiled code contains the functions that it calls. The cache is therefore a
folder named by the digest of the engine's sources, below numba's own cache folder or the user's.
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
from bellwether.replay.rules import fees as fee_formulas
from bellwether.replay.tape import layout

#: Without the GIL and without reference counts: the engine allocates nothing.
_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
#: Of functions that Python does not call.
_INNER = {**_PLAIN, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _digest() -> str:
    """Compute the SHA-256, in hex, of all sources that the engine's compiled code contains."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(module.__file__)) for module in (fee_formulas, layout, units))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SOURCES = _digest()


def _use_own_cache() -> None:
    """Point numba's cache to a folder of this source version: below the configured folder, the package's, or the user's cache."""
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
    """Compile a function that only other compiled functions call.

    numba compiles a function again for every constant among its arguments. Constants are therefore `np.int64`, which have no such types.
    """
    return njit(**_INNER)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile like `compiled`, and inline the function at each call."""
    return njit(**_INNER, forceinline=True)(function)


def compiled_alone(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, at its first call, and cache the result on disk."""
    return njit(**_PLAIN, cache=True)(function)


def compiled_allocating(function: Callable[..., Any]) -> Any:
    """Compile like `compiled_alone`, with support for allocating arrays."""
    return njit(nogil=True, cache=True)(function)


def address_of(function: Callable[..., Any], signature: Any) -> int:
    """Compile a function, or load it from disk, and return the address at which C code can call it. Call this once per function."""
    entry = cfunc(signature, **_PLAIN, cache=True)(function)
    _entries.append(entry)
    address: Any = entry.address
    return int(address)


#: Keeps compiled functions alive as long as the process, since their addresses are in use.
_entries: list[Any] = []
