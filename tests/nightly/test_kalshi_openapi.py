"""The contract with the venue in its OpenAPI: names, enumerations, parameters and shapes that the code relies on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bellwether.venues.http.page import VenueCall
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.client import RateLimit
from bellwether.venues.kalshi.wire import (
    STATUSES,
    Origin,
    decode_json,
    parse_markets,
)
from bellwether.venues.kalshi.wire.candles import CANDLE, PARTS
from bellwether.venues.kalshi.wire.events import EVENT, SERIES
from bellwether.venues.kalshi.wire.markets import MARKET
from bellwether.venues.wire.shapes import ObjectShape

pytestmark = pytest.mark.real

Schema = dict[str, Any]
ORIGIN = Origin("GET /markets", 0, datetime(2026, 11, 1, tzinfo=UTC))
DAY = date(2026, 10, 1)


@pytest.fixture(scope="module")
def spec(recordings: Path) -> Schema:
    import yaml

    return yaml.load((recordings / "kalshi/openapi/openapi.yaml").read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def resolved(spec: Schema, node: Schema) -> Schema:
    """Replace a schema's reference, or the single schema it extends, by its target."""
    while "$ref" in node or "allOf" in node:
        inner = node.get("allOf", [node])[0]
        found = spec
        for part in inner["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = {**found, **{name: value for name, value in node.items() if name not in ("$ref", "allOf")}}
    return node


def properties(spec: Schema, name: str) -> Schema:
    return {field: resolved(spec, node) for field, node in spec["components"]["schemas"][name]["properties"].items()}


def example(spec: Schema, node: Schema, numbers: Iterator[int] | None = None) -> Any:
    """Return a value that the schema allows. All numbers, texts and times in it differ."""
    numbers = numbers or count(1)
    node = resolved(spec, node)
    if "enum" in node:
        return node["enum"][0]
    kinds = spec["components"]["schemas"]
    number = next(numbers)
    match node["type"], node.get("format"):
        case "string", "date-time":
            return f"2026-10-01T00:{number // 60:02d}:{number % 60:02d}.{number:06d}Z"
        case "string", _ if node.get("example") == kinds["FixedPointDollars"]["example"]:
            return f"0.{100_000 + number}"
        case "string", _ if node.get("example") == kinds["FixedPointCount"]["example"]:
            return f"{number}.25"
        case "string", _:
            return f"TEXT-{number}"
        case "integer", _:
            return 1_790_000_000 + number
        case "number", _:
            return number + 0.5
        case "boolean", _:
            return True
        case "array", _:
            return [example(spec, node["items"], numbers)]
        case _:
            members = node.get("properties", {"key": {"type": "string"}})
            return {name: example(spec, member, numbers) for name, member in members.items()}


def decimal_fields(shape: ObjectShape) -> Iterator[tuple[str, str]]:
    return ((name, name + rule.suffix) for name, rule in shape.decimals.items())


def fields(shape: ObjectShape) -> set[str]:
    """Names of all fields that the code reads."""
    decimals = (field for _, field in decimal_fields(shape))
    return {*shape.tickers, *shape.texts, *shape.text_lists, *shape.times.values(), *decimals, *shape.flags, *shape.numbers, *shape.objects}


KINDS = {"Market": MARKET, "EventData": EVENT, "Series": SERIES}


@pytest.mark.parametrize("name", KINDS)
def test_every_field_that_is_read_exists_under_that_name(spec: Schema, name: str):
    assert fields(KINDS[name]) <= set(properties(spec, name))


@pytest.mark.parametrize(
    ("name", "shape"), [("BidAskDistribution", PARTS["yes_bid"]), ("PriceDistribution", PARTS["price"]), ("MarketCandlestick", CANDLE)]
)
def test_every_member_of_a_live_candle_exists_under_that_name(spec: Schema, name: str, shape: ObjectShape):
    assert {field for _, field in decimal_fields(shape)} <= set(properties(spec, name))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("BidAskDistributionHistorical", PARTS["yes_bid"]),
        ("PriceDistributionHistorical", PARTS["price"]),
        ("MarketCandlestickHistorical", CANDLE),
    ],
)
def test_every_member_of_a_historical_candle_exists_without_its_suffix(spec: Schema, name: str, shape: ObjectShape):
    assert {plain for plain, _ in decimal_fields(shape)} <= set(properties(spec, name))


def test_every_typed_field_of_a_market_reaches_its_column(spec: Schema):
    item = example(spec, {"$ref": "#/components/schemas/Market"}) | {
        "status": "finalized",
        "result": "scalar",
        "floor_strike": 1.5,
        "cap_strike": 2.5,
    }
    parsed = parse_markets([item], ORIGIN, day=DAY, source="live")
    assert parsed.rejects.is_empty(), parsed.rejects.to_dicts()
    found = parsed.rows.row(0, named=True)
    for column, field in decimal_fields(MARKET):
        assert found[column] == Decimal(item[field]), field
    for column, field in MARKET.times.items():
        assert found[column] == datetime.fromisoformat(item[field]), field
    for field in (*MARKET.tickers, *MARKET.texts, *MARKET.flags, *MARKET.numbers):
        assert found[field] == item[field], field
    assert decode_json(found["custom_strike"].encode()) == item["custom_strike"]
    assert found["wire_format"] == "current"


def test_the_words_for_a_markets_state_are_the_venues(spec: Schema):
    assert set(properties(spec, "Market")["status"]["enum"]) == STATUSES


def parameters(spec: Schema, path: str) -> dict[str, Schema]:
    """Return the query parameters of a route as name -> schema. The path has the venue's placeholders."""
    found = [resolved(spec, node) for node in spec["paths"][path]["get"].get("parameters", [])]
    return {node["name"]: resolved(spec, node["schema"]) for node in found if node["in"] == "query"}


def test_the_filter_words_are_the_venues(spec: Schema):
    assert set(parameters(spec, "/events")["status"]["enum"]) == set(routes.EVENT_STATUSES)
    assert set(parameters(spec, "/series/{series_ticker}/markets/{ticker}/candlesticks")["period_interval"]["enum"]) == set(routes.PERIODS)


START = datetime(2026, 10, 1, tzinfo=UTC)
END = START + timedelta(days=1)
CALLS: dict[str, VenueCall] = {
    "/events": routes.events(status="open", tickers=["A"], closing_after=START),
    "/markets": routes.markets(closing_after=START, closing_before=END, tickers=["A"], event_ticker="E"),
    "/historical/markets": routes.historical_markets(tickers=["A"]),
    "/historical/cutoff": routes.historical_cutoff(),
    "/series": routes.series(),
    "/markets/candlesticks": routes.candles_batch(["A"], START, END),
    "/historical/markets/{ticker}/candlesticks": routes.historical_candles("A", START, END),
    "/markets/orderbooks": routes.orderbooks(["A", "B"]),
    "/markets/trades": routes.trades(ticker="A", after=START),
}


@pytest.mark.parametrize("path", CALLS)
def test_every_parameter_that_is_sent_is_documented(spec: Schema, path: str):
    assert {name for name, _ in CALLS[path].params} <= set(parameters(spec, path))


@pytest.mark.parametrize("path", CALLS)
def test_every_parameter_that_is_needed_is_sent(spec: Schema, path: str):
    nodes = [resolved(spec, node) for node in spec["paths"][path]["get"].get("parameters", [])]
    needed = {node["name"] for node in nodes if node.get("required") and node["in"] == "query"}
    assert needed <= {name for name, _ in CALLS[path].params}


def test_times_of_the_close_go_without_a_status(spec: Schema):
    line = next(line for line in spec["paths"]["/markets"]["get"]["description"].splitlines() if "min_close_ts" in line)
    assert "*empty*" in line.split("|")[2]
    assert "status" not in dict(CALLS["/markets"].params)


@pytest.mark.parametrize("path", ["/events", "/markets", "/historical/markets", "/markets/trades"])
def test_pages_are_as_large_as_the_venue_allows(spec: Schema, path: str):
    assert dict(CALLS[path].params)["limit"] == str(parameters(spec, path)["limit"]["maximum"])


def test_the_limits_of_a_batch_of_candles_are_documented(spec: Schema):
    description = spec["paths"]["/markets/candlesticks"]["get"]["description"]
    assert f"{routes.MOST_TICKERS} market tickers" in description
    assert f"{routes.MOST_CANDLES:,} candlesticks" in description


def test_the_limits_of_order_books_are_documented(spec: Schema):
    assert parameters(spec, "/markets/orderbooks")["tickers"]["maxItems"] == routes.MOST_TICKERS


def test_a_list_of_tickers_is_repeated_or_joined_as_the_venue_documents(spec: Schema):
    nodes = [resolved(spec, node) for node in spec["paths"]["/markets/orderbooks"]["get"]["parameters"]]
    assert [(node["style"], node["explode"]) for node in nodes if node["name"] == "tickers"] == [("form", True)]
    assert [value for name, value in CALLS["/markets/orderbooks"].params if name == "tickers"] == ["A", "B"]


def test_a_bucket_of_the_basic_tier_lets_forty_reads_through():
    limits = RateLimit()
    assert limits.bucket().max_rate / limits.tokens_per_read == 40
