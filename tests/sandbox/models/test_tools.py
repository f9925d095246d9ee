"""Tool calls and structured answers are valid for their schemas, and say what the model thinks."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bellwether.sandbox.instants import instant
from bellwether.sandbox.models import Truth
from bellwether.sandbox.models.author import Reply
from bellwether.sandbox.models.schema import MISSING, fill, fits, flaw
from bellwether.sandbox.world.model import Market

LATER = datetime(2025, 9, 1, tzinfo=UTC)
Says = Callable[..., Reply]

FORECAST = {
    "type": "object",
    "properties": {
        "p_yes": {"type": "number", "minimum": 0, "maximum": 1},
        "answer": {"type": "string", "enum": ["YES", "NO"]},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
        "reasoning": {"type": "string", "minLength": 1, "maxLength": 4000},
        "sources": {"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 2},
    },
    "required": ["p_yes", "answer", "confidence", "reasoning", "sources"],
    "additionalProperties": False,
}
ORDER = {
    "type": "object",
    "properties": {
        "ticker": {"type": "string"},
        "side": {"enum": ["yes", "no"]},
        "action": {"enum": ["buy", "sell"]},
        "type": {"enum": ["market", "limit"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 100},
        "limit_price_cents": {"type": ["integer", "null"], "minimum": 1, "maximum": 99},
        "time_in_force": {"enum": ["ioc", "gtc", "post_only"], "default": "gtc"},
    },
    "required": ["ticker", "side", "action", "type", "count", "limit_price_cents", "time_in_force"],
}
DECISION = {
    "type": "object",
    "properties": {
        "action": {"enum": ["BET", "SELL", "HOLD"]},
        "reasoning": {"type": "string"},
        "bets": {"type": "array", "items": {"$ref": "#/$defs/bet"}},
    },
    "required": ["action", "reasoning"],
    "$defs": {
        "bet": {"type": "object", "properties": {"market_id": {"type": "string"}, "amount": {"type": "number"}}, "required": ["market_id"]}
    },
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def tool(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TRADER = [tool("get_markets", NOTHING), tool("get_positions", NOTHING), tool("place_order", ORDER), tool("done", NOTHING)]


@pytest.fixture(scope="module")
def likely(truth: Truth, settled: list[Market]) -> Market:
    return next(market for market in settled if 0.6 < truth.by_id(market.ticker, instant(LATER)).probability < 0.9)  # type: ignore[union-attr]


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_a_forecast_tool_is_called_with_what_the_model_thinks(says: Says, truth: Truth, likely: Market) -> None:
    reply = says("calibrated", user(f"Forecast {likely.ticker}"), tools=[tool("submit_forecast", FORECAST)])
    arguments = json.loads(reply.arguments)
    jsonschema.validate(arguments, FORECAST)
    p = round(truth.by_id(likely.ticker, instant(LATER)).probability, 4)  # type: ignore[union-attr]
    assert reply.tool == "submit_forecast"
    assert (arguments["p_yes"], arguments["answer"], arguments["confidence"]) == (pytest.approx(p), "YES", round(100 * p))


def test_a_structured_answer_meets_its_schema(says: Says, likely: Market) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "forecast", "strict": True, "schema": FORECAST}}
    for model in ("calibrated", "overconfident", "timid", "contrarian", "noisy", "slow"):
        jsonschema.validate(json.loads(says(model, user(likely.ticker), response_format=schema).content or ""), FORECAST)
    wrong = {says("malformed", user(likely.ticker), sample=sample, response_format=schema).content for sample in range(14)}
    assert "" in wrong


def test_a_decision_can_be_asked_for_by_schema(says: Says, likely: Market) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "decision", "schema": DECISION}}
    shown = f"Cash: $1,000\nID: {likely.ticker}\nYES: 5%"
    made = json.loads(says("calibrated", user(shown), response_format=schema).content or "")
    jsonschema.validate(made, DECISION)
    assert (made["action"], made["bets"][0]["market_id"]) == ("BET", likely.ticker)


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        (None, "get_markets"),
        ("auto", "get_markets"),
        ("required", "get_markets"),
        ("none", None),
        ({"type": "function", "function": {"name": "done"}}, "done"),
        ({"type": "function", "function": {"name": "place_order"}}, "place_order"),
    ],
)
def test_the_choice_of_tools_is_kept(says: Says, likely: Market, choice: Any, called: str | None) -> None:
    reply = says("calibrated", user(likely.ticker), tools=TRADER, tool_choice=choice)
    assert reply.tool == called
    if called:
        jsonschema.validate(
            json.loads(reply.arguments), next(one["function"]["parameters"] for one in TRADER if one["function"]["name"] == called)
        )


def converse(says: Says, model: str, shown: str, answers: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Let a model use the trader's tools until it answers; what it called."""
    messages, calls = user(shown), []
    for _ in range(20):
        reply = says(model, messages, tools=TRADER)
        if not reply.tool:
            return calls
        calls.append((reply.tool, json.loads(reply.arguments)))
        call = {"id": f"call_{len(calls)}", "type": "function", "function": {"name": reply.tool, "arguments": reply.arguments}}
        messages = [
            *messages,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": answers.get(reply.tool, "{}")},
        ]
    raise AssertionError("it never ends")


def test_a_trader_looks_trades_what_is_too_cheap_and_is_done(says: Says, likely: Market) -> None:
    quotes = json.dumps([{"ticker": likely.ticker, "yes_ask": 20, "yes_bid": 18}])
    calls = converse(says, "calibrated", "Trade. Call done() when you are finished.", {"get_markets": quotes})
    assert [name for name, _ in calls] == ["get_markets", "place_order", "done"]
    order = calls[1][1]
    jsonschema.validate(order, ORDER)
    assert (order["ticker"], order["side"], order["action"], order["limit_price_cents"]) == (likely.ticker, "yes", "buy", 20)
    against = converse(says, "contrarian", "Trade.", {"get_markets": quotes.replace("20", "60").replace("18", "59")})
    assert (against[1][1]["side"], against[1][1]["limit_price_cents"]) == ("no", 40)


def test_a_trader_that_sees_nothing_cheap_is_done(says: Says) -> None:
    assert [name for name, _ in converse(says, "calibrated", "Trade.", {"get_markets": "[]"})] == ["get_markets", "done"]


def test_malformed_arguments_are_malformed_in_turn(says: Says, settled: list[Market]) -> None:
    wrong = [says("malformed", user(market.ticker), tools=[tool("submit_forecast", FORECAST)]).arguments for market in settled[:40]]
    valid = 0
    for arguments in wrong:
        try:
            jsonschema.validate(json.loads(arguments), FORECAST)
            valid += 1
        except (json.JSONDecodeError, jsonschema.ValidationError):
            continue
    assert valid == 0
    assert {"", "null"} <= set(wrong)


# --- schemas -------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(-5, 5)
SCALARS = st.one_of(
    st.just({"type": "string"}),
    st.fixed_dictionaries({"type": st.just("string"), "minLength": st.integers(0, 5), "maxLength": st.integers(5, 9)}),
    st.fixed_dictionaries({"type": st.just("string"), "format": st.sampled_from(["date", "date-time", "uuid", "uri"])}),
    st.fixed_dictionaries({"type": st.sampled_from(["number", "integer"]), "minimum": NUMBERS, "maximum": st.integers(6, 200)}),
    st.fixed_dictionaries({"type": st.just("integer"), "exclusiveMinimum": NUMBERS, "multipleOf": st.integers(1, 7)}),
    st.fixed_dictionaries({"type": st.just("number"), "exclusiveMaximum": NUMBERS}),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "b", 1, None, True]), min_size=1)}),
    st.fixed_dictionaries({"const": st.sampled_from(["x", 5, None])}),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {}, True]),
)
NAMES = st.sampled_from(["p_yes", "confidence", "answer", "side", "reasoning", "ticker", "count", "price", "other"])


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(NAMES, inner, min_size=1, max_size=4).flatmap(
        lambda properties: st.lists(st.sampled_from(sorted(properties)), unique=True).map(
            lambda required: {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        )
    )
    arrays = st.fixed_dictionaries({"type": st.just("array"), "items": inner, "minItems": st.integers(0, 3)})
    return st.one_of(objects, arrays, st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}))


SCHEMAS = st.recursive(SCALARS, _nested, max_leaves=8)


def wanted(name: str, schema: Any) -> Any:
    return {"p_yes": 0.37, "confidence": 63, "answer": "no", "reasoning": "because", "ticker": "KX-1", "count": 10}.get(name, MISSING)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schema=SCHEMAS)
def test_what_is_filled_in_is_valid(schema: Any) -> None:
    value = fill(schema, wanted)
    jsonschema.validate(value, schema)
    assert fits(value, schema)
    json.dumps(value, allow_nan=False)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schema=SCHEMAS, value=st.one_of(st.none(), st.booleans(), st.integers(-300, 300), st.text(max_size=8), st.just([]), st.just({})))
@example(schema={"enum": [1]}, value=True)
@example(schema={"const": 0}, value=False)
def test_fits_never_calls_an_invalid_value_valid(schema: Any, value: Any) -> None:
    if fits(value, schema):
        jsonschema.validate(value, schema)


@pytest.mark.parametrize(
    "schema",
    [
        DECISION,
        {"allOf": [{"type": "object", "properties": {"p_yes": {"type": "number"}}}, {"required": ["p_yes"]}]},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/n"}},
            "required": ["a"],
            "definitions": {"n": {"type": "integer", "minimum": 3}},
        },
        {"type": "string", "pattern": "^[A-Z]{2}-[0-9]$"},
        {"type": "object", "required": ["unknown"]},
    ],
)
def test_references_and_parts_are_followed(schema: Any) -> None:
    jsonschema.validate(fill(schema, wanted), schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}, "p_yes": {"type": "number"}}, "required": ["p_yes"]}
    jsonschema.validate(fill(schema, wanted), schema)
    for endless in ({"$ref": "#"}, {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {"allOf": [{"$ref": "#"}]}):
        json.dumps(fill(endless, wanted))


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        (5, "schema"),
        ({"properties": 5}, "properties"),
        ({"properties": {"a": {"enum": "ab"}}}, "enum"),
        ({"items": {"required": "a"}}, "required"),
        ({"anyOf": []}, "anyOf"),
        ({"$defs": {"a": {"minimum": "0"}}}, "minimum"),
        ({"minItems": 10**9}, "minItems"),
        ({"minLength": -1}, "minLength"),
    ],
)
def test_an_unsound_schema_is_named(schema: Any, keyword: str) -> None:
    assert flaw(schema) == keyword


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schema=SCHEMAS)
def test_sound_schemas_have_no_flaw(schema: Any) -> None:
    assert flaw(schema) is None
