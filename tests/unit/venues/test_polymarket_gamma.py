"""Gamma: listings by keyset or offset, guards against endless listings, and errors between pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from bellwether.errors import ConfigError, PagingError, VenueError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import GammaClient, OffsetLimitError
from tests.venues.polymarket.clients import GAMMA, gamma
from tests.venues.venue import Script, answer


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


@pytest.mark.parametrize("status", [404, 405, 410])
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare list", "object"])
async def test_where_keyset_is_unknown_the_listing_is_followed_by_offset(status: int, wrapped: bool):
    venue = Venue(status=status, wrapped=wrapped)
    assert ids(await listed(venue)) == [str(number) for number in range(250)]
    assert venue.urls[1:5] == [f"/markets?closed=false&limit=100{offset}" for offset in ("", "&offset=100", "&offset=200", "&offset=250")]


async def test_the_form_is_found_out_once_for_all_listings_side_by_side():
    venue = Venue(status=404)

    async def count(listing: Any) -> int:
        return len([page async for page in listing])

    async with gamma(venue) as client:
        pages = await asyncio.gather(
            *(count(client.markets(closed=closed)) for closed in (True, False)), count(client.follow(routes.events(closed=True)))
        )
    assert pages == [4, 4, 4]
    assert len([url for url in venue.urls if "keyset" in url]) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 422])
async def test_another_refusal_of_keyset_is_an_error_and_no_reason_for_offsets(status: int):
    script = Script(answer({"error": "no"}, status=status))
    async with gamma(script) as client:
        for _ in range(2):
            with pytest.raises(RefusedError, match=f"HTTP {status}"):
                _ = [page async for page in client.follow(routes.events(closed=False))]
    assert all("keyset" in url for url in script.urls)


async def test_a_form_can_be_chosen_for_a_pull():
    async with gamma(Venue(status=410)) as client:
        assert (await client.adapt_listing(routes.events(closed=True))).request == "GET /events?closed=true&limit=100"
    async with gamma(Venue()) as client:
        assert (await client.adapt_listing(routes.events(closed=True))).request == "GET /events/keyset?closed=true&limit=100"


async def test_an_offset_beyond_the_venues_end_names_keyset():
    venue = Venue(status=404, most=150)
    seen: list[VenuePage] = []
    async with gamma(venue) as client:
        with pytest.raises(OffsetLimitError, match=r"HTTP 422: offset too large.+at offset 200.+list by keyset") as caught:
            async for page in client.markets(closed=True):
                seen.append(page)
    assert (caught.value.kind, caught.value.status, caught.value.attempts) == ("paging", 422, 1)
    assert ids(seen) == [str(number) for number in range(200)]


async def test_a_422_of_another_call_says_nothing_of_offsets():
    async with gamma(Script(answer({"error": "id is invalid"}, status=422))) as client:
        with pytest.raises(RefusedError, match="id is invalid") as caught:
            await client.get("/markets/1")
    assert not isinstance(caught.value, OffsetLimitError)


async def follow(*pages: httpx.Response, known: bool = True) -> list[VenuePage]:
    """Return the pages of a listing by keyset or else by offset, from a venue that answers with `pages` in turn."""
    script = Script(*pages)
    listing = routes.markets(closed=True)
    async with gamma(script) as client:
        client._knows_keyset = True
        return [page async for page in client.follow(listing if known else routes.use_offsets(listing))]


ENDS = {"absent": ..., "null": None, "empty": ""}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
async def test_a_cursor_that_is_absent_null_or_empty_is_the_end(end: Any):
    assert ids(await follow(keyset("a", 1, 2), keyset(end, 3))) == ["1", "2", "3"]


async def test_an_offset_that_is_ignored_ends_in_an_error():
    with pytest.raises(PagingError, match="its 2 markets are those of an earlier page"):
        await follow(bare(1, 2), known=False)


async def test_a_page_that_is_empty_or_repeated_once_is_asked_for_again():
    assert ids(await follow(keyset("a", 1), keyset("a", 1), keyset("b", 2), keyset(..., 3))) == ["1", "2", "3"]
    assert ids(await follow(bare(1), bare(), bare(2), bare(), known=False)) == ["1", "2"]


async def test_a_bare_list_from_keyset_is_an_error_and_no_end():
    with pytest.raises(VenueError, match="a bare list where an object with 'next_cursor'"):
        await follow(bare(1, 2))


async def test_a_forbidden_call_sends_nothing():
    script = Script(keyset(...))
    async with gamma(script) as client:
        with pytest.raises(ConfigError, match="camel case"):
            client.markets(closed=True, order="volume_num")
        with pytest.raises(ConfigError, match="no text of 1 to 90"):
            client.markets(closed=True, ids=["x"])
    assert script.requests == []


def test_the_usual_rate_is_below_the_documented_one():
    limits = GammaClient(GAMMA).limits
    in_ten_seconds = (limits.tokens_per_second * (10 + limits.bucket_seconds)) / limits.tokens_per_read
    assert in_ten_seconds <= 300


def test_an_address_that_is_none_names_its_setting():
    with pytest.raises(ConfigError, match="gamma_url"):
        GammaClient("gamma.example")
