"""Small episodes on disk, written by hand so that tests can break any part."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TIME = pa.timestamp("ns", "UTC")
START = 1_768_867_200_000_000_000
SECOND = 1_000_000_000

METADATA = {
    "format": "bellwether-episode/1",
    "episode_id": "KXTEST-26JAN20",
    "event_slug": "KXTEST-26JAN20",
    "venue": "kalshi",
    "title": "A test",
    "tickers": ["KXTEST-A", "KXTEST-B"],
    "start_ts": "2026-01-20T00:00:00Z",
    "end_ts": "2026-01-20T00:10:00Z",
    "mutually_exclusive": True,
    "initial_bankroll_cents": 50_000,
    "markets": [
        {
            "ticker": ticker,
            "title": ticker,
            "open_time": "2026-01-19T00:00:00Z",
            "close_time": "2026-01-20T00:09:00Z",
            "price_ranges": [["0", "0.1", "0.001"], ["0.1", "0.9", "0.01"], ["0.9", "1", "0.001"]],
            "fee": {"type": "quadratic", "multiplier": "1", "waiver_until": None, "source": "series"},
            "lifecycle": [{"at": "2026-01-20T00:09:00Z", "event": "close", "source": "listing"}],
        }
        for ticker in ("KXTEST-A", "KXTEST-B")
    ],
}
SETTLEMENT = {
    "KXTEST-A": {"result": "YES", "value": "1", "settled_ts": "2026-01-20T00:10:00Z", "source": "listing"},
    "KXTEST-B": {"result": "NO", "value": "0", "settled_ts": "2026-01-20T00:10:00Z", "source": "listing"},
}
#: seconds, sequence, ticker, kind, side, price, lots
BOOK = [
    (0, 1, "KXTEST-A", "snapshot_start", None, None, None),
    (0, 1, "KXTEST-A", "level", "yes", 450, 10_000),
    (0, 1, "KXTEST-A", "level", "yes", 400, 20_000),
    (0, 1, "KXTEST-A", "level", "no", 520, 5_000),
    (0, 2, "KXTEST-B", "snapshot_start", None, None, None),
    (0, 2, "KXTEST-B", "level", "no", 955, 125),
    (5, 3, "KXTEST-A", "level", "yes", 450, 7_000),
    (6, 4, "KXTEST-A", "level", "no", 520, 0),
    (60, 5, "KXTEST-B", "level", "yes", 40, 300),
]
#: seconds, id, ticker, taker, YES price, lots
TRADES = [(5, "t1", "KXTEST-A", "no", 450, 3_000), (6, "t2", "KXTEST-A", "yes", 480, 5_000)]


@dataclass
class Native:
    """An episode in this project's format. Tests change parts and then call `write`."""

    metadata: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(METADATA))
    settlement: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(SETTLEMENT))
    book: list[tuple[Any, ...]] = field(default_factory=lambda: list(BOOK))
    trades: list[tuple[Any, ...]] = field(default_factory=lambda: list(TRADES))
    series: list[tuple[Any, ...]] | None = None
    reshape: dict[str, Callable[[pa.Table], pa.Table]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text(json.dumps(self.metadata))
        (folder / "settlement.json").write_text(json.dumps(self.settlement))
        self._table(folder / "orderbook.parquet", book_table(self.book))
        self._table(folder / "trades.parquet", trade_table(self.trades))
        if self.series is not None:
            self._table(folder / "exogenous.parquet", series_table(self.series))
        return folder

    def _table(self, path: Path, table: pa.Table) -> None:
        pq.write_table(self.reshape.get(path.stem, lambda same: same)(table), path, **self.options)


def at(seconds: float) -> int:
    return START + int(seconds * SECOND)


def _column(rows: list[tuple[Any, ...]], index: int, kind: pa.DataType) -> pa.Array:
    return pa.array([row[index] for row in rows], kind)


def _times(rows: list[tuple[Any, ...]]) -> pa.Array:
    return pa.array([at(row[0]) for row in rows], pa.int64()).view(TIME)


def book_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(
        {
            "ts": _times(rows),
            "sequence_id": _column(rows, 1, pa.int64()),
            "ticker": _column(rows, 2, pa.string()),
            "kind": _column(rows, 3, pa.string()),
            "side": _column(rows, 4, pa.string()),
            "price_mills": _column(rows, 5, pa.int32()),
            "lots": _column(rows, 6, pa.int64()),
        }
    )


def trade_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(
        {
            "ts": _times(rows),
            "trade_id": _column(rows, 1, pa.string()),
            "ticker": _column(rows, 2, pa.string()),
            "taker_side": _column(rows, 3, pa.string()),
            "yes_price_mills": _column(rows, 4, pa.int32()),
            "lots": _column(rows, 5, pa.int64()),
        }
    )


def series_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table({"ts": _times(rows), "name": _column(rows, 1, pa.string()), "value": _column(rows, 2, pa.float64())})


def change_value(rows: list[tuple[Any, ...]], row: int, index: int, value: Any) -> list[tuple[Any, ...]]:
    """Return the rows with one value changed."""
    changed = list(rows)
    changed[row] = (*changed[row][:index], value, *changed[row][index + 1 :])
    return changed


def three_episodes(root: Path) -> list[Path]:
    """Write episodes E0 to E2 below `root`. Their books differ in one size."""
    folders = []
    for number in range(3):
        episode = Native()
        episode.metadata["episode_id"] = f"E{number}"
        episode.book = [(*row[:6], row[6] and row[6] + 100 * number) for row in episode.book]
        folders.append(episode.write(root / f"E{number}"))
    return folders


def named_episode(root: Path, name: str, **metadata: Any) -> Path:
    """Write an episode whose markets have its name."""
    made = Native()
    made.metadata |= {"episode_id": name, **metadata}
    tickers = {"KXTEST-A": f"{name}-A", "KXTEST-B": f"{name}-B"}
    made.metadata["tickers"] = list(tickers.values())
    for market in made.metadata["markets"]:
        market["ticker"] = tickers[market["ticker"]]
    made.settlement = {tickers[ticker]: settled for ticker, settled in made.settlement.items()}
    made.book = [(row[0], row[1], tickers[row[2]], *row[3:]) for row in made.book]
    made.trades = [(row[0], row[1], tickers[row[2]], *row[3:]) for row in made.trades]
    return made.write(root / name)
