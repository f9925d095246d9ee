"""Decoding of answers, complete or damaged."""

from __future__ import annotations

import orjson
import pytest

from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi.wire import MalformedBody, UnusableValue, decode_json, extract_nested_markets, parse_events
from tests.venues.wire_objects import DAY, ORIGIN, market, read


def page(*markets: bytes) -> bytes:
    return b'{"markets":[' + b",".join(markets) + b'],"cursor":"c"}'


GOOD = orjson.dumps(market("GOOD"))


def test_strict_json_is_read_as_it_is():
    assert decode_json(page(GOOD)) == {"markets": [market("GOOD")], "cursor": "c"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (page(GOOD)[:-20], "cut off"),
        (b"", "empty body"),
        (b"<!DOCTYPE html><html>down for maintenance</html>", "web page"),
        (b"[1, 2]", "a JSON list"),
        (b'"too many requests"', "a JSON str"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a":' * 3000, "not JSON"),
        (page(GOOD, b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}")[:-5], "cut off"),
        (b"[" * 200_000, "cut off"),
    ],
    ids=[
        "cut",
        "empty",
        "html",
        "list",
        "string",
        "binary",
        "bottomless",
        "deep and cut",
        "deep",
    ],
)
def test_a_body_that_is_no_json_object_is_malformed(body: bytes, reason: str):
    with pytest.raises(MalformedBody, match=reason):
        _ = VenuePage("GET /markets", 200, ORIGIN.fetched_at, body).answer


@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        (b"NaN", "x", "not a finite number"),
        (b"-Infinity", "x", "not a finite number"),
        (b"1e400", "x", "not a finite number"),
        (b'{"y":[0,NaN]}', "x.y.1", "not a finite number"),
        (b"123456789012345678901234567890", "x", "too large"),
        (b"-9223372036854775809", "x", "too large"),
        (b"9" * 6000, "x", "not a finite number"),
        (b'{"y":-' + b"9" * 6000 + b"}", "x.y", "not a finite number"),
        (b"[" * 200_000 + b"]" * 200_000, "x." + "0." * 196 + "0", "nested deeper than 200 levels"),
        (b'{"y":["]",' * 5000 + b'"\\"}"' + b"]}" * 5000, "x" + ".y.1" * 98 + ".y", "nested deeper than 200 levels"),
        (b'"\\ud800"', "x", "not Unicode"),
        (b'"\xff"', "x", "not Unicode"),
    ],
    ids=[
        "NaN",
        "infinity",
        "overflow",
        "nested",
        "huge integer",
        "huge negative integer",
        "6,000 digits",
        "6,000 digits, nested",
        "200,000 levels",
        "10,000 levels with brackets in texts",
        "half a surrogate pair",
        "byte that is no UTF-8",
    ],
)
def test_only_the_record_that_holds_something_unusable_is_given_up(value: bytes, field: str, reason: str):
    # a bare NaN elsewhere forces the lenient parser even where orjson alone would succeed
    bad = b'{"ticker":"BAD","x":' + value + b"}"
    markets = decode_json(page(GOOD, bad, b'{"ticker":"BAD2","x":NaN}'))["markets"]
    assert markets[0] == market("GOOD")
    assert isinstance(markets[1], UnusableValue)
    assert (markets[1].field, markets[1].record["ticker"]) == (field, "BAD")
    assert reason in markets[1].reason
    markets[1].body.encode("ascii")


def test_bare_control_characters_are_data():
    raw = orjson.dumps(market("A", title="a b")).replace(b"a b", b"a\x01\tb")
    found = read(*decode_json(page(GOOD, raw))["markets"])
    assert found.rows["title"].to_list() == ["Will it rain?", "a\x01\tb"]


def test_a_ticker_that_is_no_unicode_is_named_in_ascii():
    found = read(*decode_json(page(GOOD, b'{"ticker":"A\\ud800"}'))["markets"]).rejects
    assert found["record_id"].to_list() == ["A\\ud800"]


def test_a_nan_in_a_nested_market_costs_neither_its_event_nor_its_siblings():
    body = b'{"events":[{"event_ticker":"E","markets":[' + GOOD + b',{"ticker":"BAD","floor_strike":NaN}]}],"cursor":""}'
    events = decode_json(body)["events"]
    parsed = parse_events(events, ORIGIN, day=DAY)
    assert parsed.rows["event_ticker"].to_list() == ["E"]
    nested = read(*extract_nested_markets(events))
    assert nested.rows["ticker"].to_list() == ["GOOD"]
    assert nested.rejects["record_id"].to_list() == ["BAD"]


def test_a_nan_in_an_event_costs_the_event_but_not_its_markets():
    nested = b'{"event_ticker":"E","fee_multiplier_override":NaN,"markets":[' + GOOD + b"]}"
    events = decode_json(b'{"events":[' + nested + b',{"event_ticker":"F"}],"cursor":""}')["events"]
    parsed = parse_events(events, ORIGIN, day=DAY)
    assert parsed.rows["event_ticker"].to_list() == ["F"]
    assert parsed.rejects["record_id"].to_list() == ["E"]
    assert read(*extract_nested_markets(events)).rows["ticker"].to_list() == ["GOOD"]
