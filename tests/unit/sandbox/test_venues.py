"""Routes of both venues: listings, archive, books and trades, and bodies that our parsers and the venue's own schema accept."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from bellwether.sandbox import Clock, GeneratedWorld, create_app
from bellwether.sandbox.app import CLOB_PATH, CONTROL_PATH, GAMMA_PATH, KALSHI_PATH, MODELS_PATH
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.timestamps import DAY, SECOND, to_instant
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi.wire import parse_candles, parse_events, parse_markets, parse_series
from bellwether.venues.polymarket import clob_wire
from bellwether.venues.polymarket import wire as polymarket
from bellwether.venues.polymarket.snapshots import parse_books
from bellwether.venues.wire.rejects import Origin

NOW = datetime(2026, 10, 1, tzinfo=UTC)
TODAY, ORIGIN = NOW.date(), Origin("GET /markets", 0, NOW)

Body = dict[str, Any]


class Site:
    """Calls the sandbox in process at an instant."""

    def __init__(self, now: datetime = NOW, seed: int = 7) -> None:
        self._transport = httpx.ASGITransport(create_app(seed, Clock(now)))

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
    clob = [site().call(f"{CLOB_PATH}/markets/{market['conditionId']}").json() for market in listed(True)[:30]]
    winners = clob_wire.parse_winners(clob, ORIGIN, day=TODAY)
    assert winners.rejects.is_empty()
    assert winners.rows["winner"].sum() > 15


# --- Kalshi --------------------------------------------------------------------------------------------------------


def busy() -> str:
    """Return the ticker of an open market that trades."""
    open_markets = [market for event in opened() for market in event["markets"] if market["status"] == "active"]
    return max(open_markets, key=lambda market: float(market["volume_fp"]))["ticker"]


def test_a_settled_market_is_live_for_90_days_and_then_only_in_the_archive() -> None:
    world = GeneratedWorld(7)
    settled = {
        market.ticker: market.life.settlement(to_instant(NOW))
        for home in range(540, 560)
        for event in world.day(home)
        for market in event.markets
    }
    cutoff = to_instant(NOW) - 90 * DAY
    archived = {ticker for ticker, at in settled.items() if at is not None and at < cutoff}
    assert 0 < len(archived) < len(settled)
    for path, expected in (("/historical/markets", archived), ("/markets", settled.keys() - archived)):
        found = [
            site().kalshi(path, tickers=",".join(list(settled)[start : start + 50]))["markets"] for start in range(0, len(settled), 50)
        ]
        assert {market["ticker"] for page in found for market in page} == expected
    ticker = next(iter(archived))
    span = {"start_ts": 0, "end_ts": int(NOW.timestamp()), "period_interval": 60}
    old = site().kalshi(f"/historical/markets/{ticker}/candlesticks", **span)["candlesticks"]
    assert site().kalshi("/markets/candlesticks", market_tickers=ticker, **span) == {"markets": []}
    body = orjson.dumps({"ticker": ticker, "candlesticks": old})
    page = VenuePage(f"GET /historical/markets/{ticker}/candlesticks", 200, NOW, body)
    candles = parse_candles([page], day=TODAY, period_minutes=60)
    assert (candles.rows.height, candles.rejects.height) == (len(old), 0)


def test_a_day_of_closes_has_every_market_that_closed_on_it_in_pages_of_any_size() -> None:
    world, start = GeneratedWorld(7), int(NOW.timestamp()) - 3 * 86_400
    bounds = {"min_close_ts": start - 1, "max_close_ts": start + 86_400}
    expected = {market.ticker for event in world.day(635) for market in event.markets}
    whole = site().all("/markets", "markets", **bounds, limit=1000)
    assert {market["ticker"] for market in whole} == expected
    assert site().all("/markets", "markets", **bounds, limit=3) == whole
    events = site().all("/events", "events", status="open")
    assert site().all("/events", "events", status="open", limit=7) == events
    assert len(events) > 80


def test_a_book_agrees_with_the_quote_and_has_depth_on_both_sides() -> None:
    markets = {market["ticker"]: market for event in opened() for market in event["markets"] if market["status"] == "active"}
    tickers = list(markets)[:60]
    books = site().kalshi("/markets/orderbooks", tickers=[*tickers, "KXNONE-ABCD"])["orderbooks"]
    assert [book["ticker"] for book in books] == tickers
    for book in books:
        sides, market = book["orderbook_fp"], markets[book["ticker"]]
        assert sides["yes_dollars"][-1] == [market["yes_bid_dollars"], market["yes_bid_size_fp"]]
        assert sides["no_dollars"][-1] == [market["no_bid_dollars"], market["yes_ask_size_fp"]]
        for levels in sides.values():
            prices = [float(price) for price, _ in levels]
            assert prices == sorted(set(prices))
            assert sum(float(price) * float(size) for price, size in levels) > 100


def test_trades_add_up_to_the_volume_and_page_back_in_time() -> None:
    ticker = busy()
    trades = site().all("/markets/trades", "trades", ticker=ticker, limit=1000)
    volume = site().kalshi("/markets", tickers=ticker)["markets"][0]["volume_fp"]
    assert sum(round(float(trade["count_fp"]) * 100) for trade in trades) == round(float(volume) * 100)
    assert [trade["created_time"] for trade in trades] == sorted((trade["created_time"] for trade in trades), reverse=True)
    assert site().all("/markets/trades", "trades", ticker=ticker, limit=7) == trades
    since = int(datetime.fromisoformat(trades[5]["created_time"]).timestamp())
    assert site().all("/markets/trades", "trades", ticker=ticker, min_ts=since) == trades[:6]


# --- Polymarket ----------------------------------------------------------------------------------------------------


def tokens(market: Body) -> list[str]:
    return list(market.get("positionIds") or json.loads(market["clobTokenIds"]))


def test_pages_by_cursor_and_by_offset_give_every_market_once_in_the_order_of_the_request() -> None:
    everything = [market["id"] for market in listed(False)]
    assert len(set(everything)) == len(everything) > 100
    assert [market["id"] for market in site().every("markets", closed="false", limit=31)] == everything
    offsets = [site().gamma("/markets", closed="false", offset=offset, limit=50) for offset in range(0, len(everything) + 50, 50)]
    assert [market["id"] for page in offsets for market in page] == everything
    sorts = {"order": "volumeNum", "ascending": "false", "closed": "false"}
    volumes = [market.get("volumeNum", 0) for market in site().every("markets", limit=70, **sorts)]
    assert volumes == sorted(volumes, reverse=True)
    assert len(volumes) == len(everything)
    named = site().gamma("/markets/keyset", id=everything[:3], closed="false")["markets"]
    assert sorted(market["id"] for market in named) == sorted(everything[:3])
    assert all("2026-09-26" <= market["endDate"] <= "2026-10-01T00:00:00Z" and market["closed"] for market in listed(True))


def test_books_of_both_outcomes_mirror_each_other_and_agree_with_gamma() -> None:
    trading = [market for market in listed(False) if "bestBid" in market and len(tokens(market)) == 2][:20]
    wanted = [{"token_id": token} for market in trading for token in tokens(market)] + [{"token_id": "7" * 77}]
    books = site().call(f"{CLOB_PATH}/books", method="POST", content=json.dumps(wanted).encode()).json()
    assert len(parse_books(VenuePage("POST /books", 200, NOW, json.dumps(books).encode()))) == len(books)
    by_token = {book["asset_id"]: book for book in books}
    assert len(by_token) == len(wanted) - 1
    for market in trading:
        first, second = (by_token[token] for token in tokens(market))
        assert (float(first["bids"][-1]["price"]), float(first["asks"][-1]["price"])) == (market["bestBid"], market["bestAsk"])
        for side, other in (("bids", "asks"), ("asks", "bids")):
            mirrored = [(pytest.approx(1 - float(level["price"])), level["size"]) for level in first[side]]
            assert mirrored == [(float(level["price"]), level["size"]) for level in second[other]]
        prices = site().call(f"{CLOB_PATH}/prices-history", market=tokens(market)[1], startTs=0, fidelity=60).json()["history"]
        assert all(point["t"] % 3600 == 0 and point["t"] <= NOW.timestamp() for point in prices)
        middle = (market["bestBid"] + market["bestAsk"]) / 2
        assert prices[-1]["p"] == pytest.approx(1 - middle), "the last whole hour is the present"


def test_final_prices_and_winners_state_the_outcome_of_the_world() -> None:
    world = GeneratedWorld(7)
    found = GeneratedPolymarket(world)
    ours = {market.latent: market for home in range(630, 639) for event in world.day(home) for market in event.markets}
    later = Site(datetime(2026, 12, 20, tzinfo=UTC))
    checked = 0
    for home in range(630, 639):
        for market in (market for event in found.day(home) for market in event.markets):
            clob = later.call(f"{CLOB_PATH}/markets/{market.condition_id}").json()
            result = ours[market.claim].determination.result
            winners = [token["outcome"] for token in clob["tokens"] if token["winner"]]
            prices = [token["price"] for token in clob["tokens"]]
            if clob["is_50_50_outcome"]:
                assert (winners, prices) == ([], [0.5, 0.5])
            elif "Yes" in market.outcomes:
                assert winners == [result.capitalize()]
                assert prices[market.outcomes.index(result.capitalize())] == 1
            else:
                assert winners == [market.outcomes[0 if result == "yes" else 1]]
            checked += 1
    assert checked > 60


# --- errors and addresses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        (f"{KALSHI_PATH}/markets", {"limit": "many"}, 400),
        (f"{KALSHI_PATH}/events", {"status": "finalized"}, 400),
        (f"{KALSHI_PATH}/markets", {"cursor": "???"}, 400),
        (f"{KALSHI_PATH}/markets/candlesticks", {"market_tickers": "KXA", "start_ts": 0, "end_ts": 1, "period_interval": 5}, 400),
        (f"{KALSHI_PATH}/historical/markets/KXNONE/candlesticks", {"start_ts": 0, "end_ts": 1, "period_interval": 60}, 404),
        (f"{GAMMA_PATH}/markets", {"offset": 2001}, 422),
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
    assert {KALSHI_PATH, GAMMA_PATH, CLOB_PATH, MODELS_PATH, CONTROL_PATH} <= set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE))
