"""Long work of the lake: a backfill by several processes with concurrent readers, and memory that is returned to the system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bellwether.lake import parquet

MEGABYTE = 2**20


def resident() -> int:
    """Return this process's resident memory in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux" or parquet._malloc_trim() is None, reason="needs Linux and glibc")
def test_what_is_free_in_the_heap_is_given_back_after_large_work_only() -> None:
    # Blocks too small for individual mappings. The last one stays, so that the heap cannot shrink automatically.
    blocks = [b"x" * 100_000 for _ in range(2_000)]
    blocks[:-1] = []
    held = resident()
    parquet.release_memory(parquet.LARGE - 1)
    assert resident() > held - 20 * MEGABYTE
    parquet.release_memory(parquet.LARGE)
    assert resident() < held - 150 * MEGABYTE
