"""Memory that large pieces of work leave behind in the allocators."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

#: Bytes that were read or written; after less it is not worth the time.
LARGE = 2 * 2**20


def give_back(worked_on: int) -> None:
    """After work on so many bytes: return what is free in Arrow's memory pool and in the heap to the system. Costs milliseconds.

    Both keep it otherwise, in pieces that the next work of another shape does not fit into, so that a process that works on one day after
    the other grows.
    """
    if worked_on >= LARGE:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
        trim = _trim()
        if trim is not None:
            trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """The `malloc_trim` of glibc; None with another C library."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
