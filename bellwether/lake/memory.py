"""Release of memory that allocators keep for reuse after large amounts of data were processed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

#: Minimum number of bytes read or written for which a release is worth its time.
LARGE = 2 * 2**20


def release_memory(processed: int) -> None:
    """Return unused memory of Arrow and of the C heap to the system. processed: bytes handled by the caller; nothing happens below `LARGE`.

    Otherwise a process that handles one day after another grows. Takes milliseconds.
    """
    if processed >= LARGE:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
        trim = _malloc_trim()
        if trim is not None:
            trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's function `malloc_trim`, which releases unused heap; None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
