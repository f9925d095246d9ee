"""The CLOB: books and prices of many tokens at once, and POST requests that only read."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import orjson
import pytest

from bellwether.errors import VenueError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient
from bellwether.venues.polymarket.quotes import parse_midpoints
from tests.venues.polymarket.clients import CLOB, clob
from tests.venues.venue import Naps, Script, answer

TOKENS = [str(10**76 + number) for number in range(1201)]


class Books:
    """Answers POST requests of tokens, and GET requests of a midpoint. `refused`: status of every batch. `bookless`: tokens without a book."""

    def __init__(self, *, refused: int = 0, bookless: frozenset[str] = frozenset()) -> None:
        self.refused = refused
        self.bookless = bookless
        self.calls: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls.append((request.method, request.url.path))
        if request.method == "GET":
            token = request.url.params["token_id"]
            missing = answer({"error": "No orderbook exists for the requested token id"}, status=404)
            return missing if token in self.bookless else answer({"mid": "0.25"})
        assert request.headers["content-type"] == "application/json"
        tokens = [item["token_id"] for item in orjson.loads(request.content)]
        assert len(tokens) <= 500
        if self.refused:
            return answer({"error": "payload refused"}, status=self.refused)
        held = [token for token in tokens if token not in self.bookless]
        return answer([{"asset_id": token} for token in held] if request.url.path == "/books" else dict.fromkeys(held, "0.5"))


async def test_books_of_many_tokens_come_in_batches():
    venue = Books(bookless=frozenset(TOKENS[3:5]))
    async with clob(venue) as client:
        pages = await client.books(TOKENS)
    assert [len(page.json) for page in pages] == [498, 500, 201]
    assert [book["asset_id"] for page in pages for book in page.json] == [*TOKENS[:3], *TOKENS[5:]]
    assert [token for page in pages for token in routes.parse_requested_tokens(page)] == TOKENS
    assert venue.calls == [("POST", "/books")] * 3


async def test_midpoints_of_many_tokens_come_in_batches():
    async with clob(Books(bookless=frozenset(TOKENS[:1]))) as client:
        pages = await client.midpoints(TOKENS)
    assert parse_midpoints(pages) == dict.fromkeys(TOKENS[1:], Decimal("0.5"))
    assert len(pages) == 3


@pytest.mark.parametrize("status", [400, 404, 405, 413, 422])
async def test_midpoints_of_a_refused_batch_are_asked_for_one_by_one(status: int):
    venue = Books(refused=status, bookless=frozenset(TOKENS[1:2]))
    async with clob(venue) as client:
        pages = await client.midpoints(TOKENS[:4])
    assert parse_midpoints(pages) == {token: Decimal("0.25") for token in TOKENS[:4] if token != TOKENS[1]}
    assert [page.status for page in pages] == [200, 404, 200, 200]
    assert venue.calls == [("POST", "/midpoints"), *[("GET", "/midpoint")] * 4]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_refused_is_no_reason_to_ask_one_by_one(status: int):
    venue = Books(refused=status)
    async with clob(venue) as client:
        with pytest.raises(RefusedError, match=f"HTTP {status}"):
            await client.midpoints(TOKENS[:3])
    assert len(venue.calls) == 1


PASSING = {
    "429 with a web page": answer(b"<html>slow down</html>", status=429),
    "500": answer({"error": "internal"}, status=500),
    "a cut list": answer(b'[{"asset_id":"1"'),
    "a closed connection": httpx.ReadError("reset by peer"),
    "a timeout": httpx.ReadTimeout("too slow"),
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=list(PASSING))
async def test_a_post_is_a_read_and_repeated_with_the_same_body(failure: httpx.Response | Exception):
    script, naps = Script(failure, failure, answer([{"asset_id": "1"}])), Naps()
    async with clob(script, sleep=naps) as client:
        (page,) = await client.books(["1"])
    assert page.json == [{"asset_id": "1"}]
    assert [request.content for request in script.requests] == [b'[{"token_id":"1"}]'] * 3
    assert len(naps.taken) == 2


async def test_the_venues_clock_is_a_bare_number():
    async with clob(Script(answer(b"1784851200"))) as client:
        assert (await client.fetch(routes.time())).json == 1784851200


def page(call: Any, body: Any, status: int = 200) -> VenuePage:
    return VenuePage(call.request, status, datetime(2026, 7, 24, tzinfo=UTC), orjson.dumps(body), 0, call.body)


@pytest.mark.parametrize("body", [{"mid": "0.0275"}, {"mid_price": "0.0275"}])
def test_a_single_midpoint_is_read_under_either_name(body: dict[str, str]):
    assert parse_midpoints([page(routes.midpoint("9"), body)]) == {"9": Decimal("0.0275")}


@pytest.mark.parametrize("body", [{}, {"mid": ""}, {"mid": None}, {"error": "none"}])
def test_a_token_without_a_midpoint_is_left_out(body: dict[str, Any]):
    assert parse_midpoints([page(routes.midpoint("9"), body)]) == {}


@pytest.mark.parametrize("value", [1.5, "1.5", "-0.1", "half", "NaN", "0.5 ", 2, True, ["0.5"]])
def test_a_midpoint_that_is_no_price_is_an_error(value: Any):
    with pytest.raises(VenueError, match="no decimal from 0 to 1"):
        parse_midpoints([page(routes.midpoints(["9"])[0], {"9": value})])


def test_the_usual_rate_is_below_the_documented_one():
    limits = ClobClient(CLOB).limits
    assert (limits.tokens_per_second * (10 + limits.bucket_seconds)) / limits.tokens_per_read <= 500
