"""Listings page by page by cursor, keyset or offset, and guards against endless listings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pytest

from bellwether.errors import PagingError, VenueError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import OffsetLimitError
from tests.unit.venues.polymarket_clients import clob, gamma
from tests.unit.venues.venue import Naps, Script, answer, client
from tests.unit.venues.wire_objects import market


def listing(cursor: Any, *tickers: str) -> httpx.Response:
    return answer({"markets": [market(ticker) for ticker in tickers], "cursor": cursor})


async def collect(script: Script) -> list[VenuePage]:
    async with client(script) as venue:
        return [page async for page in venue.markets()]


def tickers(pages: list[VenuePage]) -> list[str]:
    return [item["ticker"] for page in pages for item in page.items("markets")]


async def test_an_empty_page_with_a_cursor_is_not_the_end_and_asked_for_again():
    assert tickers(await collect(Script(listing("c1", "A"), listing("c2"), listing("c3"), listing("", "B")))) == ["A", "B"]


@pytest.mark.parametrize(
    "pages",
    [
        [listing("c1", "A"), listing("c1", "B")],
        [listing("c1", "A"), listing("c2", "B"), listing("c1", "C")],
    ],
    ids=["at once", "after a while"],
)
async def test_a_cursor_that_repeats_for_ever_ends_in_an_error(pages: list[httpx.Response]):
    script = Script(*pages)
    with pytest.raises(PagingError, match=r"loops at page \d: the cursor 'c1' came before"):
        await collect(script)
    assert len(script.requests) == len(pages) + 2


async def test_a_page_that_repeats_an_earlier_one_under_fresh_cursors_ends_in_an_error():
    with pytest.raises(PagingError, match="its 2 markets are those of an earlier page"):
        await collect(Script(listing("c1", "A", "B"), listing("c2", "C"), listing("c3", "A", "B")))


async def test_an_empty_page_whose_cursor_goes_on_however_often_it_is_asked_for_is_an_error():
    script, naps = Script(listing("c1", "A"), listing("c2")), Naps()
    async with client(script, naps=naps) as venue:
        with pytest.raises(PagingError, match="the listing has a hole at page 1") as caught:
            _ = [page async for page in venue.markets()]
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
    with pytest.raises(PagingError, match="no end: 3 pages"):
        await collect(script)
    assert tickers(await collect(Script(listing("c1", "A"), listing("c2", "B"), listing("", "C")))) == ["A", "B", "C"]


async def test_an_answer_without_the_list_is_an_error_and_not_an_empty_listing():
    with pytest.raises(VenueError, match="no list 'markets', it holds cursor, events"):
        await collect(Script(answer({"events": [], "cursor": ""})))


class Slow:
    """Pages of one record, each after some turns of the event loop. Records requested, answered and cancelled pages."""

    def __init__(self, pages: int, *, fails_at: int | None = None) -> None:
        self.asked: list[int] = []
        self.answered: list[int] = []
        self.given_up: list[int] = []
        self._pages = pages
        self._fails_at = fails_at

    async def __call__(self, path: str, params: Any, ordinal: int) -> VenuePage:
        self.asked.append(ordinal)
        try:
            for _ in range(100):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.given_up.append(ordinal)
            raise
        if ordinal == self._fails_at:
            raise VenueError(path, 1, "broken")
        self.answered.append(ordinal)
        cursor = str(ordinal + 1) if ordinal + 1 < self._pages else ""
        return VenuePage(path, 200, datetime(2026, 3, 20, tzinfo=UTC), listing(cursor, f"M{ordinal}").content, ordinal)

    def pages(self, *, ahead: bool) -> AsyncGenerator[VenuePage, None]:
        return iterate_pages(Listing("/markets", (), "markets", "ticker"), self, ahead=ahead)


@pytest.mark.parametrize("ahead", [False, True])
async def test_the_next_page_is_asked_for_before_or_after_one_is_handed_out(ahead: bool):
    slow, seen = Slow(3), []
    async for page in slow.pages(ahead=ahead):
        seen.append((page.ordinal, len(slow.asked)))
    assert seen == ([(0, 2), (1, 3), (2, 3)] if ahead else [(0, 1), (1, 2), (2, 3)])
    assert slow.answered == [0, 1, 2]


def keyset(cursor: Any, *ids: int, items: str = "markets") -> httpx.Response:
    body = {items: [{"id": str(number)} for number in ids], "next_cursor": cursor}
    return answer({name: value for name, value in body.items() if value is not ...})


def bare(*ids: int) -> httpx.Response:
    return answer([{"id": str(number)} for number in ids])


def ids(pages: list[VenuePage], items: str = "markets") -> list[str]:
    return [item["id"] for page in pages for item in page.items(items)]


class Venue:
    """Lists 250 markets by keyset, by offset, or both, and counts the calls."""

    def __init__(self, *, status: int = 0, wrapped: bool = False, most: int = 10**6) -> None:
        self.status = status
        self.wrapped = wrapped
        self.most = most
        self.urls: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.urls.append(request.url.raw_path.decode())
        query, name = request.url.params, request.url.path.split("/")[1]
        first, limit = int(query.get("after_cursor", query.get("offset", 0))), int(query["limit"])
        found = [{"id": str(number)} for number in range(first, min(first + limit, 250))]
        if request.url.path.endswith("/keyset"):
            if self.status:
                return answer(b"404 page not found", status=self.status)
            more = {"next_cursor": str(first + limit)} if first + limit < 250 else {}
            return answer({name: found, **more})
        if first > self.most:
            return answer({"type": "validation error", "error": "offset too large, use the keyset endpoint"}, status=422)
        return answer({name: found} if self.wrapped else found)


async def listed(venue: Callable[[httpx.Request], httpx.Response], **options: Any) -> list[VenuePage]:
    async with gamma(venue, **options) as client:
        return [page async for page in client.markets(closed=False)]


async def test_a_listing_by_keyset_is_followed_to_its_end():
    venue = Venue()
    pages = await listed(venue)
    assert ids(pages) == [str(number) for number in range(250)]
    assert [page.ordinal for page in pages] == [0, 1, 2]
    assert venue.urls[1:] == [
        "/markets/keyset?closed=false&limit=100",
        "/markets/keyset?closed=false&limit=100&after_cursor=100",
        "/markets/keyset?closed=false&limit=100&after_cursor=200",
    ]


@pytest.mark.parametrize("status", [400, 401, 403, 422])
async def test_another_refusal_of_keyset_is_an_error_and_no_reason_for_offsets(status: int):
    script = Script(answer({"error": "no"}, status=status))
    async with gamma(script) as client:
        for _ in range(2):
            with pytest.raises(RefusedError, match=f"HTTP {status}"):
                _ = [page async for page in client.follow(routes.events(closed=False))]
    assert all("keyset" in url for url in script.urls)


async def test_an_offset_beyond_the_venues_end_names_keyset():
    venue = Venue(status=404, most=150)
    seen: list[VenuePage] = []
    async with gamma(venue) as client:
        with pytest.raises(OffsetLimitError, match=r"HTTP 422: offset too large.+at offset 200.+list by keyset") as caught:
            async for page in client.markets(closed=True):
                seen.append(page)
    assert (caught.value.kind, caught.value.status, caught.value.attempts) == ("paging", 422, 1)
    assert ids(seen) == [str(number) for number in range(200)]


async def follow(*pages: httpx.Response, known: bool = True) -> list[VenuePage]:
    """Return the pages of a listing by keyset or else by offset, from a venue that answers with `pages` in turn."""
    script = Script(*pages)
    call = routes.markets(closed=True)
    async with gamma(script) as client:
        client._knows_keyset = True
        return [page async for page in client.follow(call if known else routes.use_offsets(call))]


async def test_a_page_that_is_empty_or_repeated_once_is_asked_for_again():
    assert ids(await follow(keyset("a", 1), keyset("a", 1), keyset("b", 2), keyset(..., 3))) == ["1", "2", "3"]
    assert ids(await follow(bare(1), bare(), bare(2), bare(), known=False)) == ["1", "2"]


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

        async def fetch(path: str, params: Any, ordinal: int, pages: dict[Any, httpx.Response] = pages) -> VenuePage:
            return VenuePage(path, 200, datetime(2026, 3, 20, tzinfo=UTC), pages[dict(params).get("cursor")].content, ordinal)

        walked = iterate_pages(Listing("/markets", (), "markets", "ticker"), fetch, holes=True)
        if holes > 5:
            with pytest.raises(PagingError, match="empty pages in a row whose cursors go on: 6"):
                _ = [page async for page in walked]
        else:
            assert tickers([page async for page in walked]) == ["A", "B"]


@pytest.mark.parametrize("status", [404, 405, 410])
async def test_where_keyset_is_unknown_the_listing_is_followed_by_offset(status: int):
    for wrapped in (False, True):
        venue = Venue(status=status, wrapped=wrapped)
        assert ids(await listed(venue)) == [str(number) for number in range(250)]
        offsets = ("", "&offset=100", "&offset=200", "&offset=250")
        assert venue.urls[1:5] == [f"/markets?closed=false&limit=100{offset}" for offset in offsets]


@pytest.mark.parametrize(
    "failure", [answer(b"<html>slow down</html>", status=429), answer(b'[{"asset_id":"1"'), httpx.ReadTimeout("too slow")]
)
async def test_a_post_is_a_read_and_repeated_with_the_same_body(failure: httpx.Response | Exception):
    script, naps = Script(failure, failure, answer([{"asset_id": "1"}])), Naps()
    async with clob(script, sleep=naps) as client:
        (page,) = await client.books(["1"])
    assert page.json == [{"asset_id": "1"}]
    assert [request.content for request in script.requests] == [b'[{"token_id":"1"}]'] * 3
    assert len(naps.taken) == 2


async def test_records_that_moved_to_the_next_page_or_a_repeated_last_page_are_no_loop():
    assert tickers(await collect(Script(listing("c1", "A"), listing("", "A")))) == ["A", "A"]
    moved = Script(listing("c1", "A", "B"), listing("c2", "B", "C"), listing("", "D"))
    assert tickers(await collect(moved)) == ["A", "B", "B", "C", "D"]
