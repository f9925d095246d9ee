"""Rows of `replay/episodes`: one per market, with counts, terms, outcome and warnings."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bellwether.replay import units
from bellwether.tables.replay import EPISODES

if TYPE_CHECKING:
    from bellwether.replay.episode import Episode, Market, Settlement
    from bellwether.replay.episode_builder.sources import Sources


def episode_rows(episode: Episode, sources: Sources) -> pl.DataFrame:
    """Build an episode's rows of `replay/episodes`, one per market. sources: digests of its inputs."""
    about, content = episode.metadata, episode.content
    book_rows, trades = (np.bincount(part.ticker, minlength=len(about.markets)).tolist() for part in (content.book, content.trades))
    lots = np.zeros(len(about.markets), np.int64)
    np.add.at(lots, content.trades.ticker, content.trades.lots)
    ends = [about.end, *(settlement.at for settlement in content.settlements if settlement.at is not None)]
    common = {
        "episode": episode.id,
        "event": about.event_slug,
        "venue": about.venue,
        "title": about.title,
        "recording": about.source.get("recording"),
        "start_at": about.start,
        "end_at": max(ends),
        "mutually_exclusive": about.mutually_exclusive,
        "warnings": list(episode.warnings),
        "digest": episode.digest,
        "recording_digest": sources.recording,
        "markets_digest": sources.markets_digest(datetime.fromtimestamp(max(ends) // units.SECOND, UTC)),
        "folder": episode.folder.name,
        "known_at": datetime.fromtimestamp(max(ends) // units.SECOND, UTC),
    }
    rows = []
    for code, (market, settlement) in enumerate(zip(about.markets, content.settlements, strict=True)):
        counts = {"book_rows": book_rows[code], "trades": trades[code], "volume": Decimal(int(lots[code])).scaleb(-2)}
        gaps = sum(gap.ticker == market.ticker for gap in about.gaps)
        rows.append({**common, **_market_row(market, settlement), **counts, "gaps": gaps})
    return _frame(rows)


def _market_row(market: Market, settlement: Settlement) -> dict[str, Any]:
    multiplier = market.fee.get("multiplier")
    return {
        "ticker": market.ticker,
        "open_time": market.open_time,
        "close_time": market.close,
        "fee_type": market.fee.get("type"),
        "fee_multiplier": None if multiplier is None else Decimal(str(multiplier)).quantize(Decimal("0.000001")),
        "default_fee": market.has_default_fee,
        "settled_at": settlement.at,
        "result": settlement.result,
        "result_source": settlement.source,
        "settlement_value": None if settlement.value is None else units.dollars(settlement.value),
    }


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Build a frame with the table's data types from rows whose times are ns."""
    plain = {name: pl.Int64() if dtype == pl.Datetime("ns", "UTC") else dtype for name, dtype in EPISODES.schema.items()}
    return pl.DataFrame(rows, schema=plain, orient="row").cast(dict(EPISODES.schema))  # type: ignore[arg-type]
