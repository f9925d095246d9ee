"""Bridge to hftbacktest: episodes as its market data, one file per market, and back. Needs NumPy alone."""

from __future__ import annotations

import zipfile
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from bellwether.bridges.market_events import (
    ASK,
    BID,
    BOTH,
    CHANGE,
    CLEAR,
    TERMS,
    TRADE,
    MarketEvents,
    build_content,
    check_amounts,
    check_columns,
    list_events,
    write_terms,
)
from bellwether.errors import ConfigError, SchemaError
from bellwether.files import atomic_folder
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import Episode
from bellwether.replay.units import CONTRACT, DOLLAR

#: One event of hftbacktest 2.
DTYPE = np.dtype(
    [
        ("ev", "u8"),
        ("exch_ts", "i8"),
        ("local_ts", "i8"),
        ("px", "f8"),
        ("qty", "f8"),
        ("order_id", "u8"),
        ("ival", "i8"),
        ("fval", "f8"),
    ],
    align=True,
)
#: Kinds of its events that are read, and flags: the event reaches the exchange, and the trader; side of a bid or a buyer, and of an ask or a seller.
_KINDS = {1: CHANGE, 2: TRADE, 3: CLEAR, 4: CHANGE}
_DEPTH, _TRADE = 1, 2
_EXCHANGE, _LOCAL, _BUY, _SELL = 1 << 31, 1 << 30, 1 << 29, 1 << 28
_ENDING = ".npz"


def build_records(events: MarketEvents) -> np.ndarray:
    """Build hftbacktest's records of the events of a market."""
    records = np.zeros(len(events.ts), DTYPE)
    kind = np.where(events.kind == TRADE, _TRADE, _DEPTH)
    records["ev"] = kind | _EXCHANGE | _LOCAL | np.where(events.side == BID, _BUY, _SELL)
    records["exch_ts"], records["local_ts"] = events.ts, events.ts
    records["px"], records["qty"] = events.price / DOLLAR, events.lots / CONTRACT
    records["ival"] = events.sequence
    return records


def write_episode(folder: Path, episode: Episode) -> list[Path]:
    """Write an episode as TICKER.npz per market, with its other terms in episode.json, atomically. Returns the files of the markets.

    An earlier export is replaced. Raises `ConfigError` for a folder with other contents.
    """
    if folder.exists() and any(path.suffix != _ENDING and path.name != TERMS for path in folder.iterdir()):
        raise ConfigError(f"exporting to {folder}: it contains something other than market data; name another folder")
    names = [f"{quote(ticker, safe='')}{_ENDING}" for ticker in episode.tickers]
    with atomic_folder(folder, TERMS) as draft:
        for code, name in enumerate(names):
            np.savez_compressed(draft / name, data=build_records(list_events(episode.content, code)))
        write_terms(draft, episode.content)
    return [folder / name for name in names]


def read_episode(folder: Path) -> Content:
    """Read an episode from TICKER.npz per market, and episode.json if there is one.

    Times are those of the exchange. Raises `SchemaError` with file, row, field and value, also for kinds of events that an episode does not have:
    single orders, and best bids and offers.
    """
    files = sorted(folder.glob(f"*{_ENDING}"))
    return build_content({unquote(file.stem): _read_market(file) for file in files}, folder, "hftbacktest", {})


def _read_market(file: Path) -> MarketEvents:
    try:
        with np.load(file, allow_pickle=False) as archive:
            records = archive["data"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise SchemaError(f"reading {file}: it is no market data of hftbacktest ({error}); give an .npz with the array data") from None
    if missing := [name for name in ("ev", "exch_ts", "px", "qty") if name not in (records.dtype.names or ())]:
        raise SchemaError(f"reading {file}: data has no field {missing[0]}; give market data of hftbacktest 2")
    records = records[records["ev"] & _EXCHANGE != 0]
    code = (records["ev"] & 0xFF).astype(np.int64)
    is_bid, is_ask = records["ev"] & _BUY != 0, records["ev"] & _SELL != 0
    kind = np.select([code == number for number in _KINDS], [*_KINDS.values()], -1)
    price, lots = records["px"] * DOLLAR, records["qty"] * CONTRACT
    is_order = kind != CLEAR
    check_columns(
        file,
        {name: records[name] for name in ("ev", "px", "qty")},
        (
            ("ev", kind >= 0, "only depth, snapshots, trades and clearing of levels are read"),
            ("ev", (is_bid != is_ask) | (~is_order & ~is_bid), "it must have the flag of one side"),
            ("px", np.isfinite(price) & (~is_order | _is_whole(price)), "it must be a price in whole hundredths of a cent"),
            ("qty", np.isfinite(lots) & (~is_order | _is_whole(lots)), "it must be a size in whole hundredths of a contract"),
        ),
    )
    events = {
        "ts": records["exch_ts"],
        "sequence": records["ival"] if "ival" in records.dtype.names else np.zeros(len(records), np.int64),
        "kind": kind,
        "side": np.select([is_bid, is_ask], [BID, ASK], BOTH),
        "price": np.rint(np.where(is_order, price, np.clip(price, 0, DOLLAR))).astype(np.int64),
        "lots": np.rint(lots).astype(np.int64),
    }
    check_amounts(file, {name: records[name] for name in ("px", "qty")}, ("px", "qty"), events)
    ids = pa.array([f"{file.stem}-{row}" for row in np.flatnonzero(kind == TRADE)], pa.string())
    return MarketEvents(**events, trade_ids=ids)


def _is_whole(values: np.ndarray) -> np.ndarray:
    return np.abs(values - np.rint(values)) < 1e-6
