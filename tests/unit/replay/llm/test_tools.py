"""Arguments of tools are parsed exactly or refused by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import OrderError
from bellwether.replay.agents.llm.tools import Toolbox
from bellwether.replay.agents.llm.trajectory import ToolCall

TOOLBOX = Toolbox(SimpleNamespace(exogenous=("spx",), rules="kalshi-2025-07-01"))  # type: ignore[arg-type]
ORDER = {"ticker": "KX-A", "side": "yes", "action": "buy", "count": 1, "price_cents": 50}


class Recorder:
    """Context that records the orders sent, and refuses everything."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def buy(self, *order: Any) -> None:
        self.sent.append(("buy", *order))
        raise OrderError("recorded")

    def sell(self, *order: Any) -> None:
        self.sent.append(("sell", *order))
        raise OrderError("recorded")


def send(arguments: str, tool: str = "place_order") -> tuple[list[tuple[Any, ...]], str]:
    """Execute a call. Returns the orders sent, and the error that the model reads."""
    ctx = Recorder()
    (call,), _ = TOOLBOX.execute_calls(ctx, [ToolCall.model_construct(id="c", name=tool, arguments=arguments)])  # type: ignore[arg-type]
    return ctx.sent, json.loads(call.result).get("error", "")


def test_cents_and_contracts_become_units_exactly() -> None:
    prices = {"45": 4500, "45.5": 4550, "0.01": 1, "99.99": 9999, "45.50": 4550, "4.55e1": 4550, '"45.5"': 4550, "57.0": 5700, "0.29": 29}
    for text, price in prices.items():
        sent, _ = send(json.dumps(ORDER | {"count": 2.29}).replace('"price_cents": 50', f'"price_cents": {text}'))
        assert sent == [("buy", "KX-A", "yes", 229, price, None, None)], text


def test_a_market_order_has_no_price_and_a_limit_order_has_one() -> None:
    for order in ({"type": "market"}, {"type": "limit", "price_cents": None}, {"price_cents": None}):
        sent, error = send(json.dumps(ORDER | order))
        assert not sent and "price_cents" in error
    assert send(json.dumps(ORDER | {"type": "market", "price_cents": None}))[0] == [("buy", "KX-A", "yes", 100, None, None, None)]


def test_a_time_is_read_with_its_zone() -> None:
    sent, _ = send(json.dumps(ORDER | {"time_in_force": "gtd", "expires_at": "2026-01-20T18:00:00.000001+01:00"}))
    assert sent[0][5:] == ("gtd", datetime(2026, 1, 20, 17, 0, 0, 1, UTC))


#: Values that do not fit, by argument.
WRONG = {
    "price_cents": ("0", "100", "45.555", "true", '"NaN"', "NaN", "1e400", "[45]"),
    "count": ("null", "0", "0.001", "10000001", "9" * 200),
    "expires_at": ('"2026-01-20T17:00:00"', '"9999-99-99T00:00:00Z"'),
    "side": ('"YES"', "true", '""', "null"),
    "leverage": ("5",),
}
NO_OBJECTS = ("null", "{", '{"side": "yes"', '{"side": NaN}', "[" * 10_000, "x" * 30_000, "", "\ud800")


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_by_name(name: str) -> None:
    for text in WRONG[name]:
        given = {key: json.dumps(value) for key, value in ORDER.items()} | {name: text}
        sent, error = send("{" + ", ".join(f'"{key}": {value}' for key, value in given.items()) + "}")
        assert not sent and name in error, text


def test_what_is_no_object_is_refused() -> None:
    for text in NO_OBJECTS:
        sent, error = send(text)
        assert not sent and error.startswith("place_order: "), text


def test_a_missing_argument_is_named() -> None:
    for name in ("ticker", "side", "action", "count"):
        _, error = send(json.dumps({key: value for key, value in ORDER.items() if key != name}))
        assert error == f"place_order: {name}: Field required"
    assert send('{"name": "dax"}', "get_exogenous")[1] == "get_exogenous: name: Input should be 'spx'"


def test_the_schema_says_what_is_read() -> None:
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLBOX.definitions}
    for schema in tools.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert set(schema) <= {"type", "properties", "required", "additionalProperties"}
        assert not {"anyOf", "default", "title"} & {word for field in schema["properties"].values() for word in field}
    schema = tools["place_order"]
    assert schema["required"] == ["ticker", "side", "action", "count"]
    jsonschema.validate(ORDER | {"price_cents": 45.5, "count": 0.01}, schema)
    for wrong in ({}, ORDER | {"side": "YES"}, ORDER | {"price_cents": 100}, ORDER | {"other": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert tools["get_exogenous"]["properties"]["name"]["enum"] == ["spx"]


TEXT = st.text('{}[]",:0123456789.-+eE tfnyso\\\n\x00\u0661\ud800é')
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*ORDER, "expires_at", "x"]), inner, max_size=4)),
    max_leaves=8,
)


@given(text=st.one_of(TEXT, JSON.map(json.dumps), JSON.map(lambda value: json.dumps(ORDER | {"price_cents": value}))))
def test_any_text_is_read_or_refused(text: str) -> None:
    sent, error = send(text)
    assert error
    for order in sent:
        assert order[3] is None or 0 < order[3] < 10_000
