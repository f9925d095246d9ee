"""Rows of `replay/episodes`: one per market, with counts, terms, outcome and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.replay import units
from bellwether.tables.replay import EPISODES

if TYPE_CHECKING:
    from bellwether.replay.episode import Episode, Market, Settlement
    from bellwether.replay.episode_builder.sources import Sources


def episode_rows(episode: Episode, warnings: Sequence[str] = (), sources: Sources | None = None) -> pl.DataFrame:
    """Build an episode's rows of `replay/episodes`, one per market.

    warnings: from the validation of the episode. sources: digests of its inputs.
    """
    about = episode.metadata
    settled = {settlement.ticker: settlement for settlement in episode.settlements}
    book_rows, trades = episode.counts()
    ends = [about.end, *(settlement.at for settlement in episode.settlements if settlement.at is not None)]
    common = {
        "episode": episode.id,
        "event": about.event_slug,
        "venue": about.venue,
        "title": about.title,
        "recording": about.source.get("recording"),
        "start_at": about.start,
        "end_at": max(ends),
        "mutually_exclusive": about.mutually_exclusive,
        "warnings": list(warnings),
        "digest": episode.digest,
        "recording_digest": sources.recording if sources else None,
        "markets_digest": sources.markets_digest(datetime.fromtimestamp(max(ends) // units.SECOND, UTC)) if sources else None,
        "folder": episode.folder.name,
        "known_at": datetime.fromtimestamp(max(ends) // units.SECOND, UTC),
    }
    rows = []
    for market in about.markets:
        count, lots = trades[market.ticker]
        counts = {"book_rows": book_rows[market.ticker], "trades": count, "volume": Decimal(lots).scaleb(-2)}
        gaps = sum(gap.ticker == market.ticker for gap in about.gaps)
        rows.append({**common, **_market_row(market, settled.get(market.ticker)), **counts, "gaps": gaps})
    return _frame(rows)


def _market_row(market: Market, settlement: Settlement | None) -> dict[str, Any]:
    multiplier = market.fee.get("multiplier")
    return {
        "ticker": market.ticker,
        "open_time": market.open_time,
        "close_time": market.close,
        "fee_type": market.fee.get("type"),
        "fee_multiplier": None if multiplier is None else Decimal(str(multiplier)).quantize(Decimal("0.000001")),
        "default_fee": market.has_default_fee,
        "settled_at": settlement.at if settlement else None,
        "result": settlement.result if settlement else None,
        "result_source": settlement.source if settlement else None,
        "settlement_value": None if settlement is None or settlement.value is None else units.dollars(settlement.value),
    }


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Build a frame with the table's data types from rows whose times are ns."""
    plain = {name: pl.Int64() if dtype == pl.Datetime("ns", "UTC") else dtype for name, dtype in EPISODES.schema.items()}
    return pl.DataFrame(rows, schema=plain, orient="row").cast(dict(EPISODES.schema))  # type: ignore[arg-type]
