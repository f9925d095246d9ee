"""Arguments are parsed exactly or refused with a message. No text of a model raises another exception."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.replay.agents.llm import arguments as args
from bellwether.replay.agents.llm.arguments import ArgumentError, build_schema, read_arguments

FIELDS = {
    "side": args.choice_field(("yes", "no"), "the contract"),
    "price_cents": args.price_field("limit", required=False),
    "count": args.count_field("contracts", required=False),
    "depth": args.integer_field(1, 100, "levels", required=False),
    "at": args.time_field("when", required=False),
    "note": args.text_field("why", 10, required=False),
}


def read(**given: Any) -> dict[str, Any]:
    return read_arguments(json.dumps({"side": "yes", **given}), FIELDS)


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("45", 4500),
        ("45.5", 4550),
        ("0.1", 10),
        ("99.9", 9990),
        ("45.50", 4550),
        ("4.55e1", 4550),
        ('"45"', 4500),
        ('"45.5"', 4550),
        ("57.0", 5700),
    ],
)
def test_cents_become_prices_exactly(text: str, price: int) -> None:
    assert read_arguments(f'{{"side": "yes", "price_cents": {text}}}', FIELDS)["price_cents"] == price


def test_hundredths_of_a_cent_are_read_where_a_market_has_them() -> None:
    fine = {"price_cents": args.price_field("limit", 1)}
    assert read_arguments('{"price_cents": 45.55}', fine) == {"price_cents": 4555}
    assert build_schema(fine)["properties"]["price_cents"]["minimum"] == 0.01
    with pytest.raises(ArgumentError, match="two decimals"):
        read_arguments('{"price_cents": 45.555}', fine)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("price_cents", text) for text in ("0", "100", "45.55", "true", '"NaN"', '"1e1"', "1e400")),
        *(("count", text) for text in ("0", "0.001", "10000001", "9" * 200, '"١"')),
        *(("depth", text) for text in ("0", "101", "1.5", "false")),
        *(("at", text) for text in ('"2026-01-20T17:00:00"', "5", '"9999-99-99T00:00:00Z"')),
        *(("side", text) for text in ('"YES"', "true", '""')),
        ("note", '"12345678901"'),
        ("leverage", "5"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(name: str, text: str) -> None:
    given = {"side": '"yes"', name: text}
    with pytest.raises(ArgumentError, match=name):
        read_arguments("{" + ", ".join(f'"{key}": {value}' for key, value in given.items()) + "}", FIELDS)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "{",
        '{"side": "yes"',
        '{"side": NaN}',
        '{"side": "yes", "side": "no"}',
        "[" * 10_000,
        "x" * 30_000,
    ],
)
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        read_arguments(text, FIELDS)


def test_a_missing_argument_is_named_and_null_is_missing() -> None:
    for text in ("{}", "", "  ", '{"side": null}'):
        with pytest.raises(ArgumentError, match="side is missing"):
            read_arguments(text, FIELDS)
    assert read(price_cents=None) == {"side": "yes"}


def test_a_time_is_read_with_its_zone() -> None:
    assert read(at="2026-01-20T18:00:00.000001+01:00")["at"] == 1_768_928_400_000_001_000


def test_the_schema_says_what_is_read() -> None:
    schema = build_schema(FIELDS)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"side": "yes", "price_cents": 45.5, "count": 0.01, "depth": 3}, schema)
    for wrong in ({}, {"side": "YES"}, {"side": "yes", "price_cents": 100}, {"side": "yes", "other": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*FIELDS, "x"]), inner, max_size=4)),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.one_of(st.text(), JSON.map(json.dumps)))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        values = read_arguments(text, FIELDS)
    except ArgumentError as refused:
        assert str(refused)
    else:
        assert values["side"] in ("yes", "no")
        assert all(isinstance(values[name], int) for name in ("price_cents", "count", "depth", "at") if name in values)
