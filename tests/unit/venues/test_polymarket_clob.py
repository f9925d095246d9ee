"""The CLOB: books and prices of many tokens at once, and POST requests that only read."""

from __future__ import annotations

import httpx
import orjson
import pytest

from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient
from tests.venues.polymarket.clients import CLOB, clob
from tests.venues.venue import Naps, Script, answer

TOKENS = [str(10**76 + number) for number in range(1201)]


class Books:
    """Answers POST requests of tokens. `bookless`: tokens without a book."""

    def __init__(self, bookless: frozenset[str]) -> None:
        self.bookless = bookless
        self.calls: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls.append((request.method, request.url.path))
        assert request.headers["content-type"] == "application/json"
        tokens = [item["token_id"] for item in orjson.loads(request.content)]
        assert len(tokens) <= 500
        return answer([{"asset_id": token} for token in tokens if token not in self.bookless])


async def test_books_of_many_tokens_come_in_batches():
    venue = Books(frozenset(TOKENS[3:5]))
    async with clob(venue) as client:
        pages = await client.books(TOKENS)
    assert [len(page.json) for page in pages] == [498, 500, 201]
    assert [book["asset_id"] for page in pages for book in page.json] == [*TOKENS[:3], *TOKENS[5:]]
    assert [token for page in pages for token in routes.parse_requested_tokens(page)] == TOKENS
    assert venue.calls == [("POST", "/books")] * 3


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


def test_the_usual_rate_is_below_the_documented_one():
    limits = ClobClient(CLOB).limits
    assert (limits.tokens_per_second * (10 + limits.bucket_seconds)) / limits.tokens_per_read <= 500
