"""Requests for the arena: contracts and events of Kalshi, live or archived; markets, books, past prices and winners of Polymarket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import httpx
import orjson
import pytest

from bellwether.venues.http.client import ClobClient, KalshiClient, RateLimit
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi import snapshots as kalshi
from bellwether.venues.polymarket import snapshots
from tests.unit.venues.polymarket_clients import clob, gamma
from tests.unit.venues.polymarket_objects import NO, YES, book, market
from tests.unit.venues.polymarket_world import World, ordinary
from tests.unit.venues.venue import FAST, answer

AT = datetime(2026, 4, 5, 0, 5, tzinfo=UTC)
DATE = {"Date": "Sun, 05 Apr 2026 00:10:00 GMT"}
HOUR = timedelta(hours=1)


def contract(ticker: str, event: str = "KXA-1", **more: Any) -> dict[str, Any]:
    """Return a market object of the venue."""
    return {
        "ticker": ticker,
        "event_ticker": event,
        "status": "active",
        "result": "",
        "created_time": "2026-03-01T00:00:00Z",
        "open_time": "2026-03-01T00:00:00Z",
        "close_time": "2026-04-09T00:00:00Z",
        **more,
    }


def kalshi_event(ticker: str) -> dict[str, Any]:
    return {"event_ticker": ticker, "series_ticker": "KXA", "title": ticker, "mutually_exclusive": True}


class Answers:
    """Answers GET requests by path, and records them."""

    def __init__(self, answers: dict[str, Callable[[dict[str, list[str]]], Any]]) -> None:
        self.answers, self.asked = answers, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.raw_path.decode())
        found = self.answers[request.url.path.removeprefix("/v2")](parse_qs(request.url.query.decode()))
        return httpx.Response(404, json={}, headers=DATE) if found is None else httpx.Response(200, json=found, headers=DATE)


def ask_kalshi(answers: Answers, work: Callable[[KalshiClient], Any]) -> Any:
    async def session() -> Any:
        how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": httpx.MockTransport(answers)}
        async with KalshiClient("http://kalshi.test/v2", **how) as client:
            return await work(client)

    return asyncio.run(session())


def listing(*contracts: dict[str, Any]) -> dict[str, Any]:
    return {"markets": list(contracts), "cursor": ""}


def test_names_are_contracts_live_or_archived_and_else_events_with_all_of_theirs() -> None:
    live = {"KXB-1": contract("KXB-1", "KXB-1"), "KXA-1-X": contract("KXA-1-X")}
    old = {"KXC-1": contract("KXC-1", "KXC-1"), "KXA-1-Y": contract("KXA-1-Y", status="finalized", result="no")}

    def markets(kept: dict[str, Any]) -> Callable[[dict[str, list[str]]], Any]:
        def answer(query: dict[str, list[str]]) -> Any:
            if "tickers" in query:
                return listing(*(kept[name] for name in query["tickers"][0].split(",") if name in kept))
            return listing(*(one for one in kept.values() if one["event_ticker"] == query["event_ticker"][0]))

        return answer

    answers = Answers(
        {
            "/markets": markets(live),
            "/historical/markets": markets(old),
            "/events": lambda query: {"events": [kalshi_event(name) for name in query["tickers"][0].split(",")], "cursor": ""},
        }
    )
    seen, events = ask_kalshi(answers, lambda client: kalshi.fetch_by_id(client, ["KXB-1", "KXC-1", "KXA-1", "KXZ-9"]))
    assert set(seen.contracts) == {"KXB-1", "KXC-1", "KXA-1-X", "KXA-1-Y"}
    assert events == {"KXA-1"}
    assert set(seen.events) == {"KXB-1", "KXC-1", "KXA-1"}
    assert seen.at == datetime(2026, 4, 5, 0, 10, tzinfo=UTC)


def _candle(at: datetime, bid: str) -> dict[str, Any]:
    sides = {"yes_bid": {"close_dollars": bid}, "yes_ask": {"close_dollars": "0.6000"}, "price": {}}
    return {"end_period_ts": int(at.timestamp()), "volume_fp": "0.00", "open_interest_fp": "0.00", **sides}


def test_candles_of_archived_contracts_come_from_the_archive() -> None:
    group = {
        "market_ticker": "KXA-1-X",
        "candlesticks": [_candle(AT + HOUR, "0.5000"), _candle(AT, "0.4000"), _candle(AT - HOUR, "0.3000")],
    }
    old = {"ticker": "KXC-1", "candlesticks": [{**_candle(AT, "0.1000"), "yes_bid": {"close": "0.1000"}, "yes_ask": {"close": "0.2000"}}]}
    answers = Answers(
        {
            "/markets/candlesticks": lambda query: {"markets": [group]},
            "/historical/markets/KXC-1/candlesticks": lambda query: old,
            "/historical/markets/KXZ-9/candlesticks": lambda query: None,
        }
    )
    found = ask_kalshi(
        answers, lambda client: kalshi.fetch_candles(client, dict.fromkeys(["KXA-1-X", "KXC-1", "KXZ-9"], (AT - HOUR / 2, AT + HOUR)))
    )
    assert [(row["end_at"], row["yes_bid_close"]) for row in found["KXA-1-X"]] == [(AT, Decimal("0.4")), (AT + HOUR, Decimal("0.5"))]
    assert [row["yes_bid_close"] for row in found["KXC-1"]] == [Decimal("0.1")]
    assert found["KXZ-9"] == []


def test_no_call_asks_for_more_candles_than_the_venue_gives() -> None:
    names = [f"KXA-1-{number}" for number in range(70)]

    def answer(query: dict[str, list[str]]) -> Any:
        return {"markets": [{"market_ticker": name, "candlesticks": []} for name in query["market_tickers"][0].split(",")]}

    answers = Answers({"/markets/candlesticks": answer})
    assert ask_kalshi(answers, lambda client: kalshi.fetch_candles(client, dict.fromkeys(names, (AT - timedelta(days=14), AT)))) == {
        name: [] for name in names
    }
    assert len(answers.asked) == 3, "29 contracts with 337 hours each"


NOW = datetime(2026, 6, 28, 0, 10, tzinfo=UTC)


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


async def test_the_largest_open_markets_are_fetched_in_whole_pages() -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        first, limit = int(request.url.params.get("after_cursor", 0)), int(request.url.params["limit"])
        items = [market(number, closed=False, volume=str(1000 - number)) for number in range(first, first + limit)]
        return answer({"markets": items, "next_cursor": str(first + limit)})

    async with gamma(handler) as client:
        found = await snapshots.fetch_largest_open(client, 120)
    assert [row["market_id"] for row in found.rows] == [str(number) for number in range(200)]
    assert [row["volume"] for row in found.rows] == [Decimal(1000 - number) for number in range(200)]
    assert found.at == datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
    assert {"active=true", "closed=false", "order=volumeNum", "ascending=false"} <= set(asked[-1].partition("?")[2].split("&"))


async def test_markets_and_winners_are_found_by_id_whether_open_or_closed() -> None:
    world = ordinary()
    world.markets[1] |= {"closed": False}
    async with gamma(world) as first, clob(world) as second:
        found = await snapshots.fetch_by_id(first, ["11", "12", "999"])
        flags = await snapshots.fetch_winners(second, [*(row["condition_id"] for row in found.rows), "0x" + "0" * 64])
    assert {row["market_id"]: row["closed"] for row in found.rows} == {"11": True, "12": False}
    assert {condition[-2:]: names for condition, (names, _) in flags.items()} == {"0b": ["Yes"], "0c": ["Yes"]}


async def test_books_have_their_best_prices_first() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        tokens = [item["token_id"] for item in orjson.loads(request.content)]
        return answer([book(asset_id=token) for token in tokens if token != "1" * 70])

    async with clob(handler) as client:
        found = await snapshots.fetch_books(client, [YES, NO, "1" * 70])
    assert set(found) == {YES, NO}
    for one in found.values():
        assert [price for price, _ in one.bids] == [Decimal("0.25"), Decimal("0.01")]
        assert [price for price, _ in one.asks] == [Decimal("0.29"), Decimal("0.99")]
        assert one.at == datetime(2026, 3, 14, 0, 0, 0, 123000, UTC)


def read_books(answer: Any, parse: Callable[[VenuePage], dict[str, Any]]) -> dict[str, Any]:
    return parse(VenuePage("POST /books", 200, NOW, orjson.dumps(answer)))


def levels(*pairs: tuple[str, str]) -> tuple[tuple[Decimal, Decimal], ...]:
    return tuple((Decimal(price), Decimal(size)) for price, size in pairs)


def test_a_book_of_the_clob_is_exact_and_may_lack_a_side_or_a_tick_size() -> None:
    whole = read_books([book()], snapshots.parse_books)[YES]
    assert (whole.bids, whole.asks) == (levels(("0.25", "7.5"), ("0.01", "100")), levels(("0.29", "12.000001"), ("0.99", "50")))
    assert (whole.tick, whole.skipped) == (Decimal("0.001"), 0)
    for empty in ([], None, ...):
        assert read_books([book(bids=empty)], snapshots.parse_books)[YES] == replace(whole, bids=())
        assert read_books([book(bids=empty, asks=empty)], snapshots.parse_books) == {}
    for tick in (..., None, "", "0"):
        found = read_books([book(tick_size=tick, bids=[{"price": "0.25123", "size": 1}])], snapshots.parse_books)[YES]
        assert (found.bids, found.tick) == (levels(("0.25123", "1")), None)


@pytest.mark.parametrize(
    "changes",
    [
        {"bids": [{"price": "0.25", "size": "1"}, {"price": "0.01", "size": "1"}]},
        {"asks": [{"price": "0.29", "size": "1"}, {"price": "0.99", "size": "1"}]},
        {"bids": [{"price": "0.29", "size": "1"}]},
        {"bids": [{"price": "0.25"}], "asks": [7]},
        {"bids": "none"},
        {"timestamp": "now"},
        {"tick_size": "abc"},
        {"asset_id": ...},
    ],
)
def test_a_book_of_the_clob_that_does_not_fit_is_left_out(changes: dict[str, Any]) -> None:
    assert set(read_books([book(asset_id=NO), book(**changes)], snapshots.parse_books)) == {NO}


@pytest.mark.parametrize(
    "level", [{"price": "0.25"}, {"price": "1.25", "size": "1"}, {"price": "0.2505", "size": "1"}, {"price": "0.26", "size": "0"}, {}, 7]
)
def test_each_level_is_judged_alone_by_the_tick_of_its_book_and_unusable_ones_are_counted(level: Any) -> None:
    good = book()["bids"]
    for place in range(3):
        found = read_books([book(), book(asset_id=NO, bids=[*good[:place], level, *good[place:]])], snapshots.parse_books)
        assert found[NO] == replace(found[YES], skipped=1)


KALSHI_BOOK = {"yes_dollars": [["0.5800", "10.00"], ["0.0100", "0.00"], ["0.0450", "552.25"]], "no_dollars": None}


def test_a_book_of_kalshi_is_exact_and_sorted_without_empty_levels() -> None:
    listed = [{"ticker": "A", "orderbook_fp": KALSHI_BOOK}, {"ticker": "A", "orderbook_fp": {}}, {"ticker": "B", "orderbook_fp": {}}]
    found = read_books({"orderbooks": listed}, kalshi.parse_books)
    assert found["A"] == kalshi.Book(levels(("0.045", "552.25"), ("0.58", "10")), (), NOW), "the first one counts"
    assert found["B"] == kalshi.Book((), (), NOW)


@pytest.mark.parametrize(
    "item",
    [
        {"ticker": "B"},
        {"ticker": "B", "orderbook_fp": []},
        {"ticker": "B", "orderbook_fp": {"no_dollars": {}}},
        {"orderbook_fp": {}},
        "B",
        *(
            {"ticker": "B", "orderbook_fp": {"yes_dollars": [["0.0100", "1.00"], level]}}
            for level in (["1.0000", "1"], ["0.0000", "1"], ["0.5", "-1"], ["0.5000001", "1"], ["0.5", "1", "2"], ["0.010", "2"], 7)
        ),
        {"ticker": "B", "orderbook_fp": {"yes_dollars": [["0.6", "1"]], "no_dollars": [["0.41", "1"]]}},
    ],
)
def test_a_book_of_kalshi_that_does_not_fit_is_left_out(item: Any) -> None:
    good = {"ticker": "A", "orderbook_fp": KALSHI_BOOK}
    assert set(read_books({"orderbooks": [good, item]}, kalshi.parse_books)) == {"A"}


async def test_past_prices_of_a_long_span_are_asked_for_in_parts() -> None:
    world = World(unpriced=frozenset({"2" * 70}))
    start = NOW - timedelta(days=40)
    async with clob(world) as client:
        found = await snapshots.fetch_past_prices(client, {"7" * 70: (start, NOW), "2" * 70: (NOW - timedelta(days=1), NOW)})
    assert found["2" * 70] == []
    times = [at for at, _ in found["7" * 70]]
    assert times == sorted(set(times))
    assert start <= times[0] < times[-1] <= NOW
    assert {price for _, price in found["7" * 70]} == {Decimal("0.25")}
    assert sum("7" * 70 in url for url in world.asked) == 3, "15 days at most"
