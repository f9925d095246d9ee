"""Objects in the format of Gamma and the CLOB. Tests change single fields; the value `...` omits a field."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from bellwether.venues.http.page import VenuePage
from bellwether.venues.polymarket.wire import parse_markets
from bellwether.venues.wire.rejects import Origin, ParsedRecords

DAY = date(2026, 3, 14)
FETCHED = datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
ORIGIN = Origin("GET /markets/keyset?closed=true", 3, FETCHED)
YES, NO = "7" * 77, "3" * 72


def condition(number: int) -> str:
    """Return a condition id."""
    return f"0x{number:064x}"


def market(number: int = 531202, **changes: Any) -> dict[str, Any]:
    """Return Gamma's object of a market that resolved yes."""
    current: dict[str, Any] = {
        "id": str(number),
        "question": "Will it rain?",
        "conditionId": condition(number),
        "questionID": "0x3bb8",
        "slug": "will-it-rain",
        "resolutionSource": "",
        "endDate": "2026-03-14T12:00:00Z",
        "startDate": "2026-03-01T16:49:31.084Z",
        "createdAt": "2026-03-01T14:44:34.145447Z",
        "updatedAt": "2026-03-14T20:29:13.356562Z",
        "closedTime": "2026-03-14 15:00:16+00",
        "umaEndDate": "2026-03-14T15:00:16Z",
        "description": "If it rains, Yes.",
        "outcomes": '["Yes", "No"]',
        "outcomePrices": '["1", "0"]',
        "clobTokenIds": f'["{YES}", "{NO}"]',
        "umaResolutionStatus": "resolved",
        "umaResolutionStatuses": '["proposed", "resolved"]',
        "volume": "80362.86028499973",
        "volumeNum": 80362.86028499973,
        "liquidity": "0",
        "liquidityNum": 0,
        "active": True,
        "closed": True,
        "archived": False,
        "acceptingOrders": False,
        "groupItemTitle": "",
        "negRisk": False,
        "bestBid": 0.252,
        "bestAsk": 0.284,
        "lastTradePrice": 0.97,
        "orderPriceMinTickSize": 0.001,
        "orderMinSize": 5,
        "feesEnabled": False,
        "feeType": None,
        "events": [{"id": "21662", "slug": "rain", "title": "Rain in NYC"}],
    }
    return {name: value for name, value in (current | changes).items() if value is not ...}


def event(number: int = 21662, **changes: Any) -> dict[str, Any]:
    """Return Gamma's object of an event."""
    current: dict[str, Any] = {
        "id": str(number),
        "ticker": "rain",
        "slug": "rain",
        "title": "Rain in NYC",
        "description": "About rain.",
        "startDate": "2026-03-01T16:49:31.084Z",
        "endDate": "2026-03-14T12:00:00Z",
        "closedTime": "2026-03-14T15:00:16Z",
        "active": True,
        "closed": True,
        "archived": False,
        "negRisk": False,
        "volume": 80362.86028499973,
        "liquidity": 0,
        "tags": [{"id": "84", "label": "Weather", "slug": "weather"}],
        "series": [{"id": "9", "slug": "rain-daily", "title": "Rain daily"}],
        "markets": [{"id": "531202"}],
    }
    return {name: value for name, value in (current | changes).items() if value is not ...}


def clob_market(number: int = 531202, winner: str | None = "Yes", **changes: Any) -> dict[str, Any]:
    """Return the CLOB's object of a closed market."""
    tokens = [
        {"token_id": token, "outcome": name, "price": int(name == winner), "winner": name == winner}
        for token, name in ((YES, "Yes"), (NO, "No"))
    ]
    current: dict[str, Any] = {
        "condition_id": condition(number),
        "closed": True,
        "accepting_orders": False,
        "is_50_50_outcome": False,
        "tokens": tokens,
    }
    return {name: value for name, value in (current | changes).items() if value is not ...}


def book(**changes: Any) -> dict[str, Any]:
    """Return an order book of the CLOB. Both sides end with the best price."""
    current: dict[str, Any] = {
        "market": condition(531202),
        "asset_id": YES,
        "timestamp": "1773446400123",
        "hash": "ab12",
        "bids": [{"price": "0.01", "size": "100"}, {"price": "0.25", "size": "7.5"}],
        "asks": [{"price": "0.99", "size": "50"}, {"price": "0.29", "size": "12.000001"}],
        "min_order_size": "5",
        "tick_size": "0.001",
        "neg_risk": False,
        "last_trade_price": "",
    }
    return {name: value for name, value in (current | changes).items() if value is not ...}


def clob_pages(*objects: Any) -> list[VenuePage]:
    """Return the pages of the CLOB that have these markets, one each."""
    return [VenuePage("GET /markets/0x", 200, FETCHED, json.dumps(item).encode(), ordinal) for ordinal, item in enumerate(objects)]


def read(*objects: Any) -> ParsedRecords:
    """Parse one page of Gamma's markets."""
    return parse_markets(list(objects), ORIGIN, day=DAY)


def row(item: Any) -> dict[str, Any]:
    """Parse a page with one valid object, and return its row."""
    parsed = read(item)
    assert parsed.rejects.is_empty(), parsed.rejects.select("field", "value", "reason").rows()
    return parsed.rows.row(0, named=True)


def reject(item: Any) -> tuple[str | None, str | None, str]:
    """Parse a page with one invalid object, and return (field, value, reason)."""
    parsed = read(item)
    assert parsed.rows.is_empty()
    return reject_fields(parsed.rejects)[0]


def reject_fields(rejects: pl.DataFrame) -> list[tuple[str | None, str | None, str]]:
    """Return (field, value, reason) of every reject."""
    return rejects.select("field", "value", "reason").rows()
