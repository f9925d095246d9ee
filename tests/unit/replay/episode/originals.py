"""One small episode in the original's format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.unit.replay.episode.folders import TIME, at

TICKERS = ["KXT-A", "KXT-B"]
#: seconds, sequence, ticker, YES bids, NO bids: cents and contracts
ROWS: list[tuple[float, int, str, list[tuple[int, int]], list[tuple[int, int]]]] = [
    (0, 10, "KXT-A", [(45, 100), (40, 200)], [(52, 50), (50, 150)]),
    (0, 11, "KXT-B", [], [(95, 100)]),
    (5, 12, "KXT-A", [(40, 200), (45, 70)], [(52, 50), (50, 150)]),
    (6, 13, "KXT-A", [(40, 200), (45, 70)], [(52, 50), (50, 150)]),
    (7, 14, "KXT-A", [(45, 70)], [(50, 150)]),
    (9, 15, "KXT-B", [], []),
]
#: seconds, id, ticker, taker, price on the taker's side, contracts
TRADES = [(5, "a", "KXT-A", "no", 55, 30), (7, "b", "KXT-A", "yes", 48, 50), (9, "c", "KXT-B", "yes", 5, 100)]


Levels = list[tuple[int, int]]


def write_metadata(folder: Path, tickers: list[str], settled: dict[str, Any], *, end: str = "2026-01-20T00:10:00.395561+00:00") -> None:
    """Write metadata.json and settlement.json."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata: dict[str, Any] = {
        "episode_id": "KXT",
        "event_slug": "KXT",
        "tickers": tickers,
        "start_ts": "2026-01-20T00:00:00+00:00",
        "end_ts": end,
        "initial_bankroll_cents": 100_000,
        "fee_model_version": "kalshi_oct_2025",
        "execution_mode": "maker_taker",
        "observation_depth": -1,
        "has_trades_tape": True,
        "description": "Episode for KXT",
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    (folder / "settlement.json").write_text(json.dumps(settled))


def _described(folder: Path) -> None:
    settled: dict[str, Any] = {
        "KXT-A": {"result": "YES", "settled_ts": "2026-01-20T00:09:00+00:00"},
        "KXT-B": {"result": None, "settled_ts": None},
    }
    write_metadata(folder, TICKERS, settled)


def levels_of(levels: Levels) -> list[dict[str, Any]]:
    return [{"price_cents": cents, "size": size} for cents, size in levels]


def trade_table(trades: list[tuple[float, str, str, str, int, int]]) -> pa.Table:
    seconds, ids, tickers, takers, prices, counts = zip(*trades, strict=True)
    return pa.table(
        {
            "ts": pa.array([at(second) for second in seconds]).view(TIME),
            "trade_id": list(ids),
            "ticker": list(tickers),
            "side": ["yes"] * len(ids),
            "taker_side": list(takers),
            "price_cents": list(prices),
            "count": list(counts),
        }
    )


def _trades() -> pa.Table:
    return trade_table(TRADES)


def book_table(rows: list[tuple[float, int, str, Levels, Levels]], form: Callable[[Levels], Any], kind: pa.DataType) -> pa.Table:
    seconds, sequence, tickers, yes, no = zip(*rows, strict=True)
    return pa.table(
        {
            "ts": pa.array([at(second) for second in seconds]).view(TIME),
            "sequence_id": list(sequence),
            "ticker": list(tickers),
            "yes_bids": pa.array([form(levels) for levels in yes], kind),
            "no_bids": pa.array([form(levels) for levels in no], kind),
        }
    )


def _book(form: Callable[[Levels], Any], kind: pa.DataType) -> pa.Table:
    return book_table(ROWS, form, kind)


def struct_of(price: str, number: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([(price, number), ("size", pa.int64())]))


def structs(folder: Path) -> None:
    _described(folder)
    pq.write_table(_book(levels_of, struct_of("price_cents", pa.int64())), folder / "orderbook.parquet")
    pq.write_table(_trades(), folder / "trades.parquet")


def small_integers(folder: Path) -> None:
    """Fields in another order, and further ones."""
    _described(folder)
    fields = [("size", pa.int16()), ("note", pa.string()), ("price_cents", pa.int8())]
    table = _book(lambda levels: [{"note": "", **level} for level in levels_of(levels)], pa.large_list(pa.struct(fields)))
    pq.write_table(table, folder / "orderbook.parquet", row_group_size=2, compression="gzip")
    pq.write_table(_trades(), folder / "trades.parquet")
