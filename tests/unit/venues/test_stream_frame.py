"""The fast parser of envelopes agrees with a complete parse of the message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.venues.kalshi.stream.frame import Envelope, parse_envelope, parse_message, read_envelope

VALUES = st.one_of(st.none(), st.integers(-3, 2**40), st.text(max_size=5), st.lists(st.integers(), max_size=2))
KINDS = st.sampled_from(["orderbook_delta", "trade", "ok", "Novel Kind", ""])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("type"), KINDS | VALUES),
            st.tuples(st.sampled_from(["sid", "seq"]), st.integers(0, 2**40) | VALUES),
            st.tuples(st.sampled_from(["sending_ts_ms", "id", "other"]), VALUES),
            st.tuples(st.just("msg"), st.dictionaries(st.sampled_from(["sid", "seq", "type"]), VALUES, max_size=2)),
        ),
        max_size=6,
        unique_by=lambda pair: pair[0],
    ),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)
def test_a_glance_agrees_with_a_full_reading(pairs: list[tuple[str, Any]], separators: tuple[str, str]) -> None:
    data = json.dumps(dict(pairs), separators=separators).encode()
    assert parse_envelope(data) == read_envelope(parse_message(data))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"type":"trade","sid":2,"seq":7,"msg":{}}', Envelope("trade", 2, 7)),
        ('{"type":"trade","sending_ts_ms":5,"sid":2,"seq":7,"msg":{}}', Envelope("trade", 2, 7)),
        ('{"type":"ticker","sid":2,"msg":{"seq":9}}', Envelope("ticker", 2, None)),
        ('{"id":1,"type":"ok","sid":2,"seq":3,"msg":{}}', Envelope("ok", 2, 3)),
        ('{"type":"subscribed","msg":{"sid":2}}', Envelope("subscribed", None, None)),
        ('{"type":"trade","sid":"2","seq":true}', Envelope("trade", None, None)),
        ("[1,2]", Envelope(None, None, None)),
        ("not json", Envelope(None, None, None)),
        ("", Envelope(None, None, None)),
    ],
)
def test_the_forms_that_are_about(text: str, found: Envelope) -> None:
    assert parse_envelope(text.encode()) == found
