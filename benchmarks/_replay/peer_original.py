"""Simulator that costs as much as PredictionMarketBench's ("the original"), written for this comparison: `python peer_original.py FOLDER`.

What takes time there, takes time here: the Parquet file becomes Python dicts, every level of every row becomes an object, and every side is sorted;
the timeline is sorted with Python keys; asks are derived and sorted at each look at the book. The loop itself is one dict access per event, and an
agent that does nothing looks at its equity every 60 s, as there.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from protocol import peak_mb


@dataclass(frozen=True)
class Level:
    """Level of a book: price in cents and size in contracts."""

    price_cents: int
    size: int


@dataclass
class Book:
    """Full snapshot of a book: bids of YES and of NO, the best first."""

    ts: datetime
    sequence_id: int
    ticker: str
    yes_bids: list[Level]
    no_bids: list[Level]

    @property
    def yes_asks(self) -> list[Level]:
        return sorted((Level(100 - level.price_cents, level.size) for level in self.no_bids), key=lambda level: level.price_cents)


@dataclass
class Trade:
    """Trade in the market."""

    ts: datetime
    trade_id: str
    ticker: str
    taker_side: str
    price_cents: int
    count: int


@dataclass
class Event:
    """Entry of the timeline. rank: order at equal times, books before trades before settlements."""

    ts: datetime
    rank: int
    number: int
    payload: Any


def levels(raw: list[dict[str, int]]) -> list[Level]:
    """Parse one side of a row of books into levels, the best first."""
    parsed = [Level(int(level["price_cents"]), int(level["size"])) for level in raw]
    return sorted((level for level in parsed if level.price_cents > 0 and level.size > 0), key=lambda level: -level.price_cents)


def load(folder: Path) -> list[Event]:
    """Load books, trades and settlements of an episode as one timeline, in order of time."""
    books = pq.read_table(folder / "orderbook.parquet").to_pylist()
    trades = pq.read_table(folder / "trades.parquet").to_pylist()
    timeline = []
    for number, row in enumerate(books):
        book = Book(row["ts"], row["sequence_id"], row["ticker"], levels(row["yes_bids"]), levels(row["no_bids"]))
        timeline.append(Event(book.ts, 0, number, book))
    for number, row in enumerate(trades):
        trade = Trade(row["ts"], row["trade_id"], row["ticker"], row["taker_side"], row["price_cents"], row["count"])
        timeline.append(Event(trade.ts, 1, len(books) + number, trade))
    for ticker, settled in json.loads((folder / "settlement.json").read_text()).items():
        timeline.append(Event(datetime.fromisoformat(settled["settled_ts"]), 2, 999_999_999, (ticker, settled["result"])))
    timeline.sort(key=lambda event: (event.ts, event.rank, event.number))
    return timeline


def replay(timeline: list[Event], cadence: timedelta, every: timedelta, bankroll: int) -> dict[str, int]:
    """Replay a timeline with an agent that does nothing. every: time between samples of equity. Returns the numbers of steps and samples, and the
    final equity.
    """
    books: dict[str, Book] = {}
    last_call = last_sample = timeline[0].ts - cadence
    steps = samples = equity = 0
    for event in timeline:
        if event.rank == 0:
            books[event.payload.ticker] = event.payload
            if event.ts - last_call >= cadence:
                steps += 1
                last_call = event.ts
                for book in books.values():
                    _ = (book.yes_bids[0] if book.yes_bids else None, book.yes_asks[0] if book.yes_asks else None)
        if event.ts - last_sample >= every:
            samples += 1
            last_sample = event.ts
            equity = bankroll
    return {"steps": steps, "samples": samples, "equity": equity}


def main() -> None:
    """Print as JSON the CPU seconds from the files to the result, and the peak memory of the process in MB."""
    folder = Path(sys.argv[1])
    start = time.process_time()
    answer = replay(load(folder), timedelta(seconds=300), timedelta(seconds=60), 100_000)
    cpu = time.process_time() - start
    print(json.dumps({"cpu": cpu, "peak_mb": peak_mb(), **answer}))


if __name__ == "__main__":
    main()
