"""The key of a call: equal for equal calls on every machine, different otherwise, and without secrets."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError
from bellwether.journal.values import Request
from tests.unit.journal.calls import make_request

#: A change of this digest would make every stored answer unreachable.
KEY = "62f7d78cfae748a67234674d6917e4038cc40f0f5801caa03a8216b733540eca"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ü", "stop"]), inner, max_size=3),
    max_leaves=8,
)


def test_the_key_is_the_digest_of_the_text_that_is_stored() -> None:
    request = make_request(7)
    assert hashlib.sha256(request.text.encode()).hexdigest() == request.key
    assert json.loads(request.text)["messages"] == request.messages


@pytest.mark.parametrize(
    "change",
    [
        {"model": "acme/oracle-3"},
        {"purpose": "arena/decisions"},
        {"scope": "r2027"},
        {"sample": 1},
        {"parameters": {"temperature": 0.5, "max_tokens": 400}},
        {"parameters": {"temperature": 0}},
        {"parameters": {"temperature": False, "max_tokens": 400}},
        {"parameters": {"temperature": "0", "max_tokens": 400}},
        {"parameters": {"temperature": None, "max_tokens": 400}},
        {"messages": [{"role": "user", "content": "Will event 0 happen?"}]},
        {"messages": [*make_request().messages, {"role": "user", "content": ""}]},
    ],
)
def test_whatever_determines_the_call_changes_the_key(change: dict[str, Any]) -> None:
    assert make_request(**change).key != make_request().key


def test_how_the_same_call_is_written_does_not_change_the_key() -> None:
    other = make_request(
        parameters={"max_tokens": 400.0, "temperature": -0.0},
        messages=tuple({name: message[name] for name in ("content", "role")} for message in make_request().messages),
    )
    assert other.key == make_request().key


@given(parameters=st.dictionaries(st.sampled_from(["x", "y", "z"]), JSON, max_size=3), data=st.data())
def test_the_order_of_names_and_a_passage_through_json_do_not_change_the_key(parameters: dict[str, Any], data: st.DataObject) -> None:
    request = make_request(parameters=parameters)
    names = data.draw(st.permutations(list(parameters)))
    assert make_request(parameters={name: parameters[name] for name in names}).key == request.key
    again = json.loads(request.text)
    assert make_request(parameters=again["parameters"], messages=again["messages"]).key == request.key


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ""}, "model is ''"),
        ({"model": None}, "model is None"),
        ({"purpose": " "}, "purpose is ' '"),
        ({"scope": "a\x00b"}, "scope"),
        ({"scope": "x" * 401}, "at most 400 bytes"),
        ({"sample": -1}, "sample is -1"),
        ({"sample": True}, "sample is True"),
        ({"sample": None}, "sample is -1"),
        ({"parameters": {"temperature": float("nan")}}, "request.parameters.temperature is nan"),
        ({"parameters": {"seed": 2**60}}, "request.parameters.seed"),
        ({"parameters": {"stop": {"a"}}}, "request.parameters.stop is a set"),
        ({"parameters": {"stop": b"x"}}, "request.parameters.stop is a bytes"),
        ({"parameters": {1: "x"}}, "names are texts"),
        ({"messages": [{"role": "user", "content": object()}]}, r"request.messages\[0\].content is a object"),
    ],
)
def test_what_has_no_canonical_form_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_request(**change)


def test_a_request_is_what_it_was_when_it_was_made() -> None:
    parameters = {"temperature": 0}
    request = Request("m", [{"role": "user", "content": "?"}], "p", parameters)
    key = request.key
    parameters["temperature"] = 1
    assert request.key == key
    assert '"temperature":0' in request.text


def test_the_key_is_the_same_on_every_machine() -> None:
    assert make_request(7).key == KEY
