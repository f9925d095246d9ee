"""Tapes (episodes in the simulator's integers) that are measured: the synthetic day, and real recordings that exist on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from bellwether.bridges.hftbacktest import build_records
from bellwether.bridges.market_events import ASK, BID, CHANGE, TRADE, MarketEvents
from bellwether.replay import Prepared, load, prepare
from bellwether.replay.tape.layout import PRINT, Tape, unpack
from bellwether.replay.units import DOLLAR, MILL, YES
from benchmarks._replay.environments import CACHE, ROOT
from benchmarks._replay.market import RULES, synthetic

RECORDINGS = Path(os.environ.get("BELLWETHER_RECORDINGS", ROOT.parent / "shared" / "data"))
#: Name -> folder of captures below the recordings. The episode with most rows represents each.
CAPTURES = {"nba": "kalshi/ws_nba_2026_03"}
_EPISODES = CACHE / "episodes"


def names() -> list[str]:
    """Return the names of the tapes: "synthetic", and the recordings on this machine."""
    return ["synthetic", *(name for name, folder in CAPTURES.items() if (RECORDINGS / folder).is_dir())]


def prepared(name: str) -> Prepared:
    """Load a tape by name, with the rules that are measured. A recording must have been built by `build`."""
    return prepare(synthetic() if name == "synthetic" else load(_EPISODES / name), RULES)


def build(name: str) -> None:
    """Import a recording and build its episode anew below `.bench/`, so that the current code has built it."""
    from bellwether.recordings.captures import import_captures
    from bellwether.replay.episode.folder import write
    from bellwether.replay.episode_builder.build import build_recording

    recordings = CACHE / "recordings" / name
    shutil.rmtree(recordings, ignore_errors=True)
    shutil.rmtree(_EPISODES / name, ignore_errors=True)
    recordings.mkdir(parents=True)
    _EPISODES.mkdir(parents=True, exist_ok=True)
    drafts = [draft for recording in import_captures(recordings, RECORDINGS / CAPTURES[name]) for draft in build_recording(recording)]
    write(_EPISODES / name, max(drafts, key=lambda draft: len(draft.book.words)))


def columns(tape: Tape, path: Path) -> None:
    """Write a tape as plain columns for peers to read: ts, kind, ticker, side, price (in 0.1 cent), lots."""
    kind, ticker, side, level, lots = unpack(np.asarray(tape.event))
    price = tape.prices[tape.starts[ticker] + level] // MILL
    np.savez(path, ts=tape.ts, kind=kind, ticker=ticker, side=side, price=price, lots=lots)


def records(tape: Tape, path: Path, latency: int) -> None:
    """Write a tape as hftbacktest's records, an array per ticker, as the bridge writes episodes. latency: of market data, ns."""
    kind, ticker, side, level, lots = unpack(np.asarray(tape.event))
    price = tape.prices[tape.starts[ticker] + level]
    is_print = kind == PRINT  # against the resting bids of `side`: the taker of a YES bid sells
    columns = {
        "ts": tape.ts,
        "sequence": np.zeros(len(tape), np.int64),
        "kind": np.where(is_print, TRADE, CHANGE),
        "side": np.where(is_print == (side == YES), ASK, BID),
        "price": np.where(side == YES, price, DOLLAR - price),
        "lots": lots,
    }
    chosen = [(kind <= PRINT) & (ticker == code) for code in range(len(tape.tickers))]
    markets = [
        MarketEvents(**{name: values[own] for name, values in columns.items()}, trade_ids=pa.array([], pa.string())) for own in chosen
    ]
    records = [build_records(events) for events in markets]
    for market in records:
        market["local_ts"] += latency
    np.savez(path, *records)
