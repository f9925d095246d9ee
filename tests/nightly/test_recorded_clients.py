"""Recorded bodies of both venues through the clients: every object arrives once and unchanged, and a day's markets have their results."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.lake.storage import open_storage
from bellwether.venues.day import PullPlan
from bellwether.venues.http.client import RateLimit
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.pull import pull_day
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient, GammaClient

pytestmark = pytest.mark.real

Object = dict[str, Any]


async def without_wait(seconds: float) -> None:
    """Replace a wait."""


def options(handler: Callable[[httpx.Request], httpx.Response]) -> dict[str, Any]:
    limits = RateLimit(tokens_per_second=1e9)
    return {"transport": httpx.MockTransport(handler), "limits": limits, "sleep": without_wait, "rng": Random(1)}


def close_time(market: Object) -> datetime:
    return datetime.fromisoformat(market["close_time"])


def kalshi(markets: list[Object], page_size: int) -> Callable[[httpx.Request], httpx.Response]:
    """Return the venue's answers to a pull of a day, from recorded markets. No event was recorded with them."""

    def answer(request: httpx.Request) -> httpx.Response:
        path, query = request.url.path, request.url.params
        if path.endswith("/historical/cutoff"):
            return httpx.Response(
                200, json=dict.fromkeys(("market_settled_ts", "trades_created_ts", "orders_updated_ts"), "2024-01-01T00:00:00Z")
            )
        if path.endswith("/events"):
            return httpx.Response(200, json={"events": [], "cursor": ""})
        assert path.endswith("/markets")
        if "tickers" in query:
            fitting = [market for market in markets if market["ticker"] in query["tickers"].split(",")]
        else:
            first, last = int(query["min_close_ts"]), int(query["max_close_ts"])
            fitting = [market for market in markets if first <= close_time(market).timestamp() <= last]
        start = int(query.get("cursor", 0))
        end = start + page_size
        return httpx.Response(200, json={"markets": fitting[start:end], "cursor": str(end) if end < len(fitting) else ""})

    return answer


async def test_recorded_settled_markets_are_pulled_with_their_results(recordings: Path, tmp_path: Path) -> None:
    recorded = json.loads((recordings / "kalshi" / "rest_2026_08" / "markets_settled.json").read_bytes())["markets"]
    days = sorted({close_time(market).date() for market in recorded})
    assert Counter(market["result"] for market in recorded) == {"yes": 21, "no": 21, "": 2}
    frames = []
    async with KalshiClient("https://venue.example/trade-api/v2", **options(kalshi(recorded, page_size=5))) as client:
        for day in days:
            pull = await pull_day(client, PageStore(open_storage(str(tmp_path))), day, archive=None, plan=PullPlan(markets=0))
            frames += list(pull.markets())
    pulled = pl.concat(frames)
    assert sorted(pulled.select("ticker", "day", "status", "result").rows()) == sorted(
        (market["ticker"], date.fromisoformat(market["close_time"][:10]), market["status"], market["result"]) for market in recorded
    )
    bodies = dict(pulled.select("ticker", "body").iter_rows())
    assert {ticker: json.loads(body) for ticker, body in bodies.items()} == {market["ticker"]: market for market in recorded}


async def test_recorded_pages_of_gamma_are_listed_unchanged(recordings: Path) -> None:
    files = sorted((recordings / "polymarket" / "gamma_pages_2026_03").glob("*.json.gz"))
    pages = [json.loads(gzip.decompress(file.read_bytes()))["markets"] for file in files]

    def answer(request: httpx.Request) -> httpx.Response:
        number = int(request.url.params.get("after_cursor", 0))
        following = {"next_cursor": str(number + 1)} if number + 1 < len(pages) else {}
        return httpx.Response(200, json={"markets": pages[number], **following})

    async with GammaClient("https://gamma.example", **options(answer)) as client:
        listed = [market async for page in client.follow(routes.markets(closed=False)) for market in page.items("markets")]
    assert listed == [market for page in pages for market in page]
    assert len(listed) > 500


async def test_recorded_books_of_the_clob_arrive_unchanged(recordings: Path) -> None:
    lines = [
        json.loads(line)
        for file in sorted((recordings / "polymarket" / "clob").glob("books_*.jsonl.gz"))
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    assert lines
    for line in lines:
        books = {book["asset_id"]: book for book in line["books"]}

        def answer(request: httpx.Request, books: dict[str, Object] = books) -> httpx.Response:
            return httpx.Response(200, json=[books[wanted["token_id"]] for wanted in json.loads(request.content)])

        async with ClobClient("https://clob.example", **options(answer)) as client:
            pages = await client.fetch_all(routes.books(sorted(books)))
        assert [book for page in pages for book in page.json] == [books[token] for token in sorted(books)]
