"""Bridge to nautilus_trader: episodes as a ParquetDataCatalog of binary options with book deltas and trades, and back. Needs PyArrow alone.

The catalog is that of version 1 of its format with 16-byte numbers, the default of its packages for Linux and macOS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
from bellwether.replay.episode.model import Market
from bellwether.replay.units import CONTRACT, DOLLAR, SECOND

#: Folders of the catalog.
_DELTAS, _TRADES, _INSTRUMENTS = "order_book_deltas", "trade_tick", "binary_option"
#: Integers per unit of a number, by its bytes.
_SCALES = {16: 10**16, 8: 10**9}
_NUMBER = pa.binary(16)
_DIGITS = {"price_precision": "4", "size_precision": "2"}
_ADD, _UPDATE, _DELETE, _CLEAR = 1, 2, 3, 4
_BUYER, _SELLER = 1, 2
#: Flag of the last delta of a message.
_LAST = 128
_LONGEST_TRADE_ID = 36
_TEXTS = pa.dictionary(pa.int16(), pa.string())
_DELTA_SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("action", pa.uint8()),
            ("side", pa.uint8()),
            ("price", _NUMBER),
            ("size", _NUMBER),
            ("order_id", pa.uint64()),
            ("flags", pa.uint8()),
            ("sequence", pa.uint64()),
            ("ts_event", pa.uint64()),
            ("ts_init", pa.uint64()),
        )
    ]
)
_TRADE_SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("price", _NUMBER),
            ("size", _NUMBER),
            ("aggressor_side", pa.uint8()),
            ("trade_id", pa.string()),
            ("ts_event", pa.uint64()),
            ("ts_init", pa.uint64()),
        )
    ]
)
_INSTRUMENT_SCHEMA = pa.schema(
    {
        "id": pa.dictionary(pa.int64(), pa.string()),
        "raw_symbol": pa.string(),
        "asset_class": pa.dictionary(pa.int8(), pa.string()),
        "currency": _TEXTS,
        "price_precision": pa.uint8(),
        "size_precision": pa.uint8(),
        "price_increment": _TEXTS,
        "size_increment": _TEXTS,
        "activation_ns": pa.uint64(),
        "expiration_ns": pa.uint64(),
        "maker_fee": pa.string(),
        "taker_fee": pa.string(),
        "max_quantity": _TEXTS,
        "min_quantity": _TEXTS,
        "outcome": pa.string(),
        "description": pa.string(),
        "info": pa.binary(),
        "ts_event": pa.uint64(),
        "ts_init": pa.uint64(),
    }
)


def write_episode(folder: Path, episode: Episode) -> list[str]:
    """Write an episode as a catalog, with its other terms in episode.json, atomically. Returns the ids of the instruments.

    Each market is one instrument: a binary option on YES without fees. An earlier export is replaced. Raises `ConfigError`
    for a folder with other contents.
    """
    if folder.exists() and any(path.name not in {"data", TERMS} for path in folder.iterdir()):
        raise ConfigError(f"exporting to {folder}: it contains something other than a catalog; name another folder")
    metadata, names = episode.metadata, []
    with atomic_folder(folder, TERMS) as draft:
        for code, market in enumerate(metadata.markets):
            name = f"{market.ticker}.{metadata.venue.upper()}"
            events = list_events(episode.content, code)
            _write(draft, _INSTRUMENTS, name, _instrument_table(name, market, metadata.start, market.close or metadata.end))
            _write(draft, _DELTAS, name, _delta_table(events).replace_schema_metadata({"instrument_id": name, **_DIGITS}))
            _write(draft, _TRADES, name, _trade_table(events).replace_schema_metadata({"instrument_id": name, **_DIGITS}))
            names.append(name)
        write_terms(draft, episode.content)
    return names


def _write(folder: Path, kind: str, instrument: str, table: pa.Table) -> None:
    """Write a table as the only file of an instrument, named after its first and last time; nothing without rows."""
    if table.num_rows:
        first, last = (_format_time(table["ts_init"][place].as_py()) for place in (0, table.num_rows - 1))
        target = folder / "data" / kind / instrument.replace("/", "") / f"{first}_{last}.parquet"
        target.parent.mkdir(parents=True)
        pq.write_table(table, target, compression="zstd")


def _format_time(at: int) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%dT%H-%M-%S}-{at % SECOND:09}Z"


def _instrument_table(name: str, market: Market, start: int, end: int) -> pa.Table:
    step = min(step for _, _, step in market.price_ranges)
    row = {
        "id": name,
        "raw_symbol": market.ticker,
        "asset_class": "ALTERNATIVE",
        "currency": "USD",
        "price_precision": 4,
        "size_precision": 2,
        "price_increment": f"{step / DOLLAR:.4f}",
        "size_increment": "0.01",
        "activation_ns": min(start if market.open_time is None else market.open_time, end),
        "expiration_ns": end,
        "maker_fee": "0",
        "taker_fee": "0",
        "outcome": "Yes",
        "description": market.title,
        "info": b"{}",
        "ts_event": start,
        "ts_init": start,
    }
    return pa.Table.from_pylist([row], schema=_INSTRUMENT_SCHEMA).replace_schema_metadata({"class": "BinaryOption"})


def _delta_table(events: MarketEvents) -> pa.Table:
    chosen = np.flatnonzero(events.kind == CHANGE)
    ts, lots = events.ts[chosen], events.lots[chosen]
    columns = {
        "action": np.where(lots > 0, _UPDATE, _DELETE),
        "side": events.side[chosen] + 1,
        "price": _to_numbers(events.price[chosen], DOLLAR),
        "size": _to_numbers(lots, CONTRACT),
        "order_id": np.zeros(len(chosen), np.int64),
        "flags": np.where(events.ends_message[chosen], _LAST, 0),
        "sequence": events.sequence[chosen],
        "ts_event": ts,
        "ts_init": ts,
    }
    return _build_table(columns, _DELTA_SCHEMA)


def _trade_table(events: MarketEvents) -> pa.Table:
    chosen = np.flatnonzero(events.kind == TRADE)
    ts = events.ts[chosen]
    ids = [name if name and len(name) <= _LONGEST_TRADE_ID else str(place) for place, name in enumerate(events.trade_ids.to_pylist())]
    columns = {
        "price": _to_numbers(events.price[chosen], DOLLAR),
        "size": _to_numbers(events.lots[chosen], CONTRACT),
        "aggressor_side": np.where(events.side[chosen] == BID, _BUYER, _SELLER),
        "trade_id": pa.array(ids, pa.string()),
        "ts_event": ts,
        "ts_init": ts,
    }
    return _build_table(columns, _TRADE_SCHEMA)


def _build_table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column).cast(schema.field(name).type) for name, column in columns.items()
    ]
    return pa.table(arrays, schema=schema)


def _to_numbers(values: np.ndarray, unit: int) -> pa.Array:
    """Convert integers to the catalog's numbers. unit: integers per whole."""
    distinct, places = np.unique(values, return_inverse=True)
    numbers = [(value * (_SCALES[16] // unit)).to_bytes(16, "little", signed=True) for value in distinct.tolist()]
    return pa.array(numbers, _NUMBER).take(pa.array(places))


def read_episode(folder: Path) -> Content:
    """Read an episode from a catalog with book deltas and trades of binary options, and episode.json if there is one.

    Times are `ts_event`. Without episode.json the instruments give price grids and ends of trading, and no market settles. Raises `SchemaError` with
    file, row, field and value, also for single orders and trades without a taker.
    """
    data = folder / "data"
    names = sorted({path.name for kind in (_DELTAS, _TRADES, _INSTRUMENTS) for path in (data / kind).glob("*") if path.is_dir()})
    events, terms = dict[str, MarketEvents](), dict[str, Market]()
    for name in names:
        ticker = name.rpartition(".")[0] or name
        events[ticker] = _join([*_read_deltas(data, name), *_read_trades(data, name)])
        for _, table in _read_tables(data, _INSTRUMENTS, name):
            row = table.to_pylist()[0]
            step = round(float(row["price_increment"]) * DOLLAR)
            terms[ticker] = Market(ticker, row["description"], row["activation_ns"], row["expiration_ns"], ((0, DOLLAR, step),))  # type: ignore[arg-type]
    return build_content(events, folder, "nautilus_trader", terms)


def _join(parts: list[MarketEvents]) -> MarketEvents:
    """Combine events in chronological order; trades precede changes at the same time."""
    names = ("ts", "sequence", "kind", "side", "price", "lots")
    columns = {name: np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names}
    order = np.lexsort((columns["kind"] != TRADE, columns["ts"]))
    ids = pa.concat_arrays([pa.array([], pa.string()), *(part.trade_ids for part in parts)])
    return MarketEvents(**{name: values[order] for name, values in columns.items()}, trade_ids=ids)


def _read_tables(data: Path, kind: str, instrument: str) -> Iterator[tuple[Path, pa.Table]]:
    """Yield the files of an instrument in chronological order."""
    for file in sorted((data / kind / instrument).glob("*.parquet")):
        try:
            yield file, pq.ParquetFile(file).read()
        except (OSError, pa.ArrowException) as error:
            raise SchemaError(f"reading {file}: not a readable Parquet file ({str(error).splitlines()[0]}); restore it") from None


def _read_deltas(data: Path, instrument: str) -> Iterator[MarketEvents]:
    for file, table in _read_tables(data, _DELTAS, instrument):
        fields = _list_columns(file, table, ("action", "side", "order_id", "sequence", "ts_event"))
        action, side = fields["action"], fields["side"]
        check_columns(
            file,
            fields,
            (
                ("action", np.isin(action, (_ADD, _UPDATE, _DELETE, _CLEAR)), "it must be 1 to 4: add, update, delete or clear"),
                ("side", np.isin(side, (1, 2)) | (action == _CLEAR), "it must be 1 for buy or 2 for sell"),
                ("order_id", (fields["order_id"] == 0) | (action == _CLEAR), "an episode has no single orders; give deltas by price (L2)"),
            ),
        )
        kind = np.where(action == _CLEAR, CLEAR, CHANGE)
        lots = np.where(action == _DELETE, 0, _read_numbers(file, table, "size", CONTRACT))
        events = {"kind": kind, "side": np.where(kind == CLEAR, BOTH, side - 1), "lots": lots}
        yield _build_events(file, table, fields["sequence"], events, pa.array([], pa.string()))


def _read_trades(data: Path, instrument: str) -> Iterator[MarketEvents]:
    for file, table in _read_tables(data, _TRADES, instrument):
        fields = _list_columns(file, table, ("aggressor_side", "ts_event"))
        taker = fields["aggressor_side"]
        check_columns(file, fields, (("aggressor_side", np.isin(taker, (_BUYER, _SELLER)), "it must be 1 for a buyer or 2 for a seller"),))
        lots = _read_numbers(file, table, "size", CONTRACT)
        events = {"kind": np.full(len(taker), TRADE), "side": np.where(taker == _BUYER, BID, ASK), "lots": lots}
        ids = pa.array([f"{instrument}-{name}" for name in table["trade_id"].to_pylist()], pa.string())
        yield _build_events(file, table, np.zeros(len(taker), np.int64), events, ids)


def _build_events(file: Path, table: pa.Table, sequence: np.ndarray, events: dict[str, np.ndarray], ids: pa.Array) -> MarketEvents:
    price = _read_numbers(file, table, "price", DOLLAR)
    events |= {"ts": _list_columns(file, table, ("ts_event",))["ts_event"], "sequence": sequence, "price": price}
    check_amounts(file, {"price": price / DOLLAR, "size": events["lots"] / CONTRACT}, ("price", "size"), events)
    return MarketEvents(**events, trade_ids=ids)


def _list_columns(file: Path, table: pa.Table, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return columns as int64. Raises `SchemaError` for a missing column, a null, and a column of another type."""
    found = {}
    for name in names:
        if name not in table.schema.names:
            raise SchemaError(f"reading {file}: column {name} is missing; give a catalog of nautilus_trader, version 1")
        column = table[name]
        if not pa.types.is_integer(column.type) or column.null_count:
            raise SchemaError(
                f"reading {file}, {name}: it has {column.null_count} nulls and the type {column.type}; give a catalog of version 1"
            )
        found[name] = column.to_numpy().astype(np.int64)
    return found


def _read_numbers(file: Path, table: pa.Table, name: str, unit: int) -> np.ndarray:
    """Return a column of numbers as integers. unit: integers per whole. Raises `SchemaError` for a number that is no whole one of them."""
    kind = table.schema.field(name).type if name in table.schema.names else None
    if not isinstance(kind, pa.FixedSizeBinaryType) or kind.byte_width not in _SCALES or table[name].null_count:
        raise SchemaError(f"reading {file}, {name}: it is no column of numbers of 8 or 16 bytes ({kind}); give a catalog of version 1")
    encoded = table[name].combine_chunks().dictionary_encode()
    step = _SCALES[kind.byte_width] // unit
    values = [divmod(int.from_bytes(number, "little", signed=True), step) for number in encoded.dictionary.to_pylist()]
    places = encoded.indices.to_numpy()
    for place, (value, rest) in enumerate(values):
        if rest or abs(value) >= 2**62:
            row = int(np.argmax(places == place))
            raise SchemaError(
                f"reading {file}, row {row}, {name} = {value / unit + rest / step / unit}: it must be a whole number of 1/{unit}"
            )
    return np.array([value for value, _ in values], np.int64)[places]
