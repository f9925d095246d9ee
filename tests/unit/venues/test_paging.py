"""Listings page by page, and guards against endless listings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from bellwether.errors import PagingError, VenueError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.paging import MOST_HOLES, PAGE_RETRIES, Listing, iterate_pages
from tests.venues.venue import Naps, Script, answer, client
from tests.venues.wire_objects import market


def listing(cursor: Any, *tickers: str) -> httpx.Response:
    return answer({"markets": [market(ticker) for ticker in tickers], "cursor": cursor})


async def collect(script: Script) -> list[VenuePage]:
    async with client(script) as venue:
        return [page async for page in venue.markets()]


def tickers(pages: list[VenuePage]) -> list[str]:
    return [item["ticker"] for page in pages for item in page.items("markets")]


@pytest.mark.parametrize("end", ["", None])
async def test_a_listing_is_followed_to_its_end(end: str | None):
    script = Script(listing("c1", "A", "B"), listing("c2", "C"), listing(end, "D"))
    pages = await collect(script)
    assert tickers(pages) == ["A", "B", "C", "D"]
    assert [page.ordinal for page in pages] == [0, 1, 2]


async def test_an_absent_cursor_is_the_end():
    assert len(await collect(Script(answer({"markets": []})))) == 1


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
    assert len(script.requests) == len(pages) + PAGE_RETRIES


async def test_a_page_that_repeats_an_earlier_one_under_fresh_cursors_ends_in_an_error():
    with pytest.raises(PagingError, match="its 2 markets are those of an earlier page"):
        await collect(Script(listing("c1", "A", "B"), listing("c2", "C"), listing("c3", "A", "B")))


async def test_a_last_page_may_repeat_an_earlier_one():
    assert tickers(await collect(Script(listing("c1", "A"), listing("", "A")))) == ["A", "A"]


async def test_a_single_market_that_moved_to_the_next_page_is_no_loop():
    assert tickers(await collect(Script(listing("c1", "A", "B"), listing("c2", "B", "C"), listing("", "D")))) == ["A", "B", "B", "C", "D"]


async def test_an_empty_page_whose_cursor_goes_on_however_often_it_is_asked_for_is_an_error():
    script, naps = Script(listing("c1", "A"), listing("c2")), Naps()
    async with client(script, naps=naps) as venue:
        with pytest.raises(PagingError, match="the listing has a hole at page 1") as caught:
            _ = [page async for page in venue.markets()]
    assert (caught.value.kind, caught.value.attempts) == ("paging", 1 + PAGE_RETRIES)
    assert len(script.requests) == 1 + 1 + PAGE_RETRIES
    assert len(naps.taken) == PAGE_RETRIES


async def test_an_empty_end_is_asked_for_again_without_waiting():
    script, naps = Script(listing("")), Naps()
    async with client(script, naps=naps) as venue:
        assert len([page async for page in venue.markets()]) == 1
    assert (len(script.requests), naps.taken) == (1 + PAGE_RETRIES, [])


@pytest.mark.parametrize("holes", [MOST_HOLES, MOST_HOLES + 1])
async def test_a_caller_that_tells_of_holes_gets_some_and_no_more(holes: int):
    pages = {
        None: listing("c0", "A"),
        **{f"c{number}": listing(f"c{number + 1}") for number in range(holes)},
        f"c{holes}": listing("", "B"),
    }

    async def fetch(path: str, params: Any, ordinal: int) -> VenuePage:
        return VenuePage(path, 200, datetime(2026, 3, 20, tzinfo=UTC), pages[dict(params).get("cursor")].content, ordinal)

    walked = iterate_pages(Listing("/markets", (), "markets", "ticker"), fetch, holes=True)
    if holes > MOST_HOLES:
        with pytest.raises(PagingError, match=f"empty pages in a row whose cursors go on: {holes}"):
            _ = [page async for page in walked]
    else:
        assert tickers([page async for page in walked]) == ["A", "B"]


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


async def test_a_failure_ahead_comes_after_the_page_before_it():
    slow, seen = Slow(3, fails_at=1), []
    with pytest.raises(VenueError, match="broken"):
        async for page in slow.pages(ahead=True):
            seen.append(page.ordinal)
            for _ in range(200):
                await asyncio.sleep(0)
    assert seen == [0]
