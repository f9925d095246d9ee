"""Memory is returned to the system after large work."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bellwether.lake import Lake, memory
from bellwether.tables.raw import POLYMARKET_PRICES

MEGABYTE = 2**20


def resident() -> int:
    """Return this process's resident memory in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux" or memory._malloc_trim() is None, reason="needs Linux and glibc")
def test_what_is_free_in_the_heap_is_given_back_after_large_work_only() -> None:
    # Blocks too small for individual mappings. The last one stays, so that the heap cannot shrink automatically.
    blocks = [b"x" * 100_000 for _ in range(2_000)]
    blocks[:-1] = []
    held = resident()
    memory.release_memory(memory.LARGE - 1)
    assert resident() > held - 20 * MEGABYTE
    memory.release_memory(memory.LARGE)
    assert resident() < held - 150 * MEGABYTE


def test_another_c_library_has_nothing_to_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert memory._malloc_trim.__wrapped__() is None


def test_a_text_that_all_rows_of_a_stream_share_is_held_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    write = pq.ParquetWriter.write_table

    def spy(writer: pq.ParquetWriter, rows: pa.Table, **how: object) -> None:
        held.append(rows.get_total_buffer_size())
        write(writer, rows, **how)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", spy)
    call = "GET /markets/candlesticks?market_tickers=" + "KXTEST-0," * 1_000
    day, at = date(2026, 3, 2), datetime(2026, 3, 2, tzinfo=UTC)
    one = POLYMARKET_PRICES.frame(
        [
            {
                "day": day,
                "market_id": "1",
                "token_id": "9",
                "at": at,
                "price": Decimal("0.25"),
                "period_minutes": 60,
                "request": call,
                "page": 0,
                "fetched_at": at,
                "known_at": at,
            }
        ]
    )
    frames = [
        one[[0] * 1_000].with_columns(
            at=pl.lit(at) + pl.duration(seconds=pl.int_range(1_000, dtype=pl.Int64)), market_id=pl.lit(str(number))
        )
        for number in range(3)
    ]
    lake = Lake(str(tmp_path))
    lake.write(POLYMARKET_PRICES, (day.isoformat(),), iter(frames), run_id="r1")
    assert lake.slice(POLYMARKET_PRICES, [(day.isoformat(),)]).read()["request"].unique().to_list() == [call]
    assert sum(held) < 3_000 * len(call) / 10
