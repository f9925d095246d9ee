"""Content of an episode before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bellwether.replay.episode.metadata import Metadata, Settlement

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class EpisodeDraft:
    """An episode that is to be written.

    book: Arrow table, one row per change, in the order of processing: ts timestamp[ns, UTC], sequence_id int64, ticker, kind (snapshot_start, level,
    invalid), side (yes, no; null for what is no level), price_mills int32 and lots int64 (null likewise; lots is the level's new size). Rows with equal
    ts, sequence_id and ticker are one message. trades: ts, trade_id, ticker, taker_side (yes, no), yes_price_mills int32, lots int64.
    settlements: of any tickers, the others are not known. exogenous: ts, name, value float64, in the order of time, names as the metadata has them.
    """

    metadata: Metadata
    book: pa.Table
    trades: pa.Table
    settlements: Sequence[Settlement] = ()
    exogenous: pa.Table | None = None
