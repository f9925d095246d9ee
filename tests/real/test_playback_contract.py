"""The sandbox's objects, compared with the official OpenAPI and with the shapes of recorded ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.kalshi import Kalshi
from bellwether.sandbox.params import Params
from bellwether.sandbox.timestamps import DAY, to_instant

pytestmark = pytest.mark.real

Object = dict[str, Any]
NOW = datetime(2025, 6, 15, 17, 20, 3, tzinfo=UTC)
Ask = Callable[..., Object]


def nullable(node: Any) -> Any:
    """Convert OpenAPI 3.0's `nullable` to JSON Schema."""
    if isinstance(node, list):
        return [nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {name: nullable(value) for name, value in node.items() if name != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


@pytest.fixture(scope="module")
def components(recordings: Path) -> Object:
    import yaml

    path = recordings / "kalshi" / "openapi" / "openapi.yaml"
    if not path.is_file():
        pytest.skip(f"no official OpenAPI at {path}")
    return nullable(yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["components"])


@pytest.fixture(scope="module")
def check(components: Object) -> Callable[[str, Object], None]:
    """Function that validates a body against an official schema."""
    validators: dict[str, jsonschema.Draft202012Validator] = {}

    def validate(name: str, body: Object) -> None:
        if name not in validators:
            schema = {"$ref": f"#/components/schemas/{name}", "components": components}
            validators[name] = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        validators[name].validate(body)

    return validate


@pytest.fixture(scope="module")
def ask() -> Ask:
    """Function that calls the handlers directly."""
    import orjson

    venue = Kalshi(GeneratedWorld(11), Clock(NOW))

    def get(handler: str, path: dict[str, str] | None = None, **params: Any) -> Object:
        asked = Params({name: str(value) for name, value in params.items()})
        return orjson.loads(orjson.dumps(getattr(venue, handler)(asked, path or {}, to_instant(NOW))))

    return get


def known_results(body: Object) -> Object:
    """Return the body with the result `void` replaced by an empty one. The venue used `void` until 2026, but its current schema lacks it."""
    return json.loads(json.dumps(body).replace('"result": "void"', '"result": ""'))


@pytest.mark.parametrize("status", ["unopened", "open", "closed", "settled"])
def test_generated_markets_follow_the_official_schema(ask: Ask, check: Any, status: str) -> None:
    body = ask("markets", status=status, limit=1000)
    assert body["markets"]
    check("GetMarketsResponse", known_results(body))


def test_generated_archived_markets_follow_the_official_schema(ask: Ask, check: Any) -> None:
    check("GetMarketsResponse", known_results(ask("historical_markets", limit=400)))


def test_generated_events_and_series_follow_the_official_schema(ask: Ask, check: Any) -> None:
    events = ask("events", with_nested_markets="true", status="open")
    check("GetEventsResponse", known_results(events))
    check("GetSeriesListResponse", ask("series"))


def test_generated_candles_follow_the_official_schema(ask: Ask, check: Any) -> None:
    tickers = [market["ticker"] for market in ask("markets", status="settled", mve_filter="exclude", limit=40)["markets"]]
    window = {"start_ts": (to_instant(NOW) - 5 * DAY) // 1_000_000, "end_ts": to_instant(NOW) // 1_000_000, "period_interval": 60}
    batch = ask("batch_candlesticks", market_tickers=",".join(tickers), **window)
    assert sum(len(market["candlesticks"]) for market in batch["markets"]) > 100
    check("BatchGetMarketCandlesticksResponse", batch)
    archived = ask("historical_markets", mve_filter="exclude", limit=1)["markets"][0]["ticker"]
    whole = {"start_ts": 0, "end_ts": to_instant(NOW) // 1_000_000, "period_interval": 60}
    check("GetMarketCandlesticksHistoricalResponse", ask("historical_candlesticks", {"ticker": archived}, **whole))


def test_generated_exchange_answers_follow_the_official_schema(ask: Ask, check: Any) -> None:
    check("ExchangeStatus", ask("exchange_status"))
    check("GetHistoricalCutoffResponse", ask("cutoff"))
