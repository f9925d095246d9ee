"""Ordinary rows of raw and clean tables. Tests change single fields."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.tables import clean, raw
from bellwether.venues.polymarket.resolution import build_resolutions

DAY = date(2026, 3, 10)
CLOSE = datetime(2026, 3, 10, 20, tzinfo=UTC)
OPEN = CLOSE - timedelta(days=30)
SETTLED = CLOSE + timedelta(hours=3)
KNOWN = datetime(2026, 3, 11, 6, tzinfo=UTC)
FETCHED = {"request": "GET /markets", "page": 0, "fetched_at": KNOWN, "known_at": KNOWN}


def raw_market(ticker: str = "KXRAIN-26MAR10-T1", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/kalshi_markets: a finalized binary market that resolved yes."""
    return {
        "day": DAY,
        "ticker": ticker,
        "event_ticker": "KXRAIN-26MAR10",
        "market_type": "binary",
        "title": "Will it rain more than 1 inch?",
        "yes_sub_title": "Above 1 inch",
        "open_time": OPEN,
        "close_time": CLOSE,
        "settled_at": SETTLED,
        "updated_at": SETTLED,
        "status": "finalized",
        "result": "yes",
        "settlement_value": Decimal("1"),
        "last_price": Decimal("0.97"),
        "volume": Decimal("1250.50"),
        "open_interest": Decimal("800.00"),
        "rules_primary": "If it rains more than 1 inch, the market resolves to Yes.",
        "rules_secondary": "Trace amounts count as zero.",
        "is_combo": False,
        "source": "live",
        "body": "{}",
        **FETCHED,
        **changes,
    }


def raw_event(event_ticker: str = "KXRAIN-26MAR10", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/kalshi_events."""
    return {
        "day": DAY,
        "event_ticker": event_ticker,
        "series_ticker": "KXRAIN",
        "title": "Rain in NYC on Mar 10, 2026",
        "category": "Climate and Weather",
        "mutually_exclusive": False,
        "collateral_return_type": "",
        "body": "{}",
        **FETCHED,
        **changes,
    }


def raw_series(series_ticker: str = "KXRAIN", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/kalshi_series."""
    return {"series_ticker": series_ticker, "category": "Weather", "categories": [], "tags": [], "body": "{}", **FETCHED, **changes}


def raw_candle(hours_before_close: float = 24, ticker: str = "KXRAIN-26MAR10-T1", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/kalshi_candles: an hourly candle with a two-sided book and a trade."""
    return {
        "day": DAY,
        "ticker": ticker,
        "period_minutes": 60,
        "end_at": CLOSE - timedelta(hours=hours_before_close),
        "yes_bid_close": Decimal("0.40"),
        "yes_ask_close": Decimal("0.44"),
        "price_close": Decimal("0.43"),
        "price_previous": Decimal("0.41"),
        "volume": Decimal("10.00"),
        "open_interest": Decimal("100.00"),
        "source": "live",
        **FETCHED,
        **changes,
    }


def market(market_id: str = "KXRAIN-26MAR10-T1", **changes: Any) -> dict[str, Any]:
    """Return a row of clean/markets: a settled binary market that resolved yes."""
    return {
        "day": changes.get("close_time", CLOSE).date(),
        "venue": "kalshi",
        "market_id": market_id,
        "event_id": "KXRAIN-26MAR10",
        "series_id": "KXRAIN",
        "category": "Weather",
        "question": f"Will it rain more than 1 inch ({market_id})?",
        "description": "If it rains more than 1 inch, the market resolves to Yes.",
        "market_type": "binary",
        "is_combo": False,
        "mutually_exclusive": False,
        "open_time": OPEN,
        "close_time": CLOSE,
        "settled_at": SETTLED,
        "status": "settled",
        "outcome": "yes",
        "settlement_value": Decimal("1"),
        "last_price": Decimal("0.97"),
        "volume": Decimal("1250.50"),
        "open_interest": Decimal("800.00"),
        "source": "live",
        "known_at": KNOWN,
        **changes,
    }


def price(hours_before_close: float = 24, market_id: str = "KXRAIN-26MAR10-T1", **changes: Any) -> dict[str, Any]:
    """Return a row of clean/prices with a two-sided book around 0.42."""
    return {
        "day": DAY,
        "venue": "kalshi",
        "market_id": market_id,
        "at": CLOSE - timedelta(hours=hours_before_close),
        "period_minutes": 60,
        "bid": Decimal("0.40"),
        "ask": Decimal("0.44"),
        "last": Decimal("0.43"),
        "volume": Decimal("10.00"),
        "open_interest": Decimal("100.00"),
        "known_at": KNOWN,
        **changes,
    }


def markets(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return a frame of clean/markets."""
    return clean.MARKETS.validate(clean.MARKETS.frame(list(rows)))


def prices(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return a frame of clean/prices."""
    return clean.PRICES.validate(clean.PRICES.frame(list(rows)))


def raw_inputs(
    live: list[dict[str, Any]],
    archive: list[dict[str, Any]] | None = None,
    events: list[dict[str, Any]] | None = None,
    series: list[dict[str, Any]] | None = None,
) -> dict[str, pl.DataFrame]:
    """Return the inputs of sql/clean/markets.sql without Polymarket's. Events and series are ordinary by default."""
    return {
        "kalshi_markets": raw.KALSHI_MARKETS.frame(live),
        "kalshi_archive": raw.KALSHI_ARCHIVE.frame(archive or []),
        "kalshi_events": raw.KALSHI_EVENTS.frame([raw_event()] if events is None else events),
        "kalshi_series": raw.KALSHI_SERIES.frame([raw_series()] if series is None else series),
        **polymarket_inputs(),
    }


def polymarket_inputs(
    listed: list[dict[str, Any]] | None = None, events: list[dict[str, Any]] | None = None, winners: list[dict[str, Any]] | None = None
) -> dict[str, pl.DataFrame]:
    """Return Polymarket's inputs of sql/clean/markets.sql, with the resolutions that follow from them."""
    frame, flagged = raw.POLYMARKET_MARKETS.frame(listed or []), raw.POLYMARKET_WINNERS.frame(winners or [])
    return {
        "polymarket_markets": frame,
        "polymarket_events": raw.POLYMARKET_EVENTS.frame(events or []),
        "resolutions": build_resolutions(frame.lazy(), flagged.lazy()),
    }


PM_END = datetime(2026, 3, 10, 22, tzinfo=UTC)
PM_CLOSED = datetime(2026, 3, 10, 21, tzinfo=UTC)
PM_CONDITION = f"0x{1:064x}"


def polymarket_market(market_id: str = "501", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/polymarket_markets: a binary market that resolved yes an hour before its scheduled end."""
    return {
        "day": DAY,
        "market_id": market_id,
        "condition_id": PM_CONDITION,
        "event_id": "71",
        "event_title": "Rain in NYC",
        "question": "Will it rain in NYC?",
        "description": "If it rains, Yes.",
        "outcomes": ["Yes", "No"],
        "outcome_prices": [Decimal(1), Decimal(0)],
        "token_ids": ["111", "222"],
        "yes_token": "111",
        "no_token": "222",
        "market_type": "binary",
        "tags": [],
        "uma_statuses": [],
        "uma_resolution_status": "resolved",
        "start_time": OPEN,
        "end_time": PM_END,
        "closed_at": PM_CLOSED,
        "closed": True,
        "neg_risk": False,
        "volume": Decimal("1250.505"),
        "last_trade_price": Decimal("0.97"),
        "body": "{}",
        **FETCHED,
        **changes,
    }


def polymarket_event(event_id: str = "71", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/polymarket_events."""
    return {
        "day": DAY,
        "event_id": event_id,
        "title": "Rain in NYC",
        "tags": ["weather"],
        "tag_labels": ["Weather"],
        "neg_risk": True,
        "body": "{}",
        **FETCHED,
        **changes,
    }


def polymarket_winner(position: int = 0, *, winner: bool | None = None, **changes: Any) -> dict[str, Any]:
    """Return a row of raw/polymarket_winners: the first of two outcomes won."""
    return {
        "day": DAY,
        "condition_id": PM_CONDITION,
        "position": position,
        "token_id": ("111", "222")[position],
        "outcome": ("Yes", "No")[position],
        "price": Decimal(1 - position),
        "winner": position == 0 if winner is None else winner,
        "is_50_50_outcome": False,
        "closed": True,
        **FETCHED,
        **changes,
    }


def polymarket_price(hours_before_close: float = 24, market_id: str = "501", **changes: Any) -> dict[str, Any]:
    """Return a row of raw/polymarket_prices."""
    return {
        "day": DAY,
        "market_id": market_id,
        "token_id": "111",
        "at": PM_CLOSED - timedelta(hours=hours_before_close),
        "price": Decimal("0.42"),
        "period_minutes": 60,
        **FETCHED,
        **changes,
    }


def resolution(market_id: str = "501", **changes: Any) -> dict[str, Any]:
    """Return a row of clean/resolutions."""
    return {
        "day": DAY,
        "venue": "polymarket",
        "market_id": market_id,
        "condition_id": PM_CONDITION,
        "market_type": "binary",
        "status": "settled",
        "outcome": "yes",
        "winner": "Yes",
        "settlement_value": Decimal(1),
        "rule": "winner flag and prices",
        "closed_at": PM_CLOSED,
        "settled_at": PM_CLOSED,
        "final": True,
        "evidence": "{}",
        "known_at": KNOWN,
        **changes,
    }


def pull(**changes: Any) -> dict[str, Any]:
    """Return a row of raw/<venue>_pulls."""
    return {
        "day": DAY,
        "pull": "raw/kalshi_pages/day/2026-03-10/0001",
        "final": True,
        "requests": 9,
        "attempts": 11,
        "failures_rate_limit": 2,
        "limited_seconds": 1.5,
        "started_at": KNOWN,
        "finished_at": KNOWN,
        "known_at": KNOWN,
        **changes,
    }
