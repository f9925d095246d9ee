"""Content of an episode as the simulator's integers, its digest, and its tables.

A *word* is a change of one level packed into 64 bits (`tape.layout`). A *message* is what the venue sent about one market at one time: one
row of the order book, with the words of all levels that it changed.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bellwether.replay.arrow import texts_of, values_of
from bellwether.replay.episode.model import Metadata, Settlement, dump_metadata, dump_settlements
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, freeze, pack
from bellwether.replay.units import DOLLAR

if TYPE_CHECKING:
    from bellwether.units import CentiCents, Lots

ORDERBOOK, TRADES, EXOGENOUS = "orderbook.parquet", "trades.parquet", "exogenous.parquet"
_TIME = pa.timestamp("ns", "UTC")
#: Columns of the files. Times are ns UTC, `ticker` is the position of the market in the metadata, other columns are those of `BookColumns`,
#: `Trades` and `Content.exogenous`.
SCHEMAS = {
    ORDERBOOK: pa.schema([("ts", _TIME), ("sequence", pa.int64()), ("ticker", pa.int32()), ("words", pa.list_(pa.int64()))]),
    TRADES: pa.schema(
        [
            ("ts", _TIME),
            ("trade_id", pa.string()),
            ("ticker", pa.int32()),
            ("taker", pa.int8()),
            ("price", pa.int32()),
            ("lots", pa.int64()),
        ]
    ),
    EXOGENOUS: pa.schema([("ts", _TIME), ("name", pa.string()), ("value", pa.float64())]),
}
#: Side and price of a level as one number, in the order of words.
Level = int
_SIDE = 1 << 14


@dataclass(frozen=True, eq=False)
class BookColumns:
    """Rows of an order book, one per message of one market, each with the changes of levels that it contains.

    ts: int64[r], ns UTC, non-decreasing. sequence: int64[r]. ticker: int32[r], code. end: int64[r], index in `words` just after the row's
    changes; a row may have none. words: int64[m], packed as on a tape; of a row INVALID first, then levels by side and price, then VALID.
    """

    ts: np.ndarray
    sequence: np.ndarray
    ticker: np.ndarray
    end: np.ndarray
    words: np.ndarray

    def __post_init__(self) -> None:
        _freeze_fields(self, ticker=np.int32)

    @property
    def counts(self) -> np.ndarray:
        """Number of changes of each row, int64[r]."""
        return np.diff(self.end, prepend=0)

    def table(self) -> pa.Table:
        """Return the table that `orderbook.parquet` contains."""
        offsets = pa.array(np.concatenate([[0], self.end]).astype(np.int32))
        words = pa.ListArray.from_arrays(offsets, pa.array(self.words))
        return pa.table([pa.array(self.ts).cast(_TIME), self.sequence, self.ticker, words], schema=SCHEMAS[ORDERBOOK])

    @classmethod
    def of(cls, table: pa.Table) -> BookColumns:
        """Return the columns of a table of `orderbook.parquet`, without a copy."""
        ts, sequence, ticker, words = (join_chunks(column) for column in table.columns)
        offsets = values_of(words.offsets).astype(np.int64)
        low, high = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        values = words.values.slice(low, high - low)
        return cls(values_of(ts.cast(pa.int64())), values_of(sequence), values_of(ticker), offsets[1:] - low, values_of(values))


@dataclass(frozen=True, eq=False)
class Trades:
    """Trades of an episode.

    ts: int64[n], ns UTC, non-decreasing. trade_id: Arrow strings. ticker: int32[n], code. taker: int8[n], side that the taker bought.
    price: int32[n], $0.0001 of YES. lots: int64[n].
    """

    ts: np.ndarray
    trade_id: pa.Array
    ticker: np.ndarray
    taker: np.ndarray
    price: np.ndarray
    lots: np.ndarray

    def __post_init__(self) -> None:
        _freeze_fields(self, ticker=np.int32, taker=np.int8, price=np.int32)

    @property
    def passive(self) -> tuple[np.ndarray, np.ndarray]:
        """Side and price (int64 each) of the resting bids that the trades hit."""
        side = 1 - self.taker.astype(np.int64)
        return freeze(side), freeze(np.where(side == 0, self.price, DOLLAR - self.price))

    def table(self) -> pa.Table:
        """Return the table that `trades.parquet` contains."""
        columns = [self.trade_id.cast(pa.string()), *(getattr(self, name) for name in ("ticker", "taker", "price", "lots"))]
        return pa.table([pa.array(self.ts).cast(_TIME), *columns], schema=SCHEMAS[TRADES])

    @classmethod
    def of(cls, table: pa.Table) -> Trades:
        """Return the columns of a table of `trades.parquet`, without a copy."""
        ts, trade_id, *numbers = (join_chunks(column) for column in table.columns)
        return cls(values_of(ts.cast(pa.int64())), trade_id, *map(values_of, numbers))


@dataclass(frozen=True, eq=False)
class Content:
    """All data of an episode. exogenous: (ts int64, ns UTC, non-decreasing; value float64) by name of the series."""

    metadata: Metadata
    settlements: tuple[Settlement, ...]
    book: BookColumns
    trades: Trades
    exogenous: Mapping[str, tuple[np.ndarray, np.ndarray]]

    def digest(self) -> str:
        """Compute the SHA-256, in hex, of all that can affect results: not of id, titles, descriptions, sources, rules and bankroll."""
        digest = hashlib.sha256(json.dumps(_terms(self), sort_keys=True, separators=(",", ":")).encode())
        for part in (self.book, self.trades):
            for name in part.__dataclass_fields__:
                values = getattr(part, name)
                _hash_parts(digest, name, _string_parts(values) if name == "trade_id" else (values,))
        for name in sorted(self.exogenous):
            _hash_parts(digest, name, self.exogenous[name])
        return digest.hexdigest()

    def exogenous_table(self) -> pa.Table:
        """Return the table that `exogenous.parquet` contains: all series in chronological order."""
        ts = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in self.exogenous.values())])
        values = np.concatenate([np.zeros(0), *(value for _, value in self.exogenous.values())])
        codes = np.repeat(np.arange(len(self.exogenous)), [len(at) for at, _ in self.exogenous.values()])
        order = np.argsort(ts, kind="stable")
        names = pa.array(list(self.exogenous), pa.string()).take(pa.array(codes[order]))
        return pa.table([pa.array(ts[order]).cast(_TIME), names, values[order]], schema=SCHEMAS[EXOGENOUS])


def _freeze_fields(columns: Any, **dtypes: Any) -> None:
    """Make the arrays of a dataclass contiguous and read-only, int64 unless `dtypes` names another type."""
    for name in columns.__dataclass_fields__:
        if name != "trade_id":
            object.__setattr__(columns, name, freeze(getattr(columns, name), dtypes.get(name, np.int64)))


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _hash_parts(digest: Any, name: str, parts: tuple[np.ndarray, ...]) -> None:
    """Add arrays with their name, type and length to a hash."""
    for values in parts:
        digest.update(f"{name}:{values.dtype.str}:{len(values)}:".encode())
        digest.update(np.ascontiguousarray(values).data)


def _string_parts(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths and bytes of Arrow strings, as arrays."""
    offsets, text = texts_of(values)
    return np.diff(offsets), text[offsets[0] : offsets[-1]]


_DESCRIPTIVE = {"episode_id", "event_slug", "title", "description", "rules", "bankroll", "digest", "source", "observation_depth"}


def _terms(content: Content) -> dict[str, Any]:
    """Return the metadata and settlements that can affect results, as JSON values."""
    terms = {name: value for name, value in dump_metadata(content.metadata, "").items() if name not in _DESCRIPTIVE}
    for market in terms["markets"]:
        del market["title"]
        for change in (*market["lifecycle"], *market["grid_changes"]):
            del change["source"]
    settled = {ticker: {**values, "source": None} for ticker, values in dump_settlements(content.settlements).items()}
    return {**terms, "settlements": settled}


class BookBuilder:
    """Builder of book rows from messages, which tracks the markets' books to find the levels that each message changes."""

    def __init__(self, markets: int) -> None:
        self.books: list[dict[Level, int]] = [{} for _ in range(markets)]
        self._invalid = [False] * markets
        self._ts, self._sequence, self._ticker, self._end, self._words = (array("q") for _ in range(5))

    def add(
        self, ts: int, sequence: int, ticker: int, levels: Mapping[Level, Lots], *, is_whole: bool = False, invalid: bool | None = None
    ) -> None:
        """Add a message.

        Args:
            ts: Time, ns UTC.
            sequence: Number of the message at the venue.
            ticker: Code of the market.
            levels: New size of levels (`level_of`), in lots; 0 removes the level.
            is_whole: The levels are the whole book.
            invalid: The book is invalid from this message on; False: valid again. None leaves it as it is.
        """
        book, words = self.books[ticker], self._words
        stated = {level for level, _ in levels.items() ^ book.items()} if is_whole else levels
        changed = sorted((level, lots) for level in stated if book.get(level, 0) != (lots := levels.get(level, 0)))
        if invalid and not self._invalid[ticker]:
            words.append(pack(INVALID, ticker, 0, 0, 0))
        for level, lots in changed:
            words.append(pack(LEVEL, ticker, level // _SIDE, level % _SIDE, lots))
            if lots:
                book[level] = lots
            else:
                del book[level]
        if invalid is False and self._invalid[ticker]:
            words.append(pack(VALID, ticker, 0, 0, 0))
        self._invalid[ticker] = self._invalid[ticker] if invalid is None else invalid
        for column, value in ((self._ts, ts), (self._sequence, sequence), (self._ticker, ticker), (self._end, len(words))):
            column.append(value)

    def columns(self) -> BookColumns:
        """Return the rows of all messages."""
        return BookColumns(*(np.array(column, np.int64) for column in (self._ts, self._sequence, self._ticker, self._end, self._words)))


def level_of(side: int, price: CentiCents) -> Level:
    """Return the number of a level in `BookBuilder`. side: 0 yes, 1 no."""
    return side * _SIDE + price


def no_trades() -> Trades:
    """Return `Trades` without any rows."""
    empty = np.zeros(0, np.int64)
    return Trades(empty, pa.array([], pa.string()), empty, empty, empty, empty)


def series_of(table: pa.Table, names: Iterable[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the exogenous series of a table of `exogenous.parquet` by name, as in `Content`."""
    ts, name, value = (join_chunks(column) for column in table.columns)
    code = np.array(name.to_pylist(), object)
    times, values = values_of(ts.cast(pa.int64())), values_of(value)
    return {series: (freeze(times[code == series]), freeze(values[code == series], np.float64)) for series in names}
