"""Reading of an episode's order book, which is stored as native messages, or as full-snapshot rows of PredictionMarketBench.

A native row sets one level, begins a snapshot, or makes the book invalid; rows of equal time, number and ticker are one message. A
full-snapshot row contains all levels. A *word* is a change of one level packed into 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bellwether.errors import SchemaError
from bellwether.replay.episode import kernels
from bellwether.replay.episode.columns import FileColumns, first_true, open_parquet, raising_unreadable, read_csv
from bellwether.replay.episode.content import BookColumns
from bellwether.replay.episode.levels import read_levels
from bellwether.replay.episode.metadata import Gap, Market, format_iso
from bellwether.replay.episode.price_levels import PriceLevels
from bellwether.replay.episode.report import RowError
from bellwether.replay.tape.layout import INVALID, MAX_TICKERS, VALID, freeze, pack
from bellwether.replay.units import CENT, CONTRACT, DOLLAR, MAX_LOTS, MILL

ORDERBOOK = "orderbook"
NAMES = tuple(ORDERBOOK + ending for ending in (".parquet", ".csv", ".csv.gz"))
KINDS = ("level", "snapshot_start", "invalid")
SIDES = ("yes", "no")
#: Columns of prices, with the $0.0001 in one of them.
PRICES = {"price_mills": MILL, "price_centicents": 1}
_SNAPSHOT_COLUMNS = ("ts", "timestamp", "sequence_id", "ticker", "yes_bids", "no_bids")
#: Number of full-snapshot rows decoded at a time.
BATCH = 4096

_WRONG = {
    kernels.TWICE: "is set twice in one row or message; name each level once, and give each message its own sequence_id",
    kernels.LATE_START: "follows levels of its message; a snapshot_start or invalid must come first, and only once",
    kernels.NEGATIVE: "is below 0; give the new size of the level",
    kernels.TOO_LARGE: f"is more than {MAX_LOTS} lots",
    kernels.OFF_GRID: "is not on the market's price grid; see price_ranges in metadata.json",
}


@dataclass(frozen=True, eq=False)
class ParsedBook:
    """Order book as read from a file.

    file: its name. first: row of the file at which each book row begins. levels: possible levels of the markets. gaps: gaps found while
    reading.
    """

    file: str
    book: BookColumns
    first: np.ndarray
    levels: PriceLevels
    gaps: tuple[Gap, ...] = ()


def find_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the path of the first of these files that exists in a folder. None if none does."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_book(folder: Path, markets: Sequence[Market]) -> ParsedBook:
    """Read the order book of an episode. Raises `SchemaError` with the file, row and value of the first error."""
    path = find_file(folder, NAMES)
    if path is None:
        raise SchemaError(f"reading {folder.name}: {NAMES[0]} is missing; an episode has an order book")
    if len(markets) > MAX_TICKERS:
        raise SchemaError(f"reading {folder.name}: {len(markets)} tickers; at most {MAX_TICKERS} fit")
    if path.suffix != ".parquet":
        table = read_csv(path)
        return _read_rows(path.name, table.schema, table.to_batches(BATCH), markets)
    parquet = open_parquet(path, dictionaries=("ticker", "kind", "side"))
    schema = parquet.schema_arrow
    columns = [name for name in schema.names if name in _SNAPSHOT_COLUMNS] if _is_snapshots(schema) else None
    with raising_unreadable(path, "Parquet"):
        return _read_rows(path.name, schema, parquet.iter_batches(BATCH, columns=columns, use_threads=False), markets)


def _is_snapshots(schema: pa.Schema) -> bool:
    return "yes_bids" in schema.names or "no_bids" in schema.names


def _read_rows(file: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], markets: Sequence[Market]) -> ParsedBook:
    if not _is_snapshots(schema):
        return _read_messages(FileColumns(pa.Table.from_batches(batches, schema), file), markets)
    return _read_snapshots(file, batches, markets)


def _read_messages(columns: FileColumns, markets: Sequence[Market]) -> ParsedBook:
    """Read the book from a table of native rows."""
    tickers = [market.ticker for market in markets]
    ts, sequence = columns.times("ts"), columns.integers("sequence_id")
    ticker, kind = columns.codes("ticker", tickers), columns.codes("kind", KINDS)
    is_level = kind == kernels.SET
    side = columns.codes("side", SIDES, nulls=True)
    name = next((name for name in PRICES if name in columns), "price_mills")
    price, lots = columns.integers(name, absent=-1), columns.integers("lots", absent=-1)
    columns.require_order("ts", ts)
    columns.require("side", (side >= 0) | ~is_level, side, "yes or no in a row of kind level")
    columns.require(
        "lots", ((lots >= 0) & (lots <= MAX_LOTS)) | ~is_level, lots, f"from 0 to {MAX_LOTS}, the size that the level shows now"
    )
    levels, scaled = PriceLevels(markets), np.clip(price, -1, DOLLAR) * PRICES[name]
    columns.require(name, levels.allow(ticker, scaled) | ~is_level, price, "on the market's price grid; see price_ranges in metadata.json")
    codes = freeze(ticker, np.int32), freeze(kind, np.int32), freeze(side, np.int32)
    state = kernels.new_state(len(markets), len(levels.prices))
    numbers = freeze(ts), freeze(sequence), *codes, freeze(levels.numbers(scaled)), freeze(lots)
    first, end, words, error, row = kernels.build_messages(*numbers, levels.prices, state, 0)
    if error != kernels.FINE:
        raise RowError(columns.file, row, f"{KINDS[kind[row]]} of {tickers[ticker[row]]} {_WRONG[error]}")
    return ParsedBook(columns.file, BookColumns(ts[first], sequence[first], ticker[first], end, words), first, levels)


class _SnapshotDiffer:
    """Converter of full-snapshot rows to changes of levels, batch by batch.

    Each row is a message that begins with a snapshot; its changes are the differences from the ticker's previous row.
    """

    def __init__(self, markets: Sequence[Market]) -> None:
        self.levels = PriceLevels(markets)
        self.tickers = [market.ticker for market in markets]
        self.rows = self._before = 0
        self._state = kernels.new_state(len(markets), len(self.levels.prices))

    def take(self, columns: FileColumns, ticker: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert a batch of rows. ticker: code of each row's ticker. Returns (where each row ends in the words, words)."""
        n = len(ticker)
        sides = [self._side(columns, side, ticker) for side in range(2)]
        rows = np.concatenate([np.arange(n), *(row for row, _, _ in sides)])
        order = np.argsort(rows, kind="stable")
        side = np.repeat([0, 0, 1], [n, *(len(row) for row, _, _ in sides)])
        kind = np.repeat([kernels.START, kernels.SET], [n, len(rows) - n])
        price, lots = (np.concatenate([np.zeros(n, np.int64), *(part[column] for part in sides)])[order] for column in (1, 2))
        codes = freeze(ticker[rows][order], np.int32), freeze(kind[order], np.int32), freeze(side[order], np.int32)
        numbers = freeze(np.zeros(len(rows))), freeze(rows[order]), *codes, freeze(self.levels.numbers(price)), freeze(lots)
        _, ends, words, error, at = kernels.build_messages(*numbers, self.levels.prices, self._state, self._before)
        if error != kernels.FINE:
            problem = f"in {SIDES[side[order[at]]]}_bids, {price[at] / CENT:g} cents {_WRONG[error]}"
            raise RowError(columns.file, self.rows + int(rows[order[at]]), problem)
        self.rows += n
        self._before += len(rows)
        return ends, words

    def _side(self, columns: FileColumns, side: int, ticker: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (row, price, lots) of each level of a side with a size above 0. Raises `RowError` for an invalid level."""
        levels = read_levels(columns, f"{SIDES[side]}_bids")
        has_size = levels.sizes != 0
        row = np.repeat(np.arange(len(ticker)), np.diff(levels.offsets))[has_size]
        price, size = np.clip(levels.prices[has_size], -1, DOLLAR) * levels.price_unit, levels.sizes[has_size]
        wrong = (size < 0, size > MAX_LOTS // levels.size_unit, ~self.levels.allow(ticker[row], price))
        error = np.select(wrong, (kernels.NEGATIVE, kernels.TOO_LARGE, kernels.OFF_GRID), kernels.FINE)
        if (at := first_true(error != kernels.FINE)) >= 0:
            cents, lots = levels.prices[has_size][at] * levels.price_unit / CENT, size[at] * levels.size_unit
            value = f"{cents:g} cents" if error[at] == kernels.OFF_GRID else f"a size of {lots / CONTRACT:g} contracts"
            raise RowError(columns.file, self.rows + int(row[at]), f"in {SIDES[side]}_bids, {value} {_WRONG[int(error[at])]}")
        return row, price, size * levels.size_unit


def _read_snapshots(file: str, batches: Iterable[pa.RecordBatch], markets: Sequence[Market]) -> ParsedBook:
    """Read the book from batches of full-snapshot rows."""
    differ = _SnapshotDiffer(markets)
    parts: list[tuple[np.ndarray, ...]] = []
    size, last = 0, None
    for batch in batches:
        columns = FileColumns(batch, file, differ.rows)
        ts = columns.times(columns.clock)
        if last is not None and len(ts) and ts[0] < last:
            wanted = "at or after that of the previous row: sort the rows by time"
            raise columns.value_error(0, columns.clock, format_iso(int(ts[0])), wanted)
        columns.require_order(columns.clock, ts)
        last = ts[-1] if len(ts) else last
        ticker = columns.codes("ticker", differ.tickers)
        sequence = columns.integers("sequence_id") if "sequence_id" in columns else np.arange(differ.rows, differ.rows + len(ts))
        ends, words = differ.take(columns, ticker)
        # A copy releases the memory of the batch.
        parts.append((ts.copy(), sequence.copy(), ticker, ends + size, words))
        size += len(words)
    empty = np.zeros(0, np.int64)
    ts, sequence, ticker, end, words = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else (empty,) * 5
    book = BookColumns(ts, sequence, ticker.astype(np.int32, copy=False), end, words)
    _refuse_duplicates(file, book)
    book, gaps = _invalidate_locks(book, differ.tickers, differ.levels)
    return ParsedBook(file, book, np.arange(len(ts)), differ.levels, gaps)


def best_prices(book: BookColumns, levels: PriceLevels) -> tuple[np.ndarray, ...]:
    """Return after each row: best YES and NO bid of its ticker, whether the book is valid, whether the row is the last of its instant."""
    return kernels.compute_tops(book.ts, book.ticker, book.end, book.words, levels.prices, levels.number, len(levels.grid_of))


def _invalidate_locks(book: BookColumns, tickers: Sequence[str], levels: PriceLevels) -> tuple[BookColumns, tuple[Gap, ...]]:
    """Mark books as invalid while they are locked, because no venue has locked books: a change was lost. Returns the book and the gaps."""
    yes, no, _, is_last = best_prices(book, levels)
    is_locked = (yes + no == DOLLAR) & (yes > 0) & (no > 0)
    if not (is_locked & is_last).any():
        return book, ()
    # By ticker, the last rows of instants at which a book becomes locked or unlocked.
    last_rows = np.flatnonzero(is_last)
    last_rows = last_rows[np.argsort(book.ticker[last_rows], kind="stable")]
    was_locked = np.roll(is_locked[last_rows], 1) & (np.roll(book.ticker[last_rows], 1) == book.ticker[last_rows])
    was_locked[0] = False
    rows = np.sort(last_rows[is_locked[last_rows] != was_locked])
    locked, codes = is_locked[rows], book.ticker[rows].astype(np.int64)
    marks = pack(np.where(locked, INVALID, VALID), codes, 0, 0, 0)
    # A row of changes begins with INVALID, or ends with VALID.
    places = np.where(locked, book.end[rows] - book.counts[rows], book.end[rows])
    order = np.argsort(rows, kind="stable")
    words = np.insert(book.words, places[order], marks[order])
    marked = replace(book, words=words, end=book.end + np.searchsorted(rows[order], np.arange(len(book.ts)), side="right"))
    return marked, tuple(_lock_gaps(book.ts[rows], codes, locked, tickers))


def _lock_gaps(ts: np.ndarray, codes: np.ndarray, locked: np.ndarray, tickers: Sequence[str]) -> Iterator[Gap]:
    """Yield the gaps in which a book is locked. ts, codes, locked: time, ticker and new state of each change to locked or unlocked."""
    for code in np.unique(codes):
        own = np.flatnonzero(codes == code)
        ends = [int(ts[place]) for place in own[1::2]]
        for number, place in enumerate(own[::2]):
            yield Gap(tickers[code], int(ts[place]), ends[number] if number < len(ends) else None, "locked book")


def _refuse_duplicates(file: str, book: BookColumns) -> None:
    """Raise `RowError` for a row that repeats the time, number and ticker of the previous row and changes nothing."""
    same = (np.diff(book.ts) == 0) & (np.diff(book.sequence) == 0) & (np.diff(book.ticker) == 0) & (book.counts[1:] == 0)
    if (row := first_true(same) + 1) > 0:
        raise RowError(file, row, f"it is the same as row {row - 1} (sequence_id {book.sequence[row]}); remove it")
