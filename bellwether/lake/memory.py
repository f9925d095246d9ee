"""Release of memory that allocators keep after large pieces of work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

#: Minimum number of bytes read or written for which a release is worth its time.
LARGE = 2 * 2**20


def release_memory(worked_on: int) -> None:
    """Release free memory of Arrow's pool and of the heap to the system after work on `worked_on` bytes. Takes milliseconds.

    Otherwise fragmented memory is kept, and a process that works on one day after another grows.
    """
    if worked_on >= LARGE:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
        trim = _malloc_trim()
        if trim is not None:
            trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`; None if the C library is another one."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
