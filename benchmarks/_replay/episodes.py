"""Short synthetic episodes on disk, for benchmarks that start from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from bellwether.replay.episode.content import BookColumns, Content, Trades
from bellwether.replay.episode.folder import write
from bellwether.replay.episode.model import Market, Metadata, Settlement, parse_ranges
from bellwether.replay.tape.layout import LEVEL, PRINT, TRADED, pack, unpack
from bellwether.replay.units import DOLLAR, MICROS
from bellwether.units import MicroDollars
from benchmarks._replay.market import synthetic


def write_short(folder: Path, seed: int, *, changes: int, prints: int, hours: int) -> Path:
    """Write an episode of some hours of the synthetic day into `folder`, and return the folder. changes, prints: numbers of level changes and of
    trades.
    """
    tape = synthetic(seed, changes=changes, prints=prints, length=hours * 3600 * 10**9)
    kind, ticker, side, level, lots = unpack(np.asarray(tape.event))
    price = tape.prices[tape.starts[ticker] + level]
    levels, trades = kind <= TRADED, kind == PRINT
    words = pack(LEVEL, ticker[levels], side[levels], price[levels], lots[levels])
    count = len(words)
    book = BookColumns(tape.ts[levels], np.arange(count), ticker[levels], np.arange(1, count + 1), words)
    prices = np.where(side[trades] == 0, price[trades], DOLLAR - price[trades])
    ids = pa.array([f"t{index}" for index in range(int(trades.sum()))])
    printed = Trades(tape.ts[trades], ids, ticker[trades], 1 - side[trades], prices, lots[trades])
    terms = {"type": "quadratic_with_maker_fees", "multiplier": "1", "waiver_until": None, "source": "synthetic"}
    markets = tuple(Market(name, close_time=tape.end, price_ranges=parse_ranges([("0", "1", "0.001")]), fee=terms) for name in tape.tickers)
    settlements = tuple(
        Settlement(name, ("YES", "NO")[code % 2], MicroDollars(MICROS * (1 - code % 2)), tape.end) for code, name in enumerate(tape.tickers)
    )
    about = Metadata(
        folder.name,
        tape.start,
        tape.end,
        markets,
        mutually_exclusive=False,
        rules="kalshi-2026-08-30",
        bankroll=MicroDollars(10_000 * MICROS),
    )
    write(folder, Content(about, settlements, book, printed, {}))
    return folder
