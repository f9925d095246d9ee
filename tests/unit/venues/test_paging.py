"""Listings page by page by cursor, and guards against endless listings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pytest

from bellwether.errors import VenueError
from bellwether.venues.http.page import VenueCall, VenuePage
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.kalshi import routes as kalshi_routes
from bellwether.venues.polymarket import routes
from tests.unit.venues.polymarket_clients import clob, gamma
from tests.unit.venues.venue import Naps, Script, answer, client
from tests.unit.venues.wire_objects import market


def listing(cursor: Any, *tickers: str) -> httpx.Response:
    return answer({"markets": [market(ticker) for ticker in tickers], "cursor": cursor})


async def collect(script: Script) -> list[VenuePage]:
    async with client(script) as venue:
        return [page async for page in venue.follow(kalshi_routes.markets())]


def tickers(pages: list[VenuePage]) -> list[str]:
    return [item["ticker"] for page in pages for item in page.items("markets")]


async def test_an_empty_page_with_a_cursor_is_not_the_end_and_asked_for_again():
    assert tickers(await collect(Script(listing("c1", "A"), listing("c2"), listing("c3"), listing("", "B")))) == ["A", "B"]


@pytest.mark.parametrize(
    "pages",
    [[listing("c1", "A"), listing("c1", "B")], [listing("c1", "A"), listing("c2", "B"), listing("c1", "C")]],
    ids=["at once", "after a while"],
)
async def test_a_cursor_that_repeats_for_ever_ends_in_an_error(pages: list[httpx.Response]):
    script = Script(*pages)
    with pytest.raises(VenueError, match=r"loops at page \d: the cursor 'c1' came before"):
        await collect(script)
    assert len(script.requests) == len(pages) + 2


async def test_a_page_that_repeats_an_earlier_one_under_fresh_cursors_ends_in_an_error():
    with pytest.raises(VenueError, match="its 2 markets are those of an earlier page"):
        await collect(Script(listing("c1", "A", "B"), listing("c2", "C"), listing("c3", "A", "B")))


async def test_an_empty_page_whose_cursor_goes_on_however_often_it_is_asked_for_is_an_error():
    script, naps = Script(listing("c1", "A"), listing("c2")), Naps()
    async with client(script, naps=naps) as venue:
        with pytest.raises(VenueError, match="the listing has a hole at page 1") as caught:
            _ = [page async for page in venue.follow(kalshi_routes.markets())]
    assert (caught.value.kind, caught.value.attempts) == ("paging", 1 + 2)
    assert len(script.requests) == 1 + 1 + 2
    assert len(naps.taken) == 2


@pytest.mark.parametrize("wrong", [listing("c2"), listing("c1", "A"), listing("c9", "A")], ids=["emptied", "repeated", "repeated anew"])
async def test_a_page_that_looks_wrong_once_is_asked_for_again(wrong: httpx.Response):
    script = Script(listing("c1", "A"), wrong, listing("c2", "B"), listing("", "C"))
    assert tickers(await collect(script)) == ["A", "B", "C"]
    assert script.urls[1] == script.urls[2]


async def test_a_listing_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bellwether.venues.http.paging.MOST_PAGES", 3)
    script = Script(*(listing(f"c{number}", f"T{number}") for number in range(9)))
    with pytest.raises(VenueError, match="no end: 3 pages"):
        await collect(script)
    assert tickers(await collect(Script(listing("c1", "A"), listing("c2", "B"), listing("", "C")))) == ["A", "B", "C"]


async def test_an_answer_without_the_list_is_requested_again_and_then_an_error():
    bare = answer({"events": [], "cursor": ""})
    assert tickers(await collect(Script(bare, listing("", "A")))) == ["A"]
    with pytest.raises(VenueError, match="HTTP 200 without 'markets'; the answer holds cursor, events") as caught:
        await collect(Script(bare))
    assert caught.value.kind == "malformed"


def keyset(cursor: Any, *ids: int, items: str = "markets") -> httpx.Response:
    body = {items: [{"id": str(number)} for number in ids], "next_cursor": cursor}
    return answer({name: value for name, value in body.items() if value is not ...})


def ids(pages: list[VenuePage], items: str = "markets") -> list[str]:
    return [item["id"] for page in pages for item in page.items(items)]


async def follow(*pages: httpx.Response) -> list[VenuePage]:
    """Return the pages of a listing by keyset, from a venue that answers with `pages` in turn."""
    async with gamma(Script(*pages)) as client:
        return [page async for page in client.follow(routes.markets(closed=True))]


async def test_a_listing_by_keyset_is_followed_to_its_end():
    script = Script(keyset("a", 1), keyset("a", 1), keyset("b", 2), keyset(..., 3))
    async with gamma(script) as client:
        pages = [page async for page in client.follow(routes.markets(closed=False))]
    assert (ids(pages), [page.ordinal for page in pages]) == (["1", "2", "3"], [0, 1, 2])
    cursors = ("", "&after_cursor=a", "&after_cursor=a", "&after_cursor=b")
    assert script.urls == [f"/markets/keyset?closed=false&include_tag=true&limit=100{cursor}" for cursor in cursors]


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
        pages = await client.fetch_all(routes.books(TOKENS))
    assert [len(page.json) for page in pages] == [498, 500, 201]
    assert [book["asset_id"] for page in pages for book in page.json] == [*TOKENS[:3], *TOKENS[5:]]
    assert [item["token_id"] for page in pages for item in orjson.loads(page.sent)] == TOKENS
    assert venue.calls == [("POST", "/books")] * 3


async def test_a_cursor_that_is_absent_null_or_empty_is_the_end():
    assert len(await collect(Script(answer({"markets": []})))) == 1
    for end in ("", None):
        pages = await collect(Script(listing("c1", "A", "B"), listing("c2", "C"), listing(end, "D")))
        assert (tickers(pages), [page.ordinal for page in pages]) == (["A", "B", "C", "D"], [0, 1, 2])
    for last in (..., None, ""):
        assert ids(await follow(keyset("a", 1, 2), keyset(last, 3))) == ["1", "2", "3"]


async def test_a_caller_that_accepts_holes_gets_five_and_no_more():
    for holes in (5, 6):
        pages = {
            None: listing("c0", "A"),
            **{f"c{number}": listing(f"c{number + 1}") for number in range(holes)},
            f"c{holes}": listing("", "B"),
        }

        async def fetch(call: VenueCall, *, ordinal: int, pages: dict[Any, httpx.Response] = pages) -> VenuePage:
            return VenuePage(call.path, 200, datetime(2026, 3, 20, tzinfo=UTC), pages[dict(call.params).get("cursor")].content, ordinal)

        walked = iterate_pages(Listing("/markets", (), "markets", "ticker"), fetch, pause=Naps(), holes=True)
        if holes > 5:
            with pytest.raises(VenueError, match="empty pages in a row whose cursors go on: 6"):
                _ = [page async for page in walked]
        else:
            assert tickers([page async for page in walked]) == ["A", "B"]


@pytest.mark.parametrize(
    "failure", [answer(b"<html>slow down</html>", status=429), answer(b'[{"asset_id":"1"'), httpx.ReadTimeout("too slow")]
)
async def test_a_post_is_a_read_and_repeated_with_the_same_body(failure: httpx.Response | Exception):
    script, naps = Script(failure, failure, answer([{"asset_id": "1"}])), Naps()
    async with clob(script, sleep=naps) as client:
        (page,) = await client.fetch_all(routes.books(["1"]))
    assert page.json == [{"asset_id": "1"}]
    assert [request.content for request in script.requests] == [b'[{"token_id":"1"}]'] * 3
    assert len(naps.taken) == 2


async def test_records_that_moved_to_the_next_page_or_a_repeated_last_page_are_no_loop():
    assert tickers(await collect(Script(listing("c1", "A"), listing("", "A")))) == ["A", "A"]
    moved = Script(listing("c1", "A", "B"), listing("c2", "B", "C"), listing("", "D"))
    assert tickers(await collect(moved)) == ["A", "B", "B", "C", "D"]
