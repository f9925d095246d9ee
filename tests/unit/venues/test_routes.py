"""Requests sent, and requests that the venue forbids and that are never sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.venues.kalshi import routes
from tests.venues.venue import Script, answer, client

DAY = datetime(2026, 3, 14, tzinfo=UTC)
NEXT = DAY + timedelta(days=1)


@pytest.mark.parametrize(
    ("listing", "request_text"),
    [
        (routes.markets(), "GET /markets?mve_filter=exclude&limit=1000"),
        (
            routes.markets(closing_after=DAY, closing_before=NEXT),
            "GET /markets?min_close_ts=1773446400&max_close_ts=1773532800&mve_filter=exclude&limit=1000",
        ),
        (routes.markets(tickers=["A", "B.5"], mve_filter=None, limit=5), "GET /markets?tickers=A,B.5&limit=5"),
        (routes.events(tickers=["E1", "E2"]), "GET /events?tickers=E1,E2&with_nested_markets=true&limit=200"),
        (
            routes.events(status="settled", closing_after=DAY, nested=False, limit=1),
            "GET /events?status=settled&min_close_ts=1773446400&limit=1",
        ),
        (routes.historical_markets(event_ticker="E"), "GET /historical/markets?event_ticker=E&mve_filter=exclude&limit=1000"),
        (routes.series(), "GET /series"),
        (routes.historical_cutoff(), "GET /historical/cutoff"),
        (
            routes.candles_batch(["A", "B"], DAY, NEXT),
            "GET /markets/candlesticks?market_tickers=A,B&start_ts=1773446400&end_ts=1773532800&period_interval=60",
        ),
        (
            routes.historical_candles("A/B", DAY, NEXT, period_minutes=1440),
            "GET /historical/markets/A%2FB/candlesticks?start_ts=1773446400&end_ts=1773532800&period_interval=1440",
        ),
        (routes.orderbooks(["A", "B.5"]), "GET /markets/orderbooks?tickers=A&tickers=B.5"),
        (routes.trades(ticker="A", after=DAY, limit=5), "GET /markets/trades?ticker=A&min_ts=1773446400&limit=5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_reads_as_it_is_sent(listing: Any, request_text: str):
    assert listing.request == request_text


FORBIDDEN = {
    "events that are paused": lambda: routes.events(status="paused"),
    "two filters of the archive": lambda: routes.historical_markets(event_ticker="E", tickers=["A"]),
    "candles of two hours": lambda: routes.historical_candles("T", DAY, DAY, period_minutes=120),
    "candles of 101 markets": lambda: routes.candles_batch([f"T{n}" for n in range(101)], DAY, DAY),
    "more than 10,000 candles": lambda: routes.candles_batch([f"T{n}" for n in range(100)], DAY, DAY + timedelta(hours=100)),
    "order books of 101 markets": lambda: routes.orderbooks([f"T{n}" for n in range(101)]),
}


@pytest.mark.parametrize("build", FORBIDDEN.values(), ids=list(FORBIDDEN))
def test_what_the_venue_forbids_is_refused_before_it_is_sent(build: Any):
    with pytest.raises(ConfigError, match="requesting"):
        build()


async def test_a_forbidden_call_sends_nothing():
    script = Script(answer({}))
    async with client(script) as venue:
        with pytest.raises(ConfigError, match="the filter is called settled"):
            venue.events(status="finalized")
    assert script.requests == []


@pytest.mark.parametrize(
    ("request_text", "tickers"),
    [
        (routes.candles_batch(["A", "B"], DAY, DAY).request, {"A", "B"}),
        (routes.historical_candles("A/B", DAY, DAY).request, {"A/B"}),
        (routes.events(tickers=["E1", "E2"]).request, {"E1", "E2"}),
        (routes.orderbooks(["A", "B"]).request, {"A", "B"}),
        ("GET /markets/A%2FB/orderbook", {"A/B"}),
        (routes.trades().request, set()),
    ],
)
def test_the_tickers_of_a_call_can_be_read_back(request_text: str, tickers: set[str]):
    assert routes.parse_requested_tickers(request_text) == tickers
