"""Requests sent to both venues, and invalid ids, which are never sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import orjson

from bellwether.venues.http.page import VenueCall, VenuePage
from bellwether.venues.kalshi import routes as kalshi
from bellwether.venues.polymarket import routes as polymarket

DAY = datetime(2026, 3, 14, tzinfo=UTC)
NEXT = DAY + timedelta(days=1)
TOKEN = "72690798903588392269001731007662425920353908498880709179939493847828858696064"
CONDITION = "0x11ba5a5ab05573dee22a32b4c5bec06f035b8660eed912fb134e7215f46bf537"
NEW_YORK = timezone(timedelta(hours=-4))


def prices(token: str = TOKEN, start: datetime = DAY, end: datetime = NEXT, minutes: int = 60) -> VenueCall:
    return polymarket.prices_history(token, start=start, end=end, fidelity_minutes=minutes)


def test_a_call_of_kalshi_reads_as_it_is_sent():
    between = "start_ts=1773446400&end_ts=1773532800"
    assert [
        kalshi.markets().call_at(None).request,
        kalshi.markets(closing_after=DAY, closing_before=NEXT).call_at(None).request,
        kalshi.markets(tickers=["A", "B.5"], mve_filter=None).call_at(None).request,
        kalshi.events(tickers=["E1", "E2"]).call_at(None).request,
        kalshi.events(status="settled", closing_after=DAY, nested=False).call_at(None).request,
        kalshi.historical_markets(event_ticker="E").call_at(None).request,
        kalshi.series().call_at(None).request,
        kalshi.historical_cutoff().request,
        kalshi.candles_batch(["A", "B"], DAY, NEXT).request,
        kalshi.historical_candles("A/B", DAY, NEXT).request,
        kalshi.orderbooks(["A", "B.5"]).request,
        kalshi.trades(ticker="A", after=DAY).call_at(None).request,
    ] == [
        "GET /markets?mve_filter=exclude&limit=1000",
        "GET /markets?min_close_ts=1773446400&max_close_ts=1773532800&mve_filter=exclude&limit=1000",
        "GET /markets?tickers=A,B.5&limit=1000",
        "GET /events?tickers=E1,E2&with_nested_markets=true&limit=200",
        "GET /events?status=settled&min_close_ts=1773446400&limit=200",
        "GET /historical/markets?event_ticker=E&mve_filter=exclude&limit=1000",
        "GET /series",
        "GET /historical/cutoff",
        f"GET /markets/candlesticks?market_tickers=A,B&{between}&period_interval=60",
        f"GET /historical/markets/A%2FB/candlesticks?{between}&period_interval=60",
        "GET /markets/orderbooks?tickers=A&tickers=B.5",
        "GET /markets/trades?ticker=A&min_ts=1773446400&limit=1000",
    ]


def test_a_call_of_polymarket_reads_as_it_is_sent():
    ordered = polymarket.markets(closed=False, active=True, order="volumeNum", ascending=False)
    window = polymarket.markets(closed=False, end_date_min=datetime(2026, 3, 13, 20, tzinfo=NEW_YORK), end_date_max=NEXT)
    assert [
        ordered.call_at(None).request,
        window.call_at(None).request,
        polymarket.markets(closed=False, ids=["12", "7"]).call_at(None).request,
        polymarket.events(closed=True, ids=["5"]).call_at(None).request,
        prices(end=DAY + timedelta(hours=1)).request,
        polymarket.clob_market(CONDITION).request,
        polymarket.time().request,
    ] == [
        "GET /markets/keyset?closed=false&active=true&order=volumeNum&ascending=false&include_tag=true&limit=100",
        "GET /markets/keyset?closed=false&end_date_min=2026-03-14T00%3A00%3A00Z&end_date_max=2026-03-15T00%3A00%3A00Z&include_tag=true&limit=100",
        "GET /markets/keyset?closed=false&id=12&id=7&include_tag=true&limit=100",
        "GET /events/keyset?closed=true&id=5&limit=100",
        f"GET /prices-history?market={TOKEN}&startTs=1773446400&endTs=1773450000&fidelity=60",
        f"GET /markets/{CONDITION}",
        "GET /time",
    ]


def test_tokens_go_five_hundred_in_a_call_in_their_order():
    tokens = [str(number) for number in range(1001)]
    calls = polymarket.books(tokens)
    assert [(call.method, call.path) for call in calls] == [("POST", "/books")] * 3
    assert [len(orjson.loads(call.body)) for call in calls] == [500, 500, 1]
    assert [item["token_id"] for call in calls for item in orjson.loads(call.body)] == tokens
    assert polymarket.books([]) == []
    first, second = polymarket.books(["1"] * 501)
    assert first.request != second.request, "two batches are two requests"
    assert polymarket.books(["1"] * 500)[0].request == first.request


def test_the_tickers_and_tokens_of_a_call_can_be_read_back():
    for request_text, tickers in {
        kalshi.candles_batch(["A", "B"], DAY, DAY).request: {"A", "B"},
        kalshi.historical_candles("A/B", DAY, DAY).request: {"A/B"},
        kalshi.events(tickers=["E1", "E2"]).call_at(None).request: {"E1", "E2"},
        kalshi.orderbooks(["A", "B"]).request: {"A", "B"},
        kalshi.trades().call_at(None).request: set(),
    }.items():
        assert kalshi.parse_requested_tickers(request_text) == tickers
    for call, tokens in ((prices("8"), ["8"]), (polymarket.time(), [])):
        assert polymarket.parse_requested_tokens(VenuePage(call.request, 200, DAY, b"{}")) == tokens
