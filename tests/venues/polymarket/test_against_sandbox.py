"""The clients over the generated world: every filter, both forms of paging, and batches of many tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.sandbox import Clock, GeneratedWorld, create_app
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.venues.http.page import Page
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient, GammaClient, OffsetLimitError
from bellwether.venues.polymarket.fees import schedule_of
from bellwether.venues.polymarket.quotes import midpoints_of
from tests.venues.venue import FAST

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LATELY: dict[str, Any] = {"closed": True, "end_date_min": NOW - 12 * DAY, "end_date_max": NOW - 2 * DAY}


@pytest.fixture(scope="module")
def app() -> ASGIApp:
    world = GeneratedWorld(5)
    return create_app(world, polymarket=GeneratedPolymarket(world), clock=Clock(NOW))


@pytest.fixture
async def gamma(app: ASGIApp) -> AsyncIterator[GammaClient]:
    async with GammaClient("http://sandbox/gamma", limits=FAST, transport=httpx.ASGITransport(app)) as client:
        yield client


@pytest.fixture
async def clob(app: ASGIApp) -> AsyncIterator[ClobClient]:
    async with ClobClient("http://sandbox/clob", limits=FAST, transport=httpx.ASGITransport(app)) as client:
        yield client


@pytest.fixture
async def older(app: ASGIApp) -> AsyncIterator[GammaClient]:
    """A client of the interface as it was before keyset."""

    async def without_keyset(scope: Scope, receive: Receive, send: Send) -> None:
        unknown = scope["path"].endswith("/keyset")
        await (JSONResponse({"error": "not found"}, status_code=404) if unknown else app)(scope, receive, send)

    async with GammaClient("http://sandbox/gamma", limits=FAST, transport=httpx.ASGITransport(without_keyset)) as client:
        yield client


async def records(pages: AsyncIterator[Page], items: str = "markets") -> list[dict[str, Any]]:
    return [item for page in [page async for page in pages] for item in page.items(items)]


async def ids(pages: AsyncIterator[Page], items: str = "markets") -> list[str]:
    return [item["id"] for item in await records(pages, items)]


async def test_three_and_more_pages_by_keyset_hold_each_market_once(gamma: GammaClient):
    pages = [page async for page in gamma.markets(**LATELY, limit=50)]
    found = [item["id"] for page in pages for item in page.items("markets")]
    assert len(pages) > 3
    assert len(found) == len(set(found)) > 150


async def test_pages_by_offset_hold_the_same_markets_as_by_keyset(gamma: GammaClient, older: GammaClient):
    by_keyset, by_offset = await ids(gamma.markets(**LATELY, limit=50)), await ids(older.markets(**LATELY, limit=50))
    assert by_offset == by_keyset
    assert len(by_keyset) > 150


async def test_events_come_in_both_forms_with_their_markets(gamma: GammaClient, older: GammaClient):
    by_keyset = await records(gamma.events(**LATELY, limit=25), "events")
    assert [event["id"] for event in by_keyset] == await ids(older.events(**LATELY, limit=25), "events")
    assert len(by_keyset) > 75
    assert any(len(event["markets"]) > 1 for event in by_keyset)


async def test_the_end_of_offsets_is_an_error_that_names_keyset(older: GammaClient):
    listing = await older.known(routes.markets(closed=True))
    with pytest.raises(OffsetLimitError, match="list by keyset"):
        _ = [page async for page in older.follow(listing, cursor="2001")]


async def test_filters_choose(gamma: GammaClient):
    found = await records(gamma.markets(**LATELY))
    chosen = found[::30]
    asked = {"closed": True, "ids": [market["id"] for market in chosen]}
    assert sorted(await ids(gamma.markets(**asked))) == sorted(asked["ids"])
    by_condition = gamma.markets(closed=True, condition_ids=[market["conditionId"] for market in chosen])
    assert sorted(await ids(by_condition)) == sorted(asked["ids"])
    assert await ids(gamma.markets(closed=False, ids=asked["ids"])) == []
    ends = [datetime.fromisoformat(market["endDate"]) for market in found]
    assert LATELY["end_date_min"] <= min(ends) <= max(ends) <= LATELY["end_date_max"]
    resolved = await ids(gamma.markets(**LATELY, uma_resolution_status="resolved"))
    assert resolved == [market["id"] for market in found if market.get("umaResolutionStatus") == "resolved"]
    assert set(await ids(gamma.markets(**LATELY, active=True))) <= {market["id"] for market in found}
    tagged = await records(gamma.markets(**asked, include_tag=True))
    assert all(market["tags"] for market in tagged) and not any("tags" in market for market in chosen)


@pytest.mark.parametrize("ascending", [True, False])
async def test_a_listing_can_be_sorted(gamma: GammaClient, ascending: bool):
    found = await records(gamma.markets(**LATELY, order="volumeNum", ascending=ascending))
    volumes = [market.get("volumeNum") for market in found]
    stated = [volume for volume in volumes if volume is not None]
    assert stated == sorted(stated, reverse=not ascending)


async def test_single_markets_and_events_are_found_by_each_of_their_names(gamma: GammaClient):
    event = (await records(gamma.events(**LATELY, limit=1), "events"))[0]
    market = event["markets"][0]
    assert (await gamma.market(market["id"])).answer["conditionId"] == market["conditionId"]
    assert (await gamma.event(event["id"])).answer["slug"] == event["slug"]
    listed = await records(gamma.markets(closed=True, condition_ids=[market["conditionId"], "0x" + "00" * 32]))
    assert [item["id"] for item in listed] == [market["id"]]


async def test_the_fees_of_every_market_can_be_read(gamma: GammaClient, clob: ClobClient):
    found = await records(gamma.markets(**LATELY))
    schedules = [schedule_of(market, NOW) for market in found]
    assert len(schedules) > 150
    assert {schedule.source for schedule in schedules} >= {"market"}
    charged = next(market for market in found if market["feesEnabled"])
    page = await clob.fee_rate(json.loads(charged["clobTokenIds"])[0])
    assert page.answer["base_fee"] == 1000


async def tokens_of(gamma: GammaClient, most: int, **filters: Any) -> list[str]:
    """Tokens of markets, those with a book unless `filters` say otherwise."""
    found = await records(gamma.markets(**({"closed": False} | filters)))
    return [token for market in found for token in json.loads(market.get("clobTokenIds") or "[]")][:most]


async def test_books_and_midpoints_of_many_tokens_agree(gamma: GammaClient, clob: ClobClient):
    tokens = await tokens_of(gamma, 1000) + await tokens_of(gamma, 300, **LATELY)
    assert len(tokens) > 620
    pages = await clob.books(tokens)
    books = {book["asset_id"]: book for page in pages for book in page.json}
    middles = midpoints_of(await clob.midpoints(tokens))
    assert len(pages) == 2
    assert len(books) > 400
    for token, middle in middles.items():
        book = books[token]
        bid, ask = (Decimal(side[-1]["price"]) if side else none for side, none in ((book["bids"], Decimal(0)), (book["asks"], Decimal(1))))
        assert middle == (bid + ask) / 2
    assert set(middles) == {token for token, book in books.items() if book["bids"] or book["asks"]}


async def test_single_prices_agree_with_the_book(gamma: GammaClient, clob: ClobClient):
    middles = midpoints_of(await clob.midpoints(tokens := await tokens_of(gamma, 20)))
    token = next(token for token in tokens if token in middles)
    assert midpoints_of([await clob.midpoint(token)]) == {token: middles[token]}
    book = (await clob.book(token)).answer
    bids, asks = ([Decimal(level["price"]) for level in book[side]] for side in ("bids", "asks"))
    assert book["asset_id"] == token and max(bids) < middles[token] < min(asks)


async def test_a_token_without_a_book_is_refused_alone_and_left_out_of_batches(clob: ClobClient):
    with pytest.raises(RefusedError) as caught:
        await clob.book("1")
    assert caught.value.kind == "not found"
    assert [page.json for page in await clob.books(["1", "2"])] == [[]]
    assert midpoints_of(await clob.midpoints(["1", "2"])) == {}


HISTORIES: dict[str, Callable[[str], Any]] = {
    "span": lambda token: routes.prices_history(token, start=NOW - DAY, end=NOW, fidelity_minutes=60),
    "interval": lambda token: routes.prices_history(token, interval="1d", fidelity_minutes=60),
}


@pytest.mark.parametrize("build", HISTORIES.values(), ids=list(HISTORIES))
async def test_past_prices_lie_within_their_span(gamma: GammaClient, clob: ClobClient, build: Callable[[str], Any]):
    pages = await clob.answers([build(token) for token in await tokens_of(gamma, 20)])
    points = [point for page in pages for point in page.items("history")]
    assert points
    assert all((NOW - DAY).timestamp() <= point["t"] <= NOW.timestamp() for point in points)


async def test_the_clob_lists_by_its_own_cursor(clob: ClobClient):
    listing = clob.markets()
    first, second, third = [await anext(listing) for _ in range(3)]
    names = [item["condition_id"] for page in (first, second, third) for item in page.items("data")]
    assert len(names) == len(set(names)) == 3000
    assert (await clob.market(names[0])).answer["condition_id"] == names[0]
    assert datetime.fromtimestamp((await clob.time()).json, UTC) == NOW
