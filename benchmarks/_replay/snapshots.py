"""Synthetic episode in PredictionMarketBench's format, as large as its published ones together: full snapshots of books in whole cents, trades and
settlements.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

#: Rows of the four published episodes together.
BOOK_ROWS, TRADES, TICKERS = 378_596, 297_273, 33
_DEPTH = 25
_START = datetime(2026, 1, 20, tzinfo=UTC)
_SPAN = timedelta(hours=37)
_BATCH = 20_000


def write_snapshots(folder: Path, *, rows: int = BOOK_ROWS, trades: int = TRADES, tickers: int = TICKERS, seed: int = 7) -> Path:
    """Write the synthetic episode, with 25 levels on each side of every row, and return its folder. Equal seeds give equal content."""
    generator = np.random.default_rng(seed)
    names = [f"SYN-T{code:02d}" for code in range(tickers)]
    folder.mkdir(parents=True, exist_ok=True)
    ticker = generator.integers(0, tickers, rows)
    at = np.sort(generator.integers(0, int(_SPAN.total_seconds() * 10**6), rows)) * 1000
    prices, sizes = _books(ticker, generator.integers(0, 50, (rows, 4)), generator.integers(1, 5_000, rows), tickers, _DEPTH)
    level = pa.struct([("price_cents", pa.int64()), ("size", pa.int64())])
    schema = pa.schema(
        [("ts", pa.timestamp("ns", "UTC")), ("sequence_id", pa.int64()), ("ticker", pa.string())]
        + [(f"{side}_bids", pa.list_(level)) for side in ("yes", "no")]
    )
    base = int(_START.timestamp()) * 10**9
    with pq.ParquetWriter(folder / "orderbook.parquet", schema, compression="zstd") as writer:
        for first in range(0, rows, _BATCH):
            part = slice(first, min(first + _BATCH, rows))
            count = part.stop - first
            offsets = pa.array(np.arange(0, (count + 1) * _DEPTH, _DEPTH), pa.int32())
            sides = [
                pa.ListArray.from_arrays(
                    offsets,
                    pa.StructArray.from_arrays(
                        [pa.array(prices[part, side].ravel()), pa.array(sizes[part, side].ravel())], fields=list(level)
                    ),
                )
                for side in range(2)
            ]
            columns = [
                pa.array(base + at[part]).cast(schema.field(0).type),
                pa.array(np.arange(first, part.stop)),
                pa.array([names[code] for code in ticker[part]]),
            ]
            writer.write_table(pa.Table.from_arrays([*columns, *sides], schema=schema))
    _write_trades(folder, generator, names, trades, base)
    end = _START + _SPAN
    settled = {
        name: {"result": "YES" if not code else "NO", "settled_ts": (end + timedelta(hours=1)).isoformat()}
        for code, name in enumerate(names)
    }
    (folder / "settlement.json").write_text(json.dumps(settled))
    metadata = {
        "episode_id": folder.name,
        "event_slug": folder.name,
        "tickers": names,
        "start_ts": _START.isoformat(),
        "end_ts": (end + timedelta(hours=1)).isoformat(),
        "initial_bankroll_cents": 100_000,
        "fee_model_version": "kalshi_oct_2025",
        "execution_mode": "maker_taker",
        "observation_depth": -1,
        "has_trades_tape": True,
        "description": "a synthetic episode",
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    return folder


def _write_trades(folder: Path, generator: np.random.Generator, names: list[str], trades: int, base: int) -> None:
    at = np.sort(generator.integers(0, int(_SPAN.total_seconds() * 10**6), trades)) * 1000
    columns = {
        "ts": pa.array(base + at).cast(pa.timestamp("ns", "UTC")),
        "trade_id": [f"t{index}" for index in range(trades)],
        "ticker": [names[code] for code in generator.integers(0, len(names), trades)],
        "side": ["yes"] * trades,
        "taker_side": [("yes", "no")[code] for code in generator.integers(0, 2, trades)],
        "price_cents": pa.array(generator.integers(40, 60, trades)),
        "count": pa.array(generator.integers(1, 200, trades)),
    }
    pq.write_table(pa.table(columns), folder / "trades.parquet", compression="zstd")


@njit(cache=True)
def _books(ticker, draws, size, tickers, depth):
    """Generate prices and sizes of `depth` levels per row and side. From row to row one level changes, and sometimes the best price."""
    prices = np.zeros((len(ticker), 2, depth), np.int64)
    sizes = np.zeros_like(prices)
    top = np.full((tickers, 2), 49, np.int64)
    book = np.full((tickers, 2, 128), 100, np.int64)
    for i in range(len(ticker)):
        code, side = ticker[i], draws[i, 0] & 1
        book[code, side, top[code, side] - draws[i, 1] % depth] = size[i]
        if draws[i, 2] == 0 and top[code, side] < 70 and top[code, 0] + top[code, 1] < 98:
            top[code, side] += 1
        elif draws[i, 2] == 1 and top[code, side] > depth + 2:
            top[code, side] -= 1
        for s in range(2):
            for d in range(depth):
                prices[i, s, d] = top[code, s] - d
                sizes[i, s, d] = book[code, s, top[code, s] - d]
    return prices, sizes
