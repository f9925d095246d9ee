"""Snapshots of markets, books, past prices and winners, from the sandbox and from wrong answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import orjson
import pytest

from bellwether.settings import Settings
from bellwether.venues.http.client import RateLimit
from bellwether.venues.polymarket import snapshots
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.worlds import addresses

NOW = datetime(2026, 6, 28, 0, 10, tzinfo=UTC)
FAST = RateLimit(tokens_per_second=1e9)


def ask(work: Callable[[GammaClient, ClobClient], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        with addresses(Settings(sandbox_now=NOW), served=False) as found:
            how: dict[str, Any] = {"limits": FAST, "transport": found.transport}
            async with GammaClient(found.gamma, **how) as gamma, ClobClient(found.clob, **how) as clob:
                return await work(gamma, clob)

    return asyncio.run(session())


@pytest.fixture(scope="module")
def largest() -> snapshots.MarketRows:
    found = ask(lambda gamma, clob: snapshots.fetch_largest_open(gamma, 120))
    assert isinstance(found, snapshots.MarketRows)
    return found


def test_the_largest_open_markets_come_first(largest: snapshots.MarketRows) -> None:
    volumes = [row["volume"] or 0 for row in largest.rows]
    assert len(volumes) == 200, "whole pages"
    assert volumes == sorted(volumes, reverse=True)
    assert largest.at == NOW
    assert not any(row["closed"] for row in largest.rows)


def test_markets_are_found_by_id_whether_open_or_closed(largest: snapshots.MarketRows) -> None:
    past = ask(lambda gamma, clob: snapshots.fetch_ending(gamma, NOW - timedelta(days=30), NOW - timedelta(days=25)))
    closed = [row["market_id"] for row in past.rows if row["closed"]][:3]
    wanted = [*closed, largest.rows[0]["market_id"], "999999999"]
    found = ask(lambda gamma, clob: snapshots.fetch_by_id(gamma, wanted))
    assert {row["market_id"]: row["closed"] for row in found.rows} == {**dict.fromkeys(closed, True), wanted[3]: False}
    conditions = [row["condition_id"] for row in found.rows if row["closed"]]
    flags = ask(lambda gamma, clob: snapshots.fetch_winners(clob, [*conditions, "0x" + "0" * 64]))
    assert set(flags) == set(conditions), "a condition that the CLOB does not know is left out"
    assert all(len(names) <= 1 for names, _ in flags.values())


def test_books_have_their_best_prices_first(largest: snapshots.MarketRows) -> None:
    tokens = [token for row in largest.rows[:20] for token in row["token_ids"]]
    found = ask(lambda gamma, clob: snapshots.fetch_books(clob, [*tokens, "1" * 70]))
    assert set(found) <= set(tokens)
    for book in found.values():
        bids, asks = [price for price, _ in book.bids], [price for price, _ in book.asks]
        assert (bids, asks) == (sorted(bids, reverse=True), sorted(asks))
        assert not bids or not asks or bids[0] < asks[0]
        assert book.at <= NOW


def test_past_prices_of_a_long_span_are_asked_for_in_parts(largest: snapshots.MarketRows) -> None:
    token = max(largest.rows, key=lambda row: row["volume"])["token_ids"][0]
    spans = {token: (NOW - timedelta(days=40), NOW), "2" * 70: (NOW - timedelta(days=1), NOW)}
    found = ask(lambda gamma, clob: snapshots.fetch_past_prices(clob, spans))
    assert found["2" * 70] == []
    times = [at for at, _ in found[token]]
    assert times == sorted(set(times))
    assert all(NOW - timedelta(days=40) <= at <= NOW for at in times)
    assert all(0 <= price <= 1 for _, price in found[token])


def test_points_that_are_no_prices_are_left_out() -> None:
    second = int(NOW.timestamp())
    said: list[Any] = [
        {"t": second, "p": 0.5},
        {"t": second + 60, "p": 1.5},
        {"t": second + 120, "p": None},
        {"t": "soon", "p": 0.1},
        {"t": second + 180, "p": "NaN"},
        {"p": 0.2},
        None,
        {"t": second + 240, "p": 1e-07},
        {"t": second + 9000, "p": 0.3},
    ]

    async def session() -> Any:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, content=orjson.dumps({"history": said})))
        async with ClobClient("http://clob", limits=FAST, transport=transport) as clob:
            return await snapshots.fetch_past_prices(clob, {"7": (NOW, NOW + timedelta(hours=1))})

    assert asyncio.run(session()) == {"7": [(NOW, Decimal("0.5")), (NOW + timedelta(minutes=4), Decimal("0.0000001"))]}


def test_where_hourly_prices_are_empty_those_of_twelve_hours_are_requested() -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        token, fidelity = request.url.params["market"], request.url.params["fidelity"]
        asked.append((token, fidelity))
        points = [{"t": int(NOW.timestamp()), "p": 0.4}] if token == "7" or (token == "8" and fidelity == "720") else []
        return httpx.Response(200, content=orjson.dumps({"history": points}))

    async def session() -> Any:
        async with ClobClient("http://clob", limits=FAST, transport=httpx.MockTransport(answer)) as clob:
            return await snapshots.fetch_past_prices(clob, dict.fromkeys("789", (NOW - timedelta(days=1), NOW)), traded={"7", "8"})

    assert asyncio.run(session()) == {"7": [(NOW, Decimal("0.4"))], "8": [(NOW, Decimal("0.4"))], "9": []}
    assert sorted(asked) == [("7", "60"), ("8", "60"), ("8", "720"), ("9", "60")]
