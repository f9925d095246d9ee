"""Order books and trades of the generated exchange, asked for and read as from the venue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import httpx
import pytest

from bellwether.sandbox import Clock, GeneratedWorld, create_app
from bellwether.sandbox.exchange.generated import GeneratedExchange
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.wire import Parsed, parse_books, parse_trades
from tests.venues.venue import FAST

NOW = datetime(2026, 6, 1, 17, tzinfo=UTC)


@pytest.fixture
async def client() -> AsyncIterator[KalshiClient]:
    world = GeneratedWorld(5)
    app = create_app(world, exchange=GeneratedExchange(world), clock=Clock(NOW))
    async with KalshiClient("http://sandbox/trade-api/v2", limits=FAST, transport=httpx.ASGITransport(app)) as found:
        yield found


async def open_tickers(client: KalshiClient, most: int) -> list[str]:
    found: list[str] = []
    async for page in client.markets(status="open", limit=most):
        found += [market["ticker"] for market in page.items("markets")]
        if len(found) >= most:
            break
    return found[:most]


def whole(parsed: Parsed) -> Parsed:
    assert parsed.rejects.is_empty(), parsed.rejects.head(3).to_dicts()
    return parsed


async def test_a_hundred_books_at_once_are_those_of_single_calls(client: KalshiClient):
    tickers = await open_tickers(client, 100)
    page = await client.orderbooks(tickers)
    books = whole(parse_books(page.answer, page.origin, day=NOW.date())).rows
    assert books["ticker"].to_list() == tickers
    assert books["yes_bids"].list.len().sum() > 100
    single = await client.orderbook(tickers[0])
    assert (
        whole(parse_books(single.answer, single.origin, day=NOW.date())).rows["yes_bids"].to_list() == books["yes_bids"].head(1).to_list()
    )
    spread = (books["yes_ask"] - books["yes_bid"]).drop_nulls()
    assert spread.len() > 10 and min(spread) > 0


async def test_trades_are_followed_page_by_page_and_lie_in_their_span(client: KalshiClient):
    since = NOW - timedelta(hours=1)
    pages = [page async for page in client.trades(after=since, before=NOW, limit=100)]
    rows = [whole(parse_trades(page.items("trades"), page.origin, day=NOW.date(), source="live")).rows for page in pages]
    times = [at for frame in rows for at in frame["traded_at"]]
    assert len(pages) > 3
    assert since - timedelta(seconds=1) <= min(times) <= max(times) <= NOW + timedelta(seconds=1)
    assert times == sorted(times, reverse=True)
    assert len({name for frame in rows for name in frame["trade_id"]}) == len(times)
    assert all(Decimal(0) < price < 1 for frame in rows for price in frame["yes_price"])
