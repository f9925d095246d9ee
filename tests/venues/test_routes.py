"""The calls that are made, and those that the venue forbids and that are never sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.routes import Window
from tests.venues.venue import Script, answer, client

DAY = datetime(2026, 3, 14, tzinfo=UTC)


@pytest.mark.parametrize(
    ("listing", "request_text"),
    [
        (routes.markets(), "GET /markets?mve_filter=exclude&limit=1000"),
        (
            routes.markets(window=Window("close", DAY, DAY + timedelta(days=1))),
            "GET /markets?min_close_ts=1773446400&max_close_ts=1773532800&mve_filter=exclude&limit=1000",
        ),
        (
            routes.markets(status="settled", window=Window("settled", after=DAY)),
            "GET /markets?status=settled&min_settled_ts=1773446400&mve_filter=exclude&limit=1000",
        ),
        (
            routes.markets(window=Window("updated", before=DAY), series_ticker="KXRAIN"),
            "GET /markets?max_updated_ts=1773446400&series_ticker=KXRAIN&mve_filter=exclude&limit=1000",
        ),
        (routes.markets(tickers=["A", "B.5"], mve_filter=None, limit=5), "GET /markets?tickers=A,B.5&limit=5"),
        (routes.events(), "GET /events?with_nested_markets=true&limit=200"),
        (
            routes.events(status="settled", series_ticker="S", closing_after=DAY, nested=False, limit=1),
            "GET /events?status=settled&series_ticker=S&min_close_ts=1773446400&limit=1",
        ),
        (routes.events(tickers=["E1", "E2"]), "GET /events?tickers=E1,E2&with_nested_markets=true&limit=200"),
        (routes.historical_markets(), "GET /historical/markets?mve_filter=exclude&limit=1000"),
        (routes.historical_markets(event_ticker="E"), "GET /historical/markets?event_ticker=E&mve_filter=exclude&limit=1000"),
        (routes.series(), "GET /series"),
        (routes.series(category="Climate and Weather"), "GET /series?category=Climate%20and%20Weather"),
        (routes.historical_cutoff(), "GET /historical/cutoff"),
        (routes.market("GTEMP-24-1.02/23"), "GET /markets/GTEMP-24-1.02%2F23"),
        (
            routes.candles("S", "T", DAY, DAY + timedelta(hours=1), period_minutes=1),
            "GET /series/S/markets/T/candlesticks?start_ts=1773446400&end_ts=1773450000&period_interval=1",
        ),
        (
            routes.candles_batch(["A", "B"], DAY, DAY + timedelta(days=1)),
            "GET /markets/candlesticks?market_tickers=A,B&start_ts=1773446400&end_ts=1773532800&period_interval=60",
        ),
        (
            routes.historical_candles("A/B", DAY, DAY + timedelta(days=1), period_minutes=1440),
            "GET /historical/markets/A%2FB/candlesticks?start_ts=1773446400&end_ts=1773532800&period_interval=1440",
        ),
        (routes.orderbook("A/B"), "GET /markets/A%2FB/orderbook"),
        (routes.orderbook("A", depth=100), "GET /markets/A/orderbook?depth=100"),
        (routes.orderbooks(["A", "B.5"]), "GET /markets/orderbooks?tickers=A&tickers=B.5"),
        (routes.trades(), "GET /markets/trades?limit=1000"),
        (
            routes.trades(ticker="A", after=DAY, before=DAY + timedelta(hours=1), is_block_trade=False, limit=5),
            "GET /markets/trades?ticker=A&min_ts=1773446400&max_ts=1773450000&is_block_trade=false&limit=5",
        ),
        (routes.historical_trades(ticker="A", is_block_trade=True), "GET /historical/trades?ticker=A&is_block_trade=true&limit=1000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_reads_as_it_is_sent(listing: Any, request_text: str):
    assert listing.request == request_text


FORBIDDEN = {
    "the response word finalized": lambda: routes.markets(status="finalized"),
    "events that are paused": lambda: routes.events(status="paused"),
    "close times of settled markets": lambda: routes.markets(status="settled", window=Window("close", DAY)),
    "settled times of closed markets": lambda: routes.markets(status="closed", window=Window("settled", DAY)),
    "updated times with a status": lambda: routes.markets(status="open", window=Window("updated", DAY)),
    "updated times with combos": lambda: routes.markets(window=Window("updated", DAY), mve_filter=None),
    "updated times of an event": lambda: routes.markets(window=Window("updated", DAY), event_ticker="E"),
    "two filters of the archive": lambda: routes.historical_markets(event_ticker="E", series_ticker="S"),
    "tickers and a series of the archive": lambda: routes.historical_markets(tickers=["A"], series_ticker="S"),
    "candles of two hours": lambda: routes.candles("S", "T", DAY, DAY, period_minutes=120),
    "candles of 101 markets": lambda: routes.candles_batch([f"T{n}" for n in range(101)], DAY, DAY),
    "an order book of 101 levels": lambda: routes.orderbook("A", depth=101),
    "order books of 101 markets": lambda: routes.orderbooks([f"T{n}" for n in range(101)]),
    "archived trades in empty pages": lambda: routes.historical_trades(limit=0),
    "more than 10,000 candles": lambda: routes.candles_batch([f"T{n}" for n in range(100)], DAY, DAY + timedelta(hours=100)),
}


@pytest.mark.parametrize("build", FORBIDDEN.values(), ids=list(FORBIDDEN))
def test_what_the_venue_forbids_is_refused_before_it_is_sent(build: Any):
    with pytest.raises(ConfigError, match="asking for"):
        build()


async def test_a_forbidden_call_sends_nothing():
    script = Script(answer({}))
    async with client(script) as venue:
        with pytest.raises(ConfigError, match="the filter is called settled"):
            venue.markets(status="finalized")
    assert script.requests == []


@pytest.mark.parametrize(
    ("call", "tickers"),
    [
        (routes.candles_batch(["A", "B"], DAY, DAY), {"A", "B"}),
        (routes.historical_candles("A/B", DAY, DAY), {"A/B"}),
        (routes.events(tickers=["E1", "E2"]), {"E1", "E2"}),
        (routes.markets(), set()),
        (routes.orderbook("A/B"), {"A/B"}),
        (routes.orderbooks(["A", "B"]), {"A", "B"}),
        (routes.trades(ticker="A"), {"A"}),
        (routes.trades(), set()),
    ],
)
def test_the_tickers_of_a_call_can_be_read_back(call: Any, tickers: set[str]):
    assert routes.asked_tickers(call.request) == tickers
