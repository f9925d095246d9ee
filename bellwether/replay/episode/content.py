"""Content of an episode as integers, and its digest.

The digest is the same for every encoding of the files, and for books stored as snapshots or as changes. A *word* is a change of one level
packed into 64 bits (`tape.layout`). Episodes are stored in one of two formats, the first with prices in tenths of a cent, the finer one in
$0.0001.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bellwether.replay.arrow import texts_of
from bellwether.replay.episode.metadata import FINE_FORMAT, FORMAT, Metadata, Settlement, dump_market, dump_metadata
from bellwether.replay.episode.price_levels import are_in_mills
from bellwether.replay.episode.settlements import dump_settlements
from bellwether.replay.tape.layout import LEVEL, freeze, unpack
from bellwether.replay.units import DOLLAR, MILL

if TYPE_CHECKING:
    import pyarrow as pa


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
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, freeze(getattr(self, name), np.int32 if name == "ticker" else np.int64))

    @property
    def counts(self) -> np.ndarray:
        """Number of changes of each row, int64[r]."""
        return np.diff(self.end, prepend=0)


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
        for name, dtype in (("ts", np.int64), ("ticker", np.int32), ("taker", np.int8), ("price", np.int32), ("lots", np.int64)):
            object.__setattr__(self, name, freeze(getattr(self, name), dtype))

    @property
    def passive(self) -> tuple[np.ndarray, np.ndarray]:
        """Side and price (int64 each) of the resting bids that the trades hit."""
        side = 1 - self.taker.astype(np.int64)
        return freeze(side), freeze(np.where(side == 0, self.price, DOLLAR - self.price))


@dataclass(frozen=True, eq=False)
class Content:
    """All data on which a replay depends. exogenous: (ts int64, ns UTC, non-decreasing; value float64) by name of the series."""

    metadata: Metadata
    settlements: tuple[Settlement, ...]
    book: BookColumns
    trades: Trades
    exogenous: Mapping[str, tuple[np.ndarray, np.ndarray]]

    def digest(self) -> str:
        """Compute the SHA-256, in hex, of all that can affect results: not of id, titles, descriptions, sources, rules and bankroll."""
        words, price = self.book.words, self.trades.price
        kind, _, _, level, _ = unpack(words)
        form = choose_format(self.metadata, level[kind == LEVEL], price)
        if form == FORMAT:
            words, price = _convert_words_to_mills(words), price // MILL
        digest = hashlib.sha256(json.dumps(_terms(self, form), sort_keys=True, separators=(",", ":")).encode())
        for part in (self.book, self.trades):
            for name in part.__dataclass_fields__:
                values = words if name == "words" else price if name == "price" else getattr(part, name)
                _hash_parts(digest, name, _string_parts(values) if name == "trade_id" else (values,))
        for name in sorted(self.exogenous):
            _hash_parts(digest, name, self.exogenous[name])
        return digest.hexdigest()


def choose_format(metadata: Metadata, *prices: np.ndarray) -> str:
    """Return the format that can store these prices: the first one, or the finer one for finer prices or changing price grids."""
    grids = [ranges for market in metadata.markets for _, ranges in market.grids]
    plain = len(grids) == len(metadata.markets) and are_in_mills(grids, *prices)
    return FORMAT if plain else FINE_FORMAT


def _convert_words_to_mills(words: np.ndarray) -> np.ndarray:
    """Convert words to the layout of the first format, whose prices are tenths of a cent, for its digest."""
    kind, ticker, side, price, value = unpack(words)
    return kind | side << 4 | price // MILL << 5 | ticker << 15 | value << 29


def _hash_parts(digest: Any, name: str, parts: tuple[np.ndarray, ...]) -> None:
    """Add arrays with their name, type and length to a hash."""
    for values in parts:
        digest.update(f"{name}:{values.dtype.str}:{len(values)}:".encode())
        digest.update(np.ascontiguousarray(values).data)


def _string_parts(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths and bytes of Arrow strings, as arrays."""
    offsets, text = texts_of(values)
    return np.diff(offsets), text[offsets[0] : offsets[-1]]


_DESCRIPTIVE = (
    "episode_id",
    "event_slug",
    "title",
    "description",
    "rules",
    "initial_bankroll_cents",
    "digest",
    "source",
    "observation_depth",
)


def _terms(content: Content, form: str) -> dict[str, Any]:
    """Return the metadata and settlements that can affect results, as JSON values. form: the format."""
    metadata = dump_metadata(content.metadata, "")
    terms = {name: value for name, value in metadata.items() if name not in _DESCRIPTIVE}
    markets = [{**dump_market(market), "title": None} for market in content.metadata.markets]
    for market in markets:
        for name in {"lifecycle", "grid_changes"} & market.keys():
            market[name] = [{**change, "source": None} for change in market[name]]
    settled = {ticker: {**values, "source": None} for ticker, values in dump_settlements(content.settlements).items()}
    return {**terms, "format": form, "markets": markets, "settlements": settled}
