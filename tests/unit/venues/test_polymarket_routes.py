"""Requests sent, and requests that the venue refuses and that are never sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from bellwether.errors import ConfigError
from bellwether.venues.http.page import VenueCall, VenuePage
from bellwether.venues.polymarket import routes

DAY = datetime(2026, 7, 24, tzinfo=UTC)
NEXT = DAY + timedelta(days=1)
TOKEN = "72690798903588392269001731007662425920353908498880709179939493847828858696064"
CONDITION = "0x11ba5a5ab05573dee22a32b4c5bec06f035b8660eed912fb134e7215f46bf537"

CALLS = [
    (
        routes.markets(closed=False, active=True, order="volumeNum", ascending=False, limit=50),
        "GET /markets/keyset?closed=false&active=true&order=volumeNum&ascending=false&limit=50",
    ),
    (
        routes.markets(closed=False, end_date_min=datetime(2026, 7, 23, 20, tzinfo=timezone(timedelta(hours=-4))), end_date_max=NEXT),
        "GET /markets/keyset?closed=false&end_date_min=2026-07-24T00%3A00%3A00Z&end_date_max=2026-07-25T00%3A00%3A00Z&limit=100",
    ),
    (
        routes.markets(closed=False, ids=["12", "7"], include_tag=True),
        "GET /markets/keyset?closed=false&id=12&id=7&include_tag=true&limit=100",
    ),
    (routes.events(closed=True, ids=["5"], limit=500), "GET /events/keyset?closed=true&id=5&limit=500"),
    (routes.use_offsets(routes.markets(closed=True)), "GET /markets?closed=true&limit=100"),
    (
        routes.prices_history(TOKEN, start=DAY, end=DAY + timedelta(hours=1), fidelity_minutes=60),
        f"GET /prices-history?market={TOKEN}&startTs=1784851200&endTs=1784854800&fidelity=60",
    ),
    (routes.clob_market(CONDITION), f"GET /markets/{CONDITION}"),
    (routes.time(), "GET /time"),
]


@pytest.mark.parametrize(("call", "request_text"), CALLS, ids=[text for _, text in CALLS])
def test_a_call_reads_as_it_is_sent(call: Any, request_text: str):
    assert call.request == request_text


def test_tokens_go_five_hundred_in_a_call_in_their_order():
    tokens = [str(number) for number in range(1001)]
    calls = routes.books(tokens)
    assert [(call.method, call.path) for call in calls] == [("POST", "/books")] * 3
    assert [len(orjson.loads(call.body)) for call in calls] == [500, 500, 1]
    assert [token for call in calls for token in routes.parse_tokens(call.body)] == tokens
    assert routes.books([]) == []


def test_two_batches_are_two_requests_and_the_same_batch_is_one():
    first, second = routes.books(["1"] * 501)
    assert first.request != second.request
    assert routes.books(["1"] * 500)[0].request == first.request


def prices(token: str = TOKEN, start: datetime = DAY, end: datetime = NEXT, minutes: int = 60) -> VenueCall:
    return routes.prices_history(token, start=start, end=end, fidelity_minutes=minutes)


FORBIDDEN = {
    "101 markets on a page": lambda: routes.markets(closed=True, limit=101),
    "no market on a page": lambda: routes.markets(closed=True, limit=0),
    "501 events on a page": lambda: routes.events(closed=True, limit=501),
    "a condition id without 0x": lambda: routes.clob_market(CONDITION[2:]),
    "a condition id with a newline": lambda: routes.clob_market(CONDITION + "\n"),
    "an id in words": lambda: routes.markets(closed=True, ids=["abc"]),
    "an id as a number": lambda: routes.events(closed=True, ids=[3047949]),  # type: ignore[list-item]
    "an order in snake case": lambda: routes.markets(closed=True, order="volume_num"),
    "an order with a parameter in it": lambda: routes.markets(closed=True, order="volume&limit=9"),
    "end dates without a zone": lambda: routes.markets(closed=True, end_date_min=datetime(2026, 7, 24)),
    "end dates the wrong way round": lambda: routes.markets(closed=True, end_date_min=NEXT, end_date_max=DAY),
    "an empty token": lambda: routes.books(["1", ""]),
    "a token of 91 digits": lambda: routes.books(["1" * 91]),
    "a token in other digits": lambda: prices("١٢٣"),
    "a token with a newline": lambda: routes.books(["123\n"]),
    "past prices every 0 minutes": lambda: prices(minutes=0),
    "past prices without a zone": lambda: prices(start=datetime(2026, 7, 24)),
    "past prices the wrong way round": lambda: prices(start=NEXT, end=DAY),
}


@pytest.mark.parametrize("build", FORBIDDEN.values(), ids=list(FORBIDDEN))
def test_what_the_venue_refuses_is_refused_before_it_is_sent(build: Any):
    with pytest.raises(ConfigError, match="requesting "):
        build()


@pytest.mark.parametrize("token", ["1", "9" * 90, TOKEN])
def test_token_ids_of_any_length_are_text(token: str):
    assert routes.check_token(token) == token


def test_closed_has_no_default():
    with pytest.raises(TypeError, match="closed"):
        routes.markets()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "tokens"),
    [
        (routes.books(["1", "22"])[0], ["1", "22"]),
        (prices("8"), ["8"]),
        (routes.time(), []),
    ],
)
def test_the_tokens_of_a_call_can_be_read_back(call: VenueCall, tokens: list[str]):
    assert routes.parse_requested_tokens(VenuePage(call.request, 200, DAY, b"{}", 0, call.body)) == tokens
