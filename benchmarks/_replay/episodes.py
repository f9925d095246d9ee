"""Short synthetic episodes on disk, for benchmarks that start from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from bellwether.replay.episode import EpisodeDraft, Market, Metadata, Settlement, write
from bellwether.replay.episode.price_grid import parse_ranges
from bellwether.replay.tape.layout import PRINT, TRADED, unpack
from bellwether.replay.units import DOLLAR, MICROS
from bellwether.units import MicroDollars
from benchmarks._replay.market import synthetic

_SIDES = np.array(["yes", "no"])
_NS = pa.timestamp("ns", "UTC")


def write_short(folder: Path, seed: int, *, changes: int, prints: int, hours: int) -> Path:
    """Write an episode of some hours of the synthetic day into `folder`, and return the folder. changes, prints: numbers of level changes and of
    trades.
    """
    tape = synthetic(seed, changes=changes, prints=prints, length=hours * 3600 * 10**9)
    kind, ticker, side, level, lots = unpack(np.asarray(tape.event))
    price = tape.prices[tape.starts[ticker] + level]
    names, levels, trades = np.array(tape.tickers), kind <= TRADED, kind == PRINT
    count = int(levels.sum())
    book = pa.table(
        {
            "ts": pa.array(tape.ts[levels]).cast(_NS),
            "sequence_id": np.arange(count),
            "ticker": pa.array(names[ticker[levels]]),
            "kind": pa.array(["level"]).take(pa.array(np.zeros(count, np.int64))),
            "side": pa.array(_SIDES[side[levels]]),
            "price_centicents": pa.array(price[levels], pa.int32()),
            "lots": lots[levels],
        }
    )
    prices = np.where(side[trades] == 0, price[trades], DOLLAR - price[trades])
    printed = pa.table(
        {
            "ts": pa.array(tape.ts[trades]).cast(_NS),
            "trade_id": [f"t{index}" for index in range(int(trades.sum()))],
            "ticker": pa.array(names[ticker[trades]]),
            "taker_side": pa.array(_SIDES[1 - side[trades]]),
            "yes_price_centicents": pa.array(prices, pa.int32()),
            "lots": lots[trades],
        }
    )
    terms = {"type": "quadratic_with_maker_fees", "multiplier": "1", "waiver_until": None, "source": "synthetic"}
    markets = tuple(Market(name, close_time=tape.end, price_ranges=parse_ranges([("0", "1", "0.001")]), fee=terms) for name in tape.tickers)
    settlements = [
        Settlement(name, ("YES", "NO")[code % 2], MicroDollars(MICROS * (1 - code % 2)), tape.end) for code, name in enumerate(tape.tickers)
    ]
    about = Metadata(
        folder.name,
        tape.start,
        tape.end,
        markets,
        mutually_exclusive=False,
        rules="kalshi-2026-08-30",
        bankroll=MicroDollars(10_000 * MICROS),
    )
    write(folder, EpisodeDraft(about, book, printed, settlements))
    return folder
