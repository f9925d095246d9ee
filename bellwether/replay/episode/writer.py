"""Writing of an episode's folder: atomically, after the same checks as reading, and with the same bytes for the same draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bellwether.errors import ConfigError, SchemaError
from bellwether.files import atomic_folder
from bellwether.places import place
from bellwether.replay.arrow import values_of, words_of
from bellwether.replay.episode.books import KINDS, SIDES
from bellwether.replay.episode.content import choose_format
from bellwether.replay.episode.kernels import expand_messages
from bellwether.replay.episode.metadata import EXOGENOUS, FORMAT, METADATA, SETTLEMENT, Metadata, Settlement, dump_metadata
from bellwether.replay.episode.price_levels import PriceLevels
from bellwether.replay.episode.reader import Episode, load
from bellwether.replay.episode.settlements import dump_settlements
from bellwether.replay.units import MILL

TIME = pa.timestamp("ns", "UTC")
SERIES = pa.schema([("ts", TIME), ("name", pa.string()), ("value", pa.float64())])
_ROW_GROUP = 262_144


@dataclass(frozen=True)
class EpisodeDraft:
    """Content of an episode that is to be written.

    book: Arrow table, one row per change, in the order of processing: ts timestamp[ns, UTC], sequence_id int64, ticker, kind
    (snapshot_start, level, invalid), side (yes, no; null in other rows than levels), price_centicents int32 ($0.0001) and lots int64 (null
    likewise; lots is the level's new size). Rows with equal ts, sequence_id and ticker are one message. trades: ts, trade_id, ticker,
    taker_side (yes, no), yes_price_centicents int32, lots int64. Prices can also be tenths of a cent: price_mills, yes_price_mills.
    settlements: of any tickers, the others are unknown. exogenous: ts, name, value float64, in chronological order, names as in the
    metadata.
    """

    metadata: Metadata
    book: pa.Table
    trades: pa.Table
    settlements: Sequence[Settlement] = ()
    exogenous: pa.Table | None = None


def book_schema(unit: int = 1) -> pa.Schema:
    """Return the schema of `orderbook.parquet` with prices in units of `unit` × $0.0001."""
    text, price = pa.string(), _name_price_column("price", unit)
    names = {"ts": TIME, "sequence_id": pa.int64(), "ticker": text, "kind": text, "side": text, price: pa.int32(), "lots": pa.int64()}
    return pa.schema(list(names.items()))


def trade_schema(unit: int = 1) -> pa.Schema:
    """Return the schema of `trades.parquet` with prices in units of `unit` × $0.0001."""
    text, price = pa.string(), _name_price_column("yes_price", unit)
    return pa.schema([("ts", TIME), ("trade_id", text), ("ticker", text), ("taker_side", text), (price, pa.int32()), ("lots", pa.int64())])


def _name_price_column(name: str, unit: int) -> str:
    return f"{name}_mills" if unit == MILL else f"{name}_centicents"


def write(folder: Path, draft: EpisodeDraft) -> Episode:
    """Write `draft` as the episode in `folder`, replacing an episode that is there. Returns the written episode.

    Raises `SchemaError` as `load` does, and `ConfigError` for a folder with other content; nothing is written then.
    """
    folder = place(folder)
    if folder.exists() and not (folder / METADATA).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"writing the episode {draft.metadata.episode_id}: {folder} contains something other than an episode; name another folder"
        )
    book, trades = _convert_to_centicents(draft.book, "price"), _convert_to_centicents(draft.trades, "yes_price")
    form = _draft_format(draft.metadata, book, trades)
    unit = MILL if form == FORMAT else 1
    with atomic_folder(folder, METADATA) as new:
        _write_table(new / "orderbook.parquet", _convert_to_unit(book, "price", unit), book_schema(unit))
        _write_table(new / "trades.parquet", _convert_to_unit(trades, "yes_price", unit), trade_schema(unit))
        if draft.exogenous is not None:
            _write_table(new / EXOGENOUS, draft.exogenous, SERIES)
        _write_json(new / SETTLEMENT, dump_settlements(draft.settlements))
        metadata = dump_metadata(draft.metadata, "", form)
        del metadata["digest"]
        _write_json(new / METADATA, metadata)
        try:
            checked = load(new)
        except SchemaError as error:
            raise SchemaError(str(error).replace(str(new), str(folder))) from None
        _write_json(new / METADATA, dump_metadata(draft.metadata, checked.digest, form))
    return replace(checked, folder=folder).replace_content(checked.content)


def _convert_to_centicents(table: pa.Table, name: str) -> pa.Table:
    """Convert a column of prices from tenths of a cent to $0.0001, if it has that unit. name: of the column, without unit."""
    mills = _name_price_column(name, MILL)
    if mills not in table.schema.names or not pa.types.is_integer(table.schema.field(mills).type):
        return table
    prices = pc.multiply(table.column(mills).cast(pa.int64()), MILL)
    return table.set_column(table.schema.names.index(mills), _name_price_column(name, 1), prices)


def _convert_to_unit(table: pa.Table, name: str, unit: int) -> pa.Table:
    """Convert a column of prices from $0.0001 to units of `unit` × $0.0001. name: of the column, without unit."""
    fine = _name_price_column(name, 1)
    if unit == 1 or fine not in table.schema.names:
        return table
    return table.set_column(table.schema.names.index(fine), _name_price_column(name, unit), pc.divide(table.column(fine), unit))


def _draft_format(metadata: Metadata, book: pa.Table, trades: pa.Table) -> str:
    """Return the format of episodes that can store a draft's prices and grids."""
    prices = [
        np.unique(values_of(table.column(name).combine_chunks().drop_null().cast(pa.int64())))
        for table, name in ((book, "price_centicents"), (trades, "yes_price_centicents"))
        if name in table.schema.names and pa.types.is_integer(table.schema.field(name).type)
    ]
    return choose_format(metadata, np.concatenate([np.zeros(0, np.int64), *prices]))


def _write_table(path: Path, table: pa.Table, schema: pa.Schema) -> None:
    """Write the columns of `schema` from a table as Parquet. Raises `SchemaError` for missing columns or values that do not fit."""
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing:
        raise SchemaError(f"writing {path.name}: column {', '.join(missing)} is missing; the draft has {', '.join(table.schema.names)}")
    try:
        columns = [table.column(name).cast(schema.field(name).type).combine_chunks() for name in schema.names]
    except pa.ArrowInvalid as error:
        raise SchemaError(f"writing {path.name}: {error}; columns are {', '.join(f'{f.name} {f.type}' for f in schema)}") from None
    text = [field.name for field in schema if pa.types.is_string(field.type) and field.name != "trade_id"]
    pq.write_table(
        pa.table(columns, schema=schema), path, compression="zstd", use_dictionary=text, row_group_size=_ROW_GROUP, store_schema=True
    )


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def build_draft(episode: Episode) -> EpisodeDraft:
    """Convert a loaded episode to a draft in the native format. Writing the draft gives an episode of the same digest."""
    content = episode.content
    book, trades = content.book, content.trades
    same = (np.diff(book.ts) == 0) & (np.diff(book.sequence) == 0) & (np.diff(book.ticker) == 0)
    levels = PriceLevels(content.metadata.markets)
    row, kind, side, price, lots = expand_messages(book.ticker, book.end, book.words, levels.first(), levels.prices, levels.number)
    # Rows distinguished only by their position in the file are renumbered.
    sequence = np.arange(len(book.ts)) if same.any() else book.sequence
    is_level = kind == KINDS.index("level")

    messages = pa.table(
        [
            pa.array(book.ts[row]).view(TIME),
            pa.array(sequence[row]),
            words_of(book.ticker[row], episode.tickers),
            words_of(kind, KINDS),
            words_of(np.where(is_level, side, -1), SIDES),
            pa.array(price.astype(np.int32), mask=~is_level),
            pa.array(lots, mask=~is_level),
        ],
        schema=book_schema(),
    )
    prints = pa.table(
        [
            pa.array(trades.ts).view(TIME),
            trades.trade_id,
            words_of(trades.ticker, episode.tickers),
            words_of(trades.taker, SIDES),
            pa.array(trades.price),
            pa.array(trades.lots),
        ],
        schema=trade_schema(),
    )
    return EpisodeDraft(content.metadata, messages, prints, content.settlements, _build_series(content.exogenous))


def _build_series(exogenous: Any) -> pa.Table | None:
    """Build the table of exogenous series in chronological order; None without any."""
    if not exogenous:
        return None
    ts = np.concatenate([at for at, _ in exogenous.values()])
    order = np.argsort(ts, kind="stable")
    names = np.repeat(np.array(list(exogenous)), [len(at) for at, _ in exogenous.values()])
    values = np.concatenate([value for _, value in exogenous.values()])
    return pa.table([pa.array(ts[order]).view(TIME), pa.array(names[order], pa.string()), pa.array(values[order])], schema=SERIES)
