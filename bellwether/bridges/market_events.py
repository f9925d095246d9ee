"""Episodes as events of single markets, and back: the form that simulators of order books have in common.

Bids are bids for YES; a bid for NO is an ask at a dollar less its price.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.episode.content import BookBuilder, Content, Trades, level_of
from bellwether.replay.episode.model import (
    USUAL,
    Market,
    Metadata,
    Settlement,
    dump_metadata,
    dump_settlements,
    grid_prices,
    parse_metadata,
    parse_settlements,
    read_json,
)
from bellwether.replay.tape.layout import INVALID, LEVEL, unpack
from bellwether.replay.units import DOLLAR, MAX_LOTS
from bellwether.units import CentiCents, Lots

#: File next to the market data with the terms that simulators have no place for: names, price grids, fees, lifecycle and settlements.
TERMS = "episode.json"
#: Kinds of events: a level has now `lots`; a trade; levels of the side, up to the price, are removed.
CHANGE, TRADE, CLEAR = range(3)
#: Sides: of bids and of trades whose taker bought YES; of asks and of trades whose taker sold YES; of both.
BID, ASK, BOTH = range(3)


@dataclass(frozen=True, eq=False)
class MarketEvents:
    """Events of one market in chronological order, as int64 columns.

    ts: ns UTC. sequence: number of the message; changes with the same time and number are one message. kind: CHANGE, TRADE or CLEAR. side: BID, ASK or,
    of CLEAR, BOTH. price: of YES, $0.0001. lots: size. trade_ids: of the trades, Arrow strings.
    """

    ts: np.ndarray
    sequence: np.ndarray
    kind: np.ndarray
    side: np.ndarray
    price: np.ndarray
    lots: np.ndarray
    trade_ids: pa.Array

    @property
    def ends_message(self) -> np.ndarray:
        """True for the last event of each message."""
        following = np.ones(len(self.ts), np.bool_)
        following[:-1] = (np.diff(self.ts) != 0) | (np.diff(self.sequence) != 0) | (np.diff(self.kind) != 0)
        return following


def list_events(content: Content, code: int) -> MarketEvents:
    """List the events of the market `code`. At one time trades precede changes, and removals other changes of a message.

    A simulator has no invalid books: all levels are removed where a book becomes invalid, and set again where it is valid.
    """
    book, trades = content.book, content.trades
    kind, ticker, side, price, lots = unpack(book.words)
    own = np.flatnonzero(ticker == code)
    row = np.repeat(np.arange(len(book.ts)), book.counts)[own]
    levels: dict[tuple[int, int], int] = {}
    changes: list[tuple[int, int, int, int]] = []
    is_valid = True
    for place, *word in zip(row.tolist(), *(column[own].tolist() for column in (kind, side, price, lots)), strict=True):
        what, half, at, size = word
        if what == LEVEL:
            levels[half, at] = size
            if is_valid:
                changes.append((place, half, at, size))
            continue
        is_valid = what != INVALID
        changes += [(place, *level, size if is_valid else 0) for level, size in levels.items() if size]
    rows, sides, prices, sizes = np.array(changes, np.int64).reshape(-1, 4).T
    order = np.argsort(2 * rows + (sizes > 0), kind="stable")
    rows, sides, prices, sizes = rows[order], sides[order], prices[order], sizes[order]
    printed = np.flatnonzero(trades.ticker == code)
    columns = {
        "ts": (trades.ts[printed], book.ts[rows]),
        "sequence": (np.zeros(len(printed)), book.sequence[rows]),
        "kind": (np.full(len(printed), TRADE), np.full(len(rows), CHANGE)),
        "side": (trades.taker[printed], sides),
        "price": (trades.price[printed], np.where(sides == BID, prices, DOLLAR - prices)),
        "lots": (trades.lots[printed], sizes),
    }
    whole = {name: np.concatenate(parts).astype(np.int64) for name, parts in columns.items()}
    order = np.argsort(whole["ts"], kind="stable")
    return MarketEvents(**{name: values[order] for name, values in whole.items()}, trade_ids=trades.trade_id.take(pa.array(printed)))


def build_content(markets: Mapping[str, MarketEvents], folder: Path, origin: str, terms: Mapping[str, Market]) -> Content:
    """Build an episode from the events of its markets, by ticker.

    Metadata and settlements are those of the file `TERMS` in `folder`. Without it they are derived: the window is that of the events, the price grid the
    first usual one with all prices unless `terms` has the market, and no market settles. origin: name of the simulator.
    """
    if not any(len(events.ts) for events in markets.values()):
        raise ConfigError(f"importing {folder}: its files have no events; give market data of an episode")
    metadata, settlements = _read_terms(folder, markets) or _derive_terms(markets, folder.name, origin, terms)
    codes = {ticker: code for code, ticker in enumerate(metadata.tickers)}
    builder = BookBuilder(len(codes))
    messages = sorted((message for ticker, events in markets.items() for message in _list_messages(codes[ticker], events)))
    for ts, sequence, code, _, changes in messages:
        levels = dict[int, Lots]()
        for kind, side, price, lots in changes:
            if kind == CLEAR:
                shown = builder.books[code].keys() | levels.keys()
                levels |= {level: Lots(0) for level in shown if _is_cleared(level, side, price)}
            else:
                levels[_level(side, price)] = Lots(lots)
        builder.add(ts, sequence, code, levels)
    return Content(metadata, settlements, builder.columns(), _merge_trades(markets, codes), {})


def _list_messages(code: int, events: MarketEvents) -> list[tuple[int, int, int, int, list[tuple[int, int, int, int]]]]:
    """Return (time, number, code, place, changes) of each message."""
    chosen = np.flatnonzero(events.kind != TRADE)
    columns = [getattr(events, name)[chosen].tolist() for name in ("ts", "sequence", "kind", "side", "price", "lots")]
    grouped = itertools.groupby(zip(*columns, strict=True), key=lambda event: event[:2])
    return [(ts, number, code, place, [event[2:] for event in changes]) for place, ((ts, number), changes) in enumerate(grouped)]


def _level(side: int, price: int) -> int:
    """Return the number of a level in a book of bids for YES and NO."""
    return level_of(side, CentiCents(price if side == BID else DOLLAR - price))


def _is_cleared(level: int, side: int, price: int) -> bool:
    """Return True if a level is removed by CLEAR: of both sides, or of one from its best price to `price`."""
    return side == BOTH or _level(side, price) <= level <= level_of(side, CentiCents(DOLLAR))


def _merge_trades(markets: Mapping[str, MarketEvents], codes: Mapping[str, int]) -> Trades:
    parts = [(codes[ticker], events, np.flatnonzero(events.kind == TRADE)) for ticker, events in markets.items()]
    columns = [np.concatenate([getattr(events, name)[own] for _, events, own in parts]) for name in ("ts", "side", "price", "lots")]
    code = np.concatenate([np.full(len(own), code, np.int64) for code, _, own in parts])
    ids = pa.concat_arrays([events.trade_ids.cast(pa.string()) for _, events, _ in parts])
    order = np.argsort(columns[0], kind="stable")
    ts, side, price, lots = (column[order] for column in columns)
    return Trades(ts, ids.take(pa.array(order)), code[order], side, price, lots)


def write_terms(folder: Path, content: Content) -> None:
    """Write the file of the terms of an episode."""
    document = {"metadata": dump_metadata(content.metadata, content.digest()), "settlements": dump_settlements(content.settlements)}
    (folder / TERMS).write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _read_terms(folder: Path, tickers: Mapping[str, object]) -> tuple[Metadata, tuple[Settlement, ...]] | None:
    """Read metadata and settlements from the file of terms; None without one. Gaps are empty books, and other series are not in the data."""
    if not (folder / TERMS).exists():
        return None
    values = read_json(folder, TERMS)
    if not all(isinstance(values.get(name), dict) for name in ("metadata", "settlements")):
        raise SchemaError(f"reading {folder / TERMS}: it must have the objects metadata and settlements")
    metadata = replace(parse_metadata(values["metadata"]), gaps=(), exogenous=())
    if set(metadata.tickers) != set(tickers):
        raise ConfigError(f"importing {folder}: {TERMS} has the markets {', '.join(metadata.tickers)}, the data {', '.join(tickers)}")
    return metadata, parse_settlements(values["settlements"], metadata.tickers)


def _derive_terms(
    markets: Mapping[str, MarketEvents], name: str, origin: str, terms: Mapping[str, Market]
) -> tuple[Metadata, tuple[Settlement, ...]]:
    times = np.concatenate([events.ts for events in markets.values()])
    known = tuple(terms.get(ticker) or _derive_market(ticker, events) for ticker, events in sorted(markets.items()))
    metadata = Metadata(name, int(times.min()), int(times.max()), known, source={"recorded": f"import: {origin}"})
    return metadata, tuple(Settlement(market.ticker) for market in known)


def _derive_market(ticker: str, events: MarketEvents) -> Market:
    prices = np.unique(events.price[events.kind == CHANGE])
    grid = next((ranges for ranges in USUAL if np.isin(prices, grid_prices(ranges)).all()), USUAL[-1])
    return Market(ticker, price_ranges=grid)


def check_columns(file: Path, fields: Mapping[str, np.ndarray], valid: Sequence[tuple[str, np.ndarray, str]]) -> None:
    """Raise `SchemaError` with file, row (from 0), field and value for the first invalid value. valid: name of a field, mask, and the rule."""
    for name, mask, rule in valid:
        if not mask.all():
            row = int(np.argmin(mask))
            raise SchemaError(f"reading {file}, row {row}, {name} = {fields[name][row]}: {rule}")


def check_amounts(file: Path, fields: Mapping[str, np.ndarray], names: tuple[str, str], events: Mapping[str, np.ndarray]) -> None:
    """Raise `SchemaError` for a price or size that an episode cannot have. fields: as in the file. names: of price and size there. events: converted."""
    is_order = events["kind"] != CLEAR
    lowest = np.where(events["kind"] == TRADE, 1, 0)
    later = np.concatenate([[True], np.diff(events["ts"]) >= 0])
    check_columns(
        file,
        {**fields, "time": events["ts"]},
        (
            ("time", later & (events["ts"] > 0), "it must not be before the previous row, or 1970"),
            (names[0], ~is_order | ((events["price"] > 0) & (events["price"] < DOLLAR)), "it must be a price above 0 and below 1"),
            (names[1], ~is_order | ((events["lots"] >= lowest) & (events["lots"] <= MAX_LOTS)), f"it must be a size up to {MAX_LOTS} lots"),
        ),
    )
