"""Recorded bodies of Kalshi and its OpenAPI, compared with a plain parse of each object, field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from bellwether.tables.raw import KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_SERIES
from bellwether.venues.http.page import VenueCall, VenuePage, decode_json
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.wire import (
    CANDLE,
    EVENT,
    MARKET,
    PARTS,
    SERIES,
    STATUSES,
    extract_nested_markets,
    parse_candles,
    parse_events,
    parse_markets,
    parse_series,
)
from bellwether.venues.wire.columns import DecimalRule, ObjectShape
from bellwether.venues.wire.rejects import Origin

pytestmark = pytest.mark.real
Object = dict[str, Any]
ORIGIN = Origin("GET /markets", 0, datetime(2026, 11, 1, tzinfo=UTC))
DAY = date(2026, 11, 1)


def objects(value: Any, *fields: str) -> Iterator[Object]:
    """Return every JSON object below `value` with all these fields."""
    if isinstance(value, dict):
        if all(name in value for name in fields):
            yield value
        for inner in value.values():
            yield from objects(inner, *fields)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner, *fields)


def bodies(recordings: Path) -> list[Any]:
    return [json.loads(path.read_bytes()) for path in sorted((recordings / "kalshi" / "rest_2026_08").glob("*.json"))]


def markets(recordings: Path) -> list[Object]:
    found = [item for body in bodies(recordings) for item in objects(body, "ticker", "event_ticker", "close_time")]
    assert found
    return found


def read(items: list[Object]) -> pl.DataFrame:
    parsed = parse_markets(items, ORIGIN, day=DAY)
    assert parsed.rejects.is_empty(), parsed.rejects.select("record_id", "field", "value", "reason").to_dicts()
    return KALSHI_MARKETS.validate(parsed.rows, unique=False)


def expected_decimal(item: Object, name: str, rule: DecimalRule) -> Decimal | None:
    """Parse the value by a plain rule for one field."""
    text = item.get(name + rule.suffix)
    value = None if text is None else Decimal(text)
    return None if value in rule.absent else value


def expected_time(text: str | None) -> datetime | None:
    if not text or text.startswith("0001-"):
        return None
    whole, fraction = re.fullmatch(r"([^.]*?)(?:\.(\d+))?Z", text).groups()  # type: ignore[union-attr]
    return datetime.fromisoformat(whole).replace(tzinfo=UTC, microsecond=int(f"{fraction or '':0<6}"[:6]))


def test_every_recorded_market_is_read_field_by_field(recordings: Path):
    items = markets(recordings)
    for item, found in zip(items, read(items).iter_rows(named=True), strict=True):
        assert (found["ticker"], found["event_ticker"]) == (item.get("ticker"), item.get("event_ticker"))
        for name, rule in MARKET.decimals.items():
            assert found[name] == expected_decimal(item, name, rule), (found["ticker"], name)
        for column, name in MARKET.times.items():
            assert found[column] == expected_time(item.get(name)), (found["ticker"], name)
        for name in set(MARKET.texts) - {"status", "result"}:
            assert found[name] == item.get(name), (found["ticker"], name)
        assert found["status"] == item["status"]
        assert found["result"] == (item.get("result") or "")
        assert decode_json(found["body"].encode()) == item


def first_by_name(items: list[dict[str, Any]], name: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    """Return the first record of each name, because later ones repeat it."""
    found: dict[Any, dict[str, Any]] = {}
    for item in items:
        found.setdefault(name(item), item)
    return list(found.values())


def test_every_recorded_event_is_read(recordings: Path):
    items = [item for body in bodies(recordings) for item in objects(body, "event_ticker", "series_ticker", "mutually_exclusive")]
    parsed = parse_events(items, ORIGIN, day=DAY)
    assert parsed.rejects.is_empty()
    rows = KALSHI_EVENTS.validate(parsed.rows, unique=False)
    for item, found in zip(first_by_name(items, lambda item: item.get("event_ticker")), rows.iter_rows(named=True), strict=True):
        for name in ("event_ticker", "series_ticker", "title", "sub_title", "category", "mutually_exclusive"):
            assert found[name] == item.get(name)
        assert found["strike_date"] == expected_time(item.get("strike_date"))
    nested = [market for item in items for market in item.get("markets") or []]
    assert extract_nested_markets(items) == nested


def test_every_recorded_series_is_read(recordings: Path):
    found = [item for body in bodies(recordings) for item in objects(body, "ticker", "fee_type", "frequency")]
    parsed = parse_series(found, ORIGIN)
    assert parsed.rejects.is_empty()
    assert found
    rows = KALSHI_SERIES.validate(parsed.rows, unique=False)
    for item, row in zip(first_by_name(found, lambda item: item["ticker"]), rows.iter_rows(named=True), strict=True):
        assert (row["series_ticker"], row["category"], row["fee_type"]) == (item["ticker"], item["category"], item["fee_type"])
        assert row["fee_multiplier"] == Decimal(repr(item["fee_multiplier"]))
        assert row["tags"] == (item["tags"] or [])


def test_every_recorded_candle_is_read_field_by_field(recordings: Path):
    items = [item for body in bodies(recordings) for item in objects(body, "end_period_ts", "yes_bid", "price")]
    for item in items:
        body = orjson.dumps({"ticker": "T", "candlesticks": [item]})
        parsed = parse_candles([VenuePage("GET /historical/markets/T/candlesticks", 200, ORIGIN.fetched_at, body)], day=DAY)
        assert parsed.rejects.is_empty()
        found = KALSHI_CANDLES.validate(parsed.rows).row(0, named=True)
        assert found["end_at"] == datetime.fromtimestamp(item["end_period_ts"], UTC)
        for part, shape in PARTS.items():
            for name, rule in shape.decimals.items():
                assert found[f"{part}_{name}"] == expected_decimal(item[part], name, rule), (part, name)


Schema = dict[str, Any]


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


def test_every_typed_field_of_a_market_reaches_its_column(spec: Schema):
    item = example(spec, {"$ref": "#/components/schemas/Market"}) | {
        "status": "finalized",
        "result": "scalar",
        "floor_strike": 1.5,
        "cap_strike": 2.5,
    }
    parsed = parse_markets([item], ORIGIN, day=DAY)
    assert parsed.rejects.is_empty(), parsed.rejects.to_dicts()
    found = parsed.rows.row(0, named=True)
    for column, field in decimal_fields(MARKET):
        assert found[column] == Decimal(item[field]), field
    for column, field in MARKET.times.items():
        assert found[column] == datetime.fromisoformat(item[field]), field
    for field in (*MARKET.tickers, *MARKET.texts, *MARKET.flags, *MARKET.numbers):
        assert found[field] == item[field], field
    assert decode_json(found["custom_strike"].encode()) == item["custom_strike"]


def test_the_words_for_a_markets_state_are_the_venues(spec: Schema):
    assert set(properties(spec, "Market")["status"]["enum"]) == STATUSES


def parameters(spec: Schema, path: str) -> dict[str, Schema]:
    """Return the query parameters of a route as name -> schema. The path has the venue's placeholders."""
    found = [resolved(spec, node) for node in spec["paths"][path]["get"].get("parameters", [])]
    return {node["name"]: resolved(spec, node["schema"]) for node in found if node["in"] == "query"}


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


def test_times_of_the_close_go_without_a_status(spec: Schema):
    line = next(line for line in spec["paths"]["/markets"]["get"]["description"].splitlines() if "min_close_ts" in line)
    assert "*empty*" in line.split("|")[2]
    assert "status" not in dict(CALLS["/markets"].params)


ORIGIN = Origin("GET /markets", 0, datetime(2026, 11, 1, tzinfo=UTC))
DAY = date(2026, 11, 1)


def test_every_field_that_is_read_exists_under_that_name(spec: Schema):
    for name, shape in {"Market": MARKET, "EventData": EVENT, "Series": SERIES}.items():
        assert fields(shape) <= set(properties(spec, name))
    kinds = {"BidAskDistribution": PARTS["yes_bid"], "PriceDistribution": PARTS["price"], "MarketCandlestick": CANDLE}
    for name, shape in kinds.items():
        assert {field for _, field in decimal_fields(shape)} <= set(properties(spec, name))
        assert {plain_name for plain_name, _ in decimal_fields(shape)} <= set(properties(spec, f"{name}Historical")), "without suffixes"


def test_the_parameters_that_are_sent_are_documented_needed_and_within_limits(spec: Schema):
    for path, call in CALLS.items():
        sent = {name for name, _ in call.params}
        assert sent <= set(parameters(spec, path)), path
        nodes = [resolved(spec, node) for node in spec["paths"][path]["get"].get("parameters", [])]
        assert {node["name"] for node in nodes if node.get("required") and node["in"] == "query"} <= sent, path
    for path in ("/events", "/markets", "/historical/markets", "/markets/trades"):
        assert dict(CALLS[path].params)["limit"] == str(parameters(spec, path)["limit"]["maximum"])
    description = spec["paths"]["/markets/candlesticks"]["get"]["description"]
    assert f"{routes.MOST_TICKERS} market tickers" in description
    assert f"{routes.MOST_CANDLES:,} candlesticks" in description
    assert parameters(spec, "/markets/orderbooks")["tickers"]["maxItems"] == routes.MOST_TICKERS
    nodes = [resolved(spec, node) for node in spec["paths"]["/markets/orderbooks"]["get"]["parameters"]]
    assert [(node["style"], node["explode"]) for node in nodes if node["name"] == "tickers"] == [("form", True)]
    assert [value for name, value in CALLS["/markets/orderbooks"].params if name == "tickers"] == ["A", "B"]
