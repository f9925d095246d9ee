"""Small episodes on disk, written by hand so that tests can break any part."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bellwether.replay.episode.content import SCHEMAS, BookBuilder, BookColumns, Trades, level_of
from bellwether.replay.episode.model import FORMAT

TIME = pa.timestamp("ns", "UTC")
START = 1_768_867_200_000_000_000
SECOND = 1_000_000_000

METADATA = {
    "format": FORMAT,
    "episode_id": "KXTEST-26JAN20",
    "event_slug": "KXTEST-26JAN20",
    "venue": "kalshi",
    "title": "A test",
    "start": "2026-01-20T00:00:00Z",
    "end": "2026-01-20T00:10:00Z",
    "mutually_exclusive": True,
    "bankroll": 500_000_000,
    "markets": [
        {
            "ticker": ticker,
            "title": ticker,
            "open_time": "2026-01-19T00:00:00Z",
            "close_time": "2026-01-20T00:09:00Z",
            "price_ranges": [[0, 1000, 10], [1000, 9000, 100], [9000, 10_000, 10]],
            "fee": {"type": "quadratic", "multiplier": "1", "waiver_until": None, "source": "series"},
            "lifecycle": [{"at": "2026-01-20T00:09:00Z", "event": "close", "source": "listing"}],
        }
        for ticker in ("KXTEST-A", "KXTEST-B")
    ],
}
SETTLEMENT = {
    "KXTEST-A": {"result": "YES", "value": 1_000_000, "at": "2026-01-20T00:10:00Z", "source": "listing"},
    "KXTEST-B": {"result": "NO", "value": 0, "at": "2026-01-20T00:10:00Z", "source": "listing"},
}
#: seconds, sequence, ticker, kind, side, price in tenths of a cent, lots
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
#: seconds, id, ticker, taker, YES price in tenths of a cent, lots
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

    @property
    def tickers(self) -> list[str]:
        """Tickers in the order of their codes, also if the metadata lack one."""
        return sorted({*(str(market["ticker"]) for market in self.metadata["markets"]), *(row[2] for row in (*self.book, *self.trades))})

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text(json.dumps(self.metadata))
        (folder / "settlement.json").write_text(json.dumps(self.settlement))
        self._table(folder / "orderbook.parquet", book_columns(self.book, self.tickers).table())
        self._table(folder / "trades.parquet", trade_columns(self.trades, self.tickers).table())
        if self.series is not None:
            self._table(folder / "exogenous.parquet", series_table(self.series))
        return folder

    def _table(self, path: Path, table: pa.Table) -> None:
        pq.write_table(self.reshape.get(path.stem, lambda same: same)(table), path, **self.options)


def at(seconds: float) -> int:
    return START + int(seconds * SECOND)


def book_columns(rows: list[tuple[Any, ...]], tickers: Sequence[str] = ("KXTEST-A", "KXTEST-B")) -> BookColumns:
    """Return the columns of rows such as `BOOK`; rows of equal time, sequence and ticker are a message."""
    builder = BookBuilder(len(tickers))
    for (seconds, sequence, ticker), message in groupby(rows, lambda row: row[:3]):
        levels, kinds = {}, set()
        for *_, kind, side, price, lots in message:
            kinds.add(kind)
            if kind == "level":
                levels[level_of(("yes", "no").index(side), int(10 * price))] = lots
        invalid = True if "invalid" in kinds else False if "snapshot_start" in kinds else None
        builder.add(at(seconds), sequence, tickers.index(ticker), levels, is_whole=invalid is False, invalid=invalid)
    return builder.columns()


def trade_columns(rows: list[tuple[Any, ...]], tickers: Sequence[str] = ("KXTEST-A", "KXTEST-B")) -> Trades:
    """Return the columns of rows such as `TRADES`."""
    seconds, ids, names, takers, prices, lots = zip(*rows, strict=True) if rows else ((),) * 6
    codes, sides = ([choices.index(name) for name in chosen] for choices, chosen in ((list(tickers), names), (["yes", "no"], takers)))
    numbers = (np.array(column, np.int64) for column in (codes, sides, [10 * price for price in prices], lots))
    return Trades(np.array([at(second) for second in seconds], np.int64), pa.array(ids, pa.string()), *numbers)


def series_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return a table of (seconds, name, value)."""
    times = pa.array([at(row[0]) for row in rows], pa.int64()).cast(TIME)
    return pa.table([times, pa.array([row[1] for row in rows], pa.string()), [row[2] for row in rows]], schema=SCHEMAS["exogenous.parquet"])


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
    for market in made.metadata["markets"]:
        market["ticker"] = tickers[market["ticker"]]
    made.settlement = {tickers[ticker]: settled for ticker, settled in made.settlement.items()}
    made.book = [(row[0], row[1], tickers[row[2]], *row[3:]) for row in made.book]
    made.trades = [(row[0], row[1], tickers[row[2]], *row[3:]) for row in made.trades]
    return made.write(root / name)
