"""Order books and trades over REST: consistent with markets and candles, and without later information."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from bellwether.sandbox import Clock, GeneratedWorld, create_app
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.timestamps import HOUR, SECOND, parse_time, to_datetime, to_instant

NOW = datetime(2025, 6, 15, 17, 20, 3, tzinfo=UTC)
Object = dict[str, Any]


@pytest.fixture(scope="module")
def at(world: GeneratedWorld, exchange: GeneratedExchange, client: Any) -> Callable[[datetime], Any]:
    return lambda now: client(create_app(world, exchange=exchange, clock=Clock(now)))


@pytest.fixture(scope="module")
def venue(at: Callable[[datetime], Any]) -> Any:
    return at(NOW)


@pytest.fixture(scope="module")
def open_markets(venue: Any) -> list[Object]:
    return venue.get("/markets", status="open", limit=1000)["markets"]


@pytest.fixture(scope="module")
def busy(open_markets: list[Object]) -> str:
    return max(open_markets, key=lambda market: Decimal(market["volume_24h_fp"]))["ticker"]


def trades(venue: Any, path: str = "/markets/trades", **params: Any) -> list[Object]:
    """Yield every trade of a listing, page after page."""
    found: list[Object] = []
    cursor = ""
    while True:
        page = venue.get(path, **params, cursor=cursor)
        found += page["trades"]
        cursor = page["cursor"]
        if not cursor:
            return found


# --- order books -----------------------------------------------------------------------------------------------------


def test_books_and_markets_agree_at_every_moment(at: Callable[[datetime], Any], open_markets: list[Object]) -> None:
    tickers = [market["ticker"] for market in open_markets[::4]]
    for shift in (timedelta(0), timedelta(minutes=4, seconds=11), timedelta(minutes=9, seconds=57), timedelta(hours=7)):
        venue = at(NOW + shift)
        markets = {market["ticker"]: market for market in venue.get("/markets", tickers=",".join(tickers), limit=1000)["markets"]}
        books = venue.get("/markets/orderbooks", tickers=tickers[:100])["orderbooks"]
        assert [book["ticker"] for book in books] == tickers[:100]
        for book in books:
            market, sides = markets[book["ticker"]], book["orderbook_fp"]
            yes, no = ((sides[name] or [["0.0000", "0.00"]])[-1] for name in ("yes_dollars", "no_dollars"))
            assert yes == [market["yes_bid_dollars"], market["yes_bid_size_fp"]]
            assert no == [market["no_bid_dollars"], market["yes_ask_size_fp"]]


def test_a_book_is_empty_before_the_opening_and_from_the_close_on(
    world: GeneratedWorld, at: Callable[[datetime], Any], open_markets: list[Object]
) -> None:
    market = world.market(open_markets[5]["ticker"])
    empty = {"yes_dollars": [], "no_dollars": []}

    def books(when: int) -> list[Object]:
        found = at(to_datetime(when)).get("/markets/orderbooks", tickers=market.ticker)["orderbooks"]
        return [book["orderbook_fp"] for book in found]

    for when in (market.life.opens - 1, market.life.closes, market.life.settled + 1):
        assert books(when) == [empty]
    assert books(market.life.closes - 1) != [empty]
    assert books(market.life.created - 1) == []


# --- trades ----------------------------------------------------------------------------------------------------------


def test_trades_of_a_market_add_up_to_its_volume(venue: Any, open_markets: list[Object]) -> None:
    for market in sorted(open_markets, key=lambda market: -Decimal(market["volume_fp"]))[5:40:9]:
        found = trades(venue, ticker=market["ticker"], limit=1000)
        assert sum(Decimal(trade["count_fp"]) for trade in found) == Decimal(market["volume_fp"])
        assert found[0]["yes_price_dollars"] == market["last_price_dollars"]
        assert len({trade["trade_id"] for trade in found}) == len(found)


def test_a_trade_says_all_that_the_venue_says(venue: Any, busy: str) -> None:
    for trade in trades(venue, ticker=busy, limit=1000)[:200]:
        assert set(trade) == {
            "trade_id",
            "ticker",
            "count_fp",
            "yes_price_dollars",
            "no_price_dollars",
            "taker_side",
            "taker_outcome_side",
            "taker_book_side",
            "is_block_trade",
            "created_time",
        }
        assert Decimal(trade["yes_price_dollars"]) + Decimal(trade["no_price_dollars"]) == 1
        assert (trade["taker_outcome_side"], trade["taker_book_side"]) in (("yes", "bid"), ("no", "ask"))


def test_pages_of_all_markets_have_no_hole_and_nothing_twice(venue: Any) -> None:
    window = {"min_ts": int(NOW.timestamp()) - 3 * 3600, "max_ts": int(NOW.timestamp()) - 600}
    whole = trades(venue, limit=1000, **window)
    assert len(whole) > 100
    assert trades(venue, limit=37, **window) == whole
    assert len({trade["trade_id"] for trade in whole}) == len(whole)
    times = [parse_time(trade["created_time"]) for trade in whole]
    assert times == sorted(times, reverse=True)
    assert window["min_ts"] * SECOND <= times[-1]
    assert times[0] <= window["max_ts"] * SECOND


def test_trades_before_the_cutoff_are_not_listed(world: GeneratedWorld, venue: Any) -> None:
    cutoff = world.cutoff(to_instant(NOW))
    live = trades(venue, min_ts=(cutoff - HOUR) // SECOND, max_ts=(cutoff + HOUR) // SECOND, limit=1000)
    assert live
    assert all(parse_time(trade["created_time"]) >= cutoff for trade in live)


def test_nothing_is_traded_after_the_clock(venue: Any, at: Callable[[datetime], Any]) -> None:
    later = at(NOW + timedelta(hours=2))
    now = int(NOW.timestamp())
    assert trades(venue, min_ts=now - 3600, limit=1000) == trades(later, min_ts=now - 3600, max_ts=now, limit=1000)
    assert venue.get("/markets/trades", min_ts=now + 1)["trades"] == []
