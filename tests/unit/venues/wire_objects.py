"""Objects in the venue's format. Tests change single fields."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from bellwether.venues.kalshi.wire import parse_markets
from bellwether.venues.wire.rejects import Origin, ParsedRecords

DAY = date(2026, 3, 14)
FETCHED = datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
ORIGIN = Origin("GET /markets?limit=1000", 3, FETCHED)


def market(ticker: str = "KXRAIN-26MAR14-A", **changes: Any) -> dict[str, Any]:
    """Return a settled market in the current format. The value `...` omits a field."""
    current: dict[str, Any] = {
        "ticker": ticker,
        "event_ticker": "KXRAIN-26MAR14",
        "market_type": "binary",
        "title": "Will it rain?",
        "subtitle": "",
        "yes_sub_title": "Rain",
        "no_sub_title": "No rain",
        "created_time": "2026-03-10T09:00:00.123456Z",
        "updated_time": "2026-03-15T01:00:00.5Z",
        "open_time": "2026-03-10T10:00:00Z",
        "close_time": "2026-03-14T23:00:00Z",
        "expected_expiration_time": "2026-03-15T00:00:00Z",
        "expiration_time": "2026-03-21T23:00:00Z",
        "latest_expiration_time": "2026-03-21T23:00:00Z",
        "settlement_ts": "2026-03-15T01:00:00Z",
        "status": "finalized",
        "result": "yes",
        "settlement_value_dollars": "1.0000",
        "expiration_value": "0.3 in",
        "last_price_dollars": "0.9700",
        "previous_price_dollars": "0.5500",
        "yes_bid_dollars": "0.9600",
        "yes_ask_dollars": "0.9800",
        "no_bid_dollars": "0.0200",
        "no_ask_dollars": "0.0400",
        "notional_value_dollars": "1.0000",
        "volume_fp": "1234.56",
        "volume_24h_fp": "0.00",
        "open_interest_fp": "17.25",
        "can_close_early": False,
        "rules_primary": "If it rains, Yes.",
        "rules_secondary": "",
        "strike_type": "greater",
        "floor_strike": 0.01,
        "price_level_structure": "linear_cent",
        "settlement_bounds_type": "default",
    }
    return {name: value for name, value in (current | changes).items() if value is not ...}


def candle(end: int = 1_773_522_000, **changes: Any) -> dict[str, Any]:
    """Return a candle in the current live format."""
    quote = {"open_dollars": "0.4000", "high_dollars": "0.4500", "low_dollars": "0.3900", "close_dollars": "0.4400"}
    trades = {**quote, "mean_dollars": "0.4212", "previous_dollars": "0.4000"}
    current = {"end_period_ts": end, "yes_bid": quote, "yes_ask": quote, "price": trades, "volume_fp": "12.50", "open_interest_fp": "80.00"}
    return {name: value for name, value in (current | changes).items() if value is not ...}


def read(*objects: Any) -> ParsedRecords:
    """Parse the objects of one page."""
    return parse_markets(list(objects), ORIGIN, day=DAY)


def row(item: Any) -> dict[str, Any]:
    """Parse one valid object, and return its row."""
    parsed = read(item)
    assert parsed.rejects.is_empty(), parsed.rejects.to_dicts()
    return parsed.rows.row(0, named=True)


def reject(item: Any) -> dict[str, Any]:
    """Parse one invalid object between two valid ones, and return its reject."""
    parsed = read(market("GOOD-1"), item, market("GOOD-2"))
    assert parsed.rows["ticker"].to_list() == ["GOOD-1", "GOOD-2"]
    assert parsed.ordinals == [0, 2]
    assert parsed.rejects.height == 1
    return parsed.rejects.row(0, named=True)


#: An event with two markets, and a series, in the current format.
EVENT: dict[str, Any] = {
    "event_ticker": "KXRAIN-26MAR14",
    "series_ticker": "KXRAIN",
    "title": "Rain on the 14th?",
    "sub_title": "Mar 14",
    "category": "Climate and Weather",
    "mutually_exclusive": True,
    "collateral_return_type": "MECNET",
    "strike_date": "2026-03-14T23:00:00Z",
    "last_updated_ts": "2026-03-10T09:00:00.5Z",
    "fee_type_override": "flat",
    "fee_multiplier_override": 0.07,
    "markets": [market("A"), market("B")],
}
SERIES: dict[str, Any] = {
    "ticker": "KXRAIN",
    "title": "Rain",
    "frequency": "daily",
    "category": "Climate and Weather",
    "categories": ["Climate and Weather", "World"],
    "tags": ["Daily", "Rain"],
    "settlement_sources": None,
    "contract_url": "https://venue.example/rain.pdf",
    "contract_terms_url": "https://venue.example/rain-terms.pdf",
    "fee_type": "quadratic",
    "fee_multiplier": 0.5,
    "additional_prohibitions": None,
    "last_updated_ts": "2026-03-10T09:00:00Z",
}
