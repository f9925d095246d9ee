"""Writing an episode's folder: whole, checked as it will be read, the same bytes again for the same draft."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from bellwether.errors import ConfigError, SchemaError
from bellwether.files import atomic_folder
from bellwether.places import place
from bellwether.replay.arrow import words_of
from bellwether.replay.episode.books import KINDS, SIDES
from bellwether.replay.episode.draft import EpisodeDraft
from bellwether.replay.episode.exogenous import EXOGENOUS
from bellwether.replay.episode.kernels import as_messages
from bellwether.replay.episode.metadata import METADATA, SETTLEMENT, dump_metadata
from bellwether.replay.episode.reader import Episode, load
from bellwether.replay.episode.settlements import dump_settlements
from bellwether.replay.tape.grid import level_grid

TIME = pa.timestamp("ns", "UTC")
BOOK = pa.schema(
    [
        ("ts", TIME),
        ("sequence_id", pa.int64()),
        ("ticker", pa.string()),
        ("kind", pa.string()),
        ("side", pa.string()),
        ("price_mills", pa.int32()),
        ("lots", pa.int64()),
    ]
)
TRADES = pa.schema(
    [
        ("ts", TIME),
        ("trade_id", pa.string()),
        ("ticker", pa.string()),
        ("taker_side", pa.string()),
        ("yes_price_mills", pa.int32()),
        ("lots", pa.int64()),
    ]
)
SERIES = pa.schema([("ts", TIME), ("name", pa.string()), ("value", pa.float64())])
_ROW_GROUP = 262_144


def write(folder: Path, draft: EpisodeDraft) -> Episode:
    """Write `draft` as the episode in `folder`, in place of an earlier one.

    Raises `SchemaError` as `load` does, and `ConfigError` for a folder that holds something else; nothing is written then.
    """
    folder = place(folder)
    if folder.exists() and not (folder / METADATA).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"writing the episode {draft.metadata.episode_id}: {folder} holds something that is no episode; name another folder"
        )
    with atomic_folder(folder, METADATA) as made:
        _table(made / "orderbook.parquet", draft.book, BOOK)
        _table(made / "trades.parquet", draft.trades, TRADES)
        if draft.exogenous is not None:
            _table(made / EXOGENOUS, draft.exogenous, SERIES)
        _json(made / SETTLEMENT, dump_settlements(draft.settlements))
        metadata = dump_metadata(draft.metadata, "")
        del metadata["digest"]
        _json(made / METADATA, metadata)
        try:
            checked = load(made)
        except SchemaError as error:
            raise SchemaError(str(error).replace(str(made), str(folder))) from None
        _json(made / METADATA, dump_metadata(draft.metadata, checked.digest))
    return replace(checked, folder=folder).holding(checked.content)


def _table(path: Path, table: pa.Table, schema: pa.Schema) -> None:
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


def _json(path: Path, values: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def draft_of(episode: Episode) -> EpisodeDraft:
    """A loaded episode, of either format, as a draft in this one: `write` makes of it an episode with the same digest."""
    content = episode.content
    book, trades = content.book, content.trades
    same = (np.diff(book.ts) == 0) & (np.diff(book.sequence) == 0) & (np.diff(book.ticker) == 0)
    row, kind, side, price, lots = as_messages(book.ticker, book.end, book.words, level_grid(content.metadata.markets).argmax(axis=1))
    # Rows that only their position in the file distinguished are renumbered.
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
        schema=BOOK,
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
        schema=TRADES,
    )
    return EpisodeDraft(content.metadata, messages, prints, content.settlements, _series(content.exogenous))


def _series(exogenous: Any) -> pa.Table | None:
    if not exogenous:
        return None
    ts = np.concatenate([at for at, _ in exogenous.values()])
    order = np.argsort(ts, kind="stable")
    names = np.repeat(np.array(list(exogenous)), [len(at) for at, _ in exogenous.values()])
    values = np.concatenate([value for _, value in exogenous.values()])
    return pa.table([pa.array(ts[order]).view(TIME), pa.array(names[order], pa.string()), pa.array(values[order])], schema=SERIES)
