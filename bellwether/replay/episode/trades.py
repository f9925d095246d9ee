"""Reading of an episode's trades, in native columns or those of PredictionMarketBench, and their comparison with the book.

Native prices are of YES. PredictionMarketBench's may be of YES or of the side that the taker bought: the *convention* of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bellwether.errors import SchemaError
from bellwether.replay import units
from bellwether.replay.arrow import values_of
from bellwether.replay.episode import kernels
from bellwether.replay.episode.books import SIDES, find_file
from bellwether.replay.episode.columns import FileColumns, first_true, read_csv, read_parquet
from bellwether.replay.episode.content import BookColumns, Trades
from bellwether.replay.episode.price_levels import PriceLevels
from bellwether.replay.tape.layout import freeze
from bellwether.replay.units import MAX_LOTS

NAMES = tuple("trades" + ending for ending in (".parquet", ".csv", ".csv.gz"))
#: Columns of prices of this project's formats, with the $0.0001 in one of them.
PRICES = {"yes_price_mills": units.MILL, "yes_price_centicents": 1}
#: Side of the original's price_cents: the side that the taker bought, or YES; auto: whichever agrees with the books.
TAKER_PRICE, YES_PRICE, AUTO = "taker", "yes", "auto"
CONVENTIONS = (AUTO, TAKER_PRICE, YES_PRICE)
#: A level counts as displayed for a trade if it was within this time before the trade, ns.
WINDOW = 2 * units.SECOND


def read_trades(folder: Path, tickers: Sequence[str], *, required: bool) -> tuple[str, Trades, bool]:
    """Read the trades of an episode. Returns (name of the file, trades, whether the convention of their prices must be inferred).

    The convention is unknown for prices of PredictionMarketBench. required: raise for a missing file. Raises `SchemaError` with file, row
    and value of an error.
    """
    path = find_file(folder, NAMES)
    if path is None:
        if required:
            raise SchemaError(f"reading {folder.name}: {NAMES[0]} is missing; write one without rows when nothing was traded")
        return NAMES[0], no_trades(), False
    table = read_parquet(path, dictionaries=("ticker", "taker_side")) if path.suffix == ".parquet" else read_csv(path)
    columns = FileColumns(table, path.name)
    ts = columns.times(columns.clock)
    columns.require_order(columns.clock, ts)
    trade_id = columns.strings("trade_id")
    _refuse_duplicates(columns, trade_id)
    name = next((name for name in PRICES if name in columns), None)
    price, unit = (columns.integers(name), PRICES[name]) if name else (_read_cents(columns), units.CENT)
    columns.require(name or "price_cents", (price > 0) & (price < units.DOLLAR // unit), price, "between 0 and a dollar")
    lots = columns.integers("lots") if "lots" in columns else _read_contracts(columns)
    columns.require("lots", (lots > 0) & (lots <= MAX_LOTS), lots, f"from 1 to {MAX_LOTS}")
    ticker, taker = columns.codes("ticker", tickers), columns.codes("taker_side", SIDES).astype(np.int8)
    return path.name, Trades(ts, trade_id, ticker, taker, (price * unit).astype(np.int32), lots), name is None


def no_trades() -> Trades:
    """Return `Trades` without any rows."""
    empty = np.zeros(0, np.int64)
    return Trades(empty, pa.array([], pa.string()), empty.astype(np.int32), empty.astype(np.int8), empty.astype(np.int32), empty)


def _refuse_duplicates(columns: FileColumns, trade_id: pa.Array) -> None:
    """Raise `RowError` for a trade id that occurs twice; empty ids may."""
    encoded = trade_id.dictionary_encode()
    if len(encoded.dictionary) == len(encoded):
        return
    codes, empty = values_of(encoded.indices), pc.index(encoded.dictionary, "").as_py()
    _, first = np.unique(codes, return_index=True)
    is_repeated = np.ones(len(codes), np.bool_)
    is_repeated[first] = False
    if (row := first_true(is_repeated & (codes != empty))) >= 0:
        raise columns.value_error(row, "trade_id", trade_id[row].as_py(), f"given once; row {int(first[codes[row]])} has it too")


def _read_cents(columns: FileColumns) -> np.ndarray:
    """Read prices in cents: from the column price_cents, or from price, where values below 1 are dollars."""
    if "price_cents" in columns or "price" not in columns:
        return columns.integers("price_cents")
    price = columns.floats("price")
    cents = np.where(price < 1, np.round(100 * price), np.round(price))
    columns.require("price", (price < 1) | (cents == price), price, "whole cents, or dollars below 1")
    return cents.astype(np.int64)


def _read_contracts(columns: FileColumns) -> np.ndarray:
    """Read the column count, in contracts, as lots."""
    if pa.types.is_integer(columns.array("count").type):
        count = columns.integers("count")
        columns.require("count", (count > 0) & (count <= MAX_LOTS // units.CONTRACT), count, f"from 1 to {MAX_LOTS // units.CONTRACT}")
        return count * units.CONTRACT
    count = columns.floats("count")
    lots = np.round(count * units.CONTRACT)
    columns.require("count", np.abs(count * units.CONTRACT - lots) < 1e-6, count, "whole hundredths of a contract")
    columns.require("count", (lots > 0) & (lots <= MAX_LOTS), count, f"above 0, up to {MAX_LOTS // units.CONTRACT}")
    return lots.astype(np.int64)


def apply_convention(trades: Trades, convention: str) -> Trades:
    """Convert trades to prices of YES. convention: side whose price is stated now, YES or the taker's."""
    if convention == YES_PRICE:
        return trades
    price = np.where(trades.taker == 0, trades.price, units.DOLLAR - trades.price).astype(np.int32)
    return Trades(trades.ts, trades.trade_id, trades.ticker, trades.taker, price, trades.lots)


def match_levels(book: BookColumns, trades: Trades, levels: PriceLevels) -> np.ndarray:
    """Return for each trade whether the book displayed a size at the level that the trade hit, bool[n]."""
    side, price = trades.passive
    shape, level = (len(levels.grid_of), len(levels.prices)), freeze(levels.numbers(price))
    return kernels.find_hits(book.ts, book.end, book.words, shape, levels.number, trades.ts, trades.ticker, side, level, WINDOW)


def infer_convention(book: BookColumns, trades: Trades, levels: PriceLevels) -> str:
    """Return the convention with which more trades of NO takers hit displayed levels; the taker's side if equally many do."""
    # The price of a YES taker's trade is the same in both conventions.
    by_no = trades.taker == 1
    taker, yes = (int(match_levels(book, apply_convention(trades, name), levels)[by_no].sum()) for name in (TAKER_PRICE, YES_PRICE))
    return YES_PRICE if yes > taker else TAKER_PRICE
