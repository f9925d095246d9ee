"""The generated exchange, compared with the official OpenAPI and AsyncAPI."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from starlette.datastructures import QueryParams

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.exchange.books import KalshiBooks
from bellwether.sandbox.exchange.exchange import CHANNELS, LIFECYCLE, MARKET_CHANNELS, Interest
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.exchange.stream import ERRORS, Subscription
from bellwether.sandbox.params import Params
from bellwether.sandbox.source import ListingFilter
from bellwether.sandbox.timestamps import to_instant

pytestmark = pytest.mark.real

Object = dict[str, Any]
NOW = datetime(2025, 6, 15, 17, 20, 3, tzinfo=UTC)


def read(path: Path) -> Object:
    import yaml

    if not path.is_file():
        pytest.skip(f"no official description at {path}")
    return yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@pytest.fixture(scope="module")
def openapi(recordings: Path) -> Object:
    return read(recordings / "kalshi" / "openapi" / "openapi.yaml")


@pytest.fixture(scope="module")
def asyncapi(recordings: Path) -> Object:
    return read(recordings / "kalshi" / "openapi" / "asyncapi.yaml")


def checker(description: Object) -> Callable[[str, Object], None]:
    validators: dict[str, jsonschema.Draft202012Validator] = {}

    def validate(name: str, body: Object) -> None:
        if name not in validators:
            schema = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
            validators[name] = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        validators[name].validate(body)
        known = set(description["components"]["schemas"][name]["properties"])
        assert set(body) <= known, f"{name} has no {set(body) - known}"

    return validate


@pytest.fixture(scope="module")
def world() -> GeneratedWorld:
    return GeneratedWorld(11)


@pytest.fixture(scope="module")
def exchange(world: GeneratedWorld) -> GeneratedExchange:
    return GeneratedExchange(world)


@pytest.fixture(scope="module")
def tickers(world: GeneratedWorld) -> list[str]:
    return [row.ticker for row in world.markets(ListingFilter(), to_instant(NOW)) if row.status == "active"][:60]


@pytest.fixture(scope="module")
def ask(exchange: GeneratedExchange) -> Callable[..., Object]:
    books = KalshiBooks(exchange, Clock(NOW))

    def get(handler: str, params: list[tuple[str, str]], **path: str) -> Object:
        return orjson.loads(orjson.dumps(getattr(books, handler)(Params(QueryParams(params)), path, to_instant(NOW))))

    return get


def test_rest_bodies_are_valid(openapi: Object, ask: Callable[..., Object], tickers: list[str]) -> None:
    check = checker(openapi)
    check("GetMarketOrderbooksResponse", ask("orderbooks", [("tickers", ticker) for ticker in tickers]))
    page = ask("trades", [("limit", "300")])
    check("GetTradesResponse", page)
    assert len(page["trades"]) == 300
    for trade in page["trades"]:
        check("Trade", trade)


@pytest.mark.parametrize("path", ["/markets/orderbooks", "/markets/trades"])
def test_every_route_is_one_of_the_venue(openapi: Object, exchange: GeneratedExchange, path: str) -> None:
    assert path in openapi["paths"]
    assert path in {route.path for route in KalshiBooks(exchange, Clock(NOW)).routes()}


def test_parameters_are_bounded_as_the_venue_says(openapi: Object) -> None:
    tickers = openapi["paths"]["/markets/orderbooks"]["get"]["parameters"][0]
    assert (tickers["explode"], tickers["schema"]["maxItems"]) == (True, 100)
    assert openapi["components"]["parameters"]["MarketLimitQuery"]["schema"]["maximum"] == 1000


PAYLOADS = {
    "orderbook_snapshot": "orderbookSnapshotPayload",
    "orderbook_delta": "orderbookDeltaPayload",
    "trade": "tradePayload",
    "ticker": "tickerPayload",
    "market_lifecycle_v2": "marketLifecycleV2Payload",
    "multivariate_market_lifecycle": "multivariateMarketLifecyclePayload",
    "event_lifecycle": "eventLifecyclePayload",
}


def on_the_wire(frame: Object) -> Object:
    """Convert to JSON values, as sent to clients."""
    return json.loads(orjson.dumps(frame))


def test_messages_are_valid(asyncapi: Object, exchange: GeneratedExchange, tickers: list[str]) -> None:
    check = checker(asyncapi)
    interest = Interest(dict.fromkeys(tickers, MARKET_CHANNELS), CHANNELS - MARKET_CHANNELS)
    start, end = to_instant(NOW), to_instant(NOW + timedelta(minutes=25))
    subscriptions = {channel: Subscription(number, channel, None) for number, channel in enumerate(sorted(CHANNELS), 1)}
    seen: dict[str, int] = {}
    days = exchange.messages(Interest(everywhere=CHANNELS - MARKET_CHANNELS), start, to_instant(NOW + timedelta(days=3)))
    for message in (*exchange.opening(interest, start), *exchange.messages(interest, start + 1, end), *days):
        frame = on_the_wire(subscriptions[message.channel].frame(message))
        seen[frame["type"]] = seen.get(frame["type"], 0) + 1
        if seen[frame["type"]] <= 150:
            check(PAYLOADS[frame["type"]], frame)
            body = asyncapi["components"]["schemas"][PAYLOADS[frame["type"]]]["properties"]["msg"]["properties"]
            assert set(frame["msg"]) <= set(body), f"{frame['type']} has no {set(frame['msg']) - set(body)}"
    assert set(seen) == set(PAYLOADS)


def test_every_word_of_a_life_is_known(asyncapi: Object, exchange: GeneratedExchange) -> None:
    words = asyncapi["components"]["schemas"]["marketLifecycleV2Payload"]["properties"]["msg"]["properties"]["event_type"]["enum"]
    interest = Interest(everywhere=frozenset({LIFECYCLE}))
    told = exchange.messages(interest, to_instant(NOW), to_instant(NOW + timedelta(days=2)))
    seen = {message.body["event_type"] for message in told if message.kind == LIFECYCLE}
    assert {"created", "activated", "deactivated", "determined", "settled"} <= seen <= set(words)


def test_errors_have_the_venues_codes_and_words(asyncapi: Object) -> None:
    described = {one["code"]: one["name"] for one in asyncapi["x-error-codes"]["codes"]}
    assert {code: described[code] for code in ERRORS} == ERRORS


def test_channels_are_the_venues(asyncapi: Object) -> None:
    assert set(asyncapi["channels"]) >= CHANNELS
