"""Routes of both venues: listings, archive, books and trades, and bodies that our parsers accept."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from bellwether.sandbox import GeneratedWorld, create_app, start_clock
from bellwether.sandbox.app import CLOB_PATH, GAMMA_PATH, KALSHI_PATH, MODELS_PATH
from bellwether.sandbox.timestamps import SECOND, to_instant
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi.wire import parse_events, parse_markets, parse_series
from bellwether.venues.polymarket import wire as polymarket
from bellwether.venues.wire.rejects import Origin

NOW = datetime(2026, 10, 1, tzinfo=UTC)
TODAY, ORIGIN = NOW.date(), Origin("GET /markets", 0, NOW)

Body = dict[str, Any]


class Site:
    """Calls the sandbox in process at an instant."""

    def __init__(self, now: datetime = NOW, seed: int = 7) -> None:
        self._transport = httpx.ASGITransport(create_app(seed, start_clock(now)))

    def call(self, path: str, *, method: str = "GET", content: bytes | None = None, **params: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://sandbox") as http:
                return await http.request(method, path, params=params, content=content)

        return asyncio.run(send())

    def kalshi(self, path: str, **params: Any) -> Body:
        response = self.call(f"{KALSHI_PATH}{path}", **params)
        assert response.status_code == 200, response.text
        return response.json()

    def gamma(self, path: str, **params: Any) -> Any:
        response = self.call(f"{GAMMA_PATH}{path}", **params)
        assert response.status_code == 200, response.text
        return response.json()

    def all(self, path: str, name: str, **params: Any) -> list[Body]:
        """Return every object of a listing of Kalshi, page after page."""
        rows, cursor = [], ""
        while cursor is not None:
            page = self.kalshi(path, **params, cursor=cursor)
            rows += page[name]
            cursor = page["cursor"] or None
        return rows

    def every(self, name: str, **params: Any) -> list[Body]:
        """Return every object of a listing of Gamma, page after page."""
        rows: list[Body] = []
        while True:
            page = self.gamma(f"/{name}/keyset", **params)
            rows += page[name]
            if "next_cursor" not in page:
                return rows
            params["after_cursor"] = page["next_cursor"]


@cache
def site() -> Site:
    return Site()


@cache
def week() -> list[Body]:
    """Return Kalshi's markets that closed in the last five days."""
    at = int(NOW.timestamp())
    return site().all("/markets", "markets", min_close_ts=at - 5 * 86_400, max_close_ts=at, limit=1000)


@cache
def opened() -> list[Body]:
    """Return Kalshi's events with an open market, with their markets."""
    return site().all("/events", "events", status="open", with_nested_markets="true")


@cache
def listed(closed: bool) -> list[Body]:
    """Return Polymarket's open markets, or those closed that ended in the last five days."""
    bounds = {"end_date_min": "2026-09-26T00:00:00Z", "end_date_max": "2026-10-01T00:00:00Z"} if closed else {}
    return site().every("markets", closed=str(closed).lower(), include_tag="true", limit=100, **bounds)


# --- validity ------------------------------------------------------------------------------------------------------


def test_our_parsers_accept_kalshis_objects_but_the_deliberately_invalid_ones() -> None:
    world = GeneratedWorld(7)
    events = [event for home in range(600, 640) for event in world.day(home)]
    invalid = {market.ticker for event in events for market in event.markets if market.terms["notional_value_dollars"] != "1.0000"}
    chosen = [market for event in events[::5] for market in event.markets] + [world.market(ticker) for ticker in sorted(invalid)]
    bodies = [json.loads(world.body(market, market.life.final)) for market in chosen if market]
    parsed = parse_markets(bodies, ORIGIN, day=TODAY)
    assert 1 <= len(invalid) < len(events) / 25
    assert set(parsed.rejects["record_id"]) == invalid
    assert set(parsed.rejects["field"]) == {"notional_value_dollars"}
    assert parse_markets(week(), ORIGIN, day=TODAY).rows.height > 40
    assert parse_events(opened(), ORIGIN, day=TODAY).rejects.is_empty()
    assert parse_series(site().kalshi("/series")["series"], ORIGIN).rejects.is_empty()


def test_our_parsers_accept_polymarkets_objects_but_the_deliberately_invalid_ones() -> None:
    rejected: dict[str, str] = {}
    for closed in (False, True):
        parsed = polymarket.parse_markets(listed(closed), ORIGIN, day=TODAY)
        assert parsed.rows.height > 30
        rejected |= dict(parsed.rejects.select("record_id", "field").iter_rows())
    assert set(rejected.values()) <= {"clobTokenIds", "positionIds", "endDate"}
    assert len(rejected) < 30
    events = site().every("events", closed="false", limit=500)
    assert polymarket.parse_events(events, ORIGIN, day=TODAY).rejects.is_empty()
    paths = [f"{CLOB_PATH}/markets/{market['conditionId']}" for market in listed(True)[:30]]
    pages = [VenuePage(f"GET {path}", 200, ORIGIN.fetched_at, site().call(path).content) for path in paths]
    winners = polymarket.parse_winners(pages, day=TODAY)
    assert winners.rejects.is_empty()
    assert winners.rows["winner"].sum() > 15


# --- errors and addresses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        (f"{KALSHI_PATH}/markets", {"limit": "many"}, 400),
        (f"{KALSHI_PATH}/events", {"status": "finalized"}, 400),
        (f"{KALSHI_PATH}/markets", {"cursor": "???"}, 400),
        (f"{KALSHI_PATH}/markets/candlesticks", {"market_tickers": "KXA", "start_ts": 0, "end_ts": 1, "period_interval": 5}, 400),
        (f"{KALSHI_PATH}/historical/markets/KXNONE/candlesticks", {"start_ts": 0, "end_ts": 1, "period_interval": 60}, 404),
        (f"{GAMMA_PATH}/markets/keyset", {"limit": 1000}, 422),
        (f"{CLOB_PATH}/markets/0x12", {}, 404),
        ("/nothing", {}, 404),
    ],
)
def test_errors_have_the_status_of_the_venue(path: str, params: Body, status: int) -> None:
    assert site().call(path, **params).status_code == status


def test_responses_are_dated_by_the_clock() -> None:
    assert Site(datetime(2025, 2, 1, 3, 4, 5, tzinfo=UTC)).call(f"{CLOB_PATH}/time").headers["date"] == "Sat, 01 Feb 2025 03:04:05 GMT"
    assert site().call(f"{CLOB_PATH}/time").json() == to_instant(NOW) // SECOND


def test_every_address_is_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "operating.md").read_text("utf-8")
    section = page.split("\n### Addresses\n")[1].split("\n### ")[0]
    assert {KALSHI_PATH, GAMMA_PATH, CLOB_PATH, MODELS_PATH} <= set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE))
