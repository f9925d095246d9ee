"""Kalshi's bodies of the sandbox against the venue's own OpenAPI."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from bellwether.sandbox import Clock, create_app
from bellwether.sandbox.app import KALSHI_PATH

pytestmark = pytest.mark.real

NOW = datetime(2026, 10, 1, tzinfo=UTC)


def nullable(node: Any) -> Any:
    """Convert OpenAPI 3.0's `nullable` to JSON Schema."""
    if isinstance(node, list):
        return [nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {name: nullable(value) for name, value in node.items() if name != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


def fetch(path: str, **params: Any) -> Any:
    """Return a body of the sandbox, with the result `void` replaced by an empty one, which the venue's current schema lacks."""

    async def send() -> str:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(7, Clock(NOW))), base_url="http://sandbox") as http:
            return (await http.get(KALSHI_PATH + path, params=params)).raise_for_status().text

    return json.loads(asyncio.run(send()).replace('"result":"void"', '"result":""'))


def test_the_official_schema_accepts_the_bodies(recordings: Path) -> None:
    import yaml

    path = recordings / "kalshi" / "openapi" / "openapi.yaml"
    if not path.is_file():
        pytest.skip(f"no official OpenAPI at {path}")
    components = nullable(yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["components"])

    def check(name: str, body: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(body)

    end = int(NOW.timestamp())
    span = {"start_ts": end - 5 * 86_400, "end_ts": end, "period_interval": 60}
    markets = fetch("/markets", min_close_ts=end - 20 * 86_400, limit=200)
    trading = [market["ticker"] for market in markets["markets"] if float(market["volume_fp"])]
    archived = fetch("/historical/markets", limit=200)
    check("GetMarketsResponse", markets)
    check("GetMarketsResponse", archived)
    check("GetEventsResponse", fetch("/events", status="open", with_nested_markets="true"))
    check("GetSeriesListResponse", fetch("/series"))
    check("BatchGetMarketCandlesticksResponse", fetch("/markets/candlesticks", market_tickers=",".join(trading[:40]), **span))
    history = f"/historical/markets/{archived['markets'][0]['ticker']}/candlesticks"
    check("GetMarketCandlesticksHistoricalResponse", fetch(history, **{**span, "start_ts": 0}))
    check("GetTradesResponse", fetch("/markets/trades", ticker=trading[0]))
    check("GetHistoricalCutoffResponse", fetch("/historical/cutoff"))
    check("ExchangeStatus", fetch("/exchange/status"))
