"""Candlestick routes of the sandbox: one price path at every period, live and archived."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.timestamps import DAY, SECOND, to_instant
from bellwether.sandbox.world.model import Market

Object = dict[str, Any]


@pytest.fixture(scope="module")
def live(world: GeneratedWorld, venue: Any) -> list[Market]:
    """Recently settled markets without combos."""
    tickers = [market["ticker"] for market in venue.all("/markets", status="settled", mve_filter="exclude", limit=1000)]
    return [world.market(ticker) for ticker in tickers[:150]]


def candles(venue: Any, market: Market, period: int, **params: Any) -> list[Object]:
    times = {"start_ts": 0, "end_ts": int(venue.now.timestamp()), **params}
    return venue.get(f"/series/{market.series_ticker}/markets/{market.ticker}/candlesticks", period_interval=period, **times)[
        "candlesticks"
    ]


def amounts(parts: list[Object], side: str, name: str) -> list[Decimal]:
    return [Decimal(part[side][name]) for part in parts if part[side].get(name) is not None]


@pytest.mark.parametrize(("short", "long"), [(1, 60), (60, 1440), (1, 1440)])
def test_long_candles_are_made_of_the_short_ones(venue: Any, live: list[Market], short: int, long: int) -> None:
    for market in live[:25]:
        parts, seconds = candles(venue, market, short), long * 60
        for candle in candles(venue, market, long):
            within = [part for part in parts if candle["end_period_ts"] - seconds < part["end_period_ts"] <= candle["end_period_ts"]]
            assert within
            assert Decimal(candle["volume_fp"]) == sum(Decimal(part["volume_fp"]) for part in within)
            assert candle["open_interest_fp"] == within[-1]["open_interest_fp"]
            for side in ("yes_bid", "yes_ask"):
                assert candle[side]["close_dollars"] == within[-1][side]["close_dollars"]
                assert Decimal(candle[side]["high_dollars"]) == max(amounts(within, side, "high_dollars"))
                assert Decimal(candle[side]["low_dollars"]) == min(amounts(within, side, "low_dollars"))
                assert candle[side]["open_dollars"] == within[0][side]["open_dollars"]
            traded = [part for part in within if "open_dollars" in part["price"]]
            assert ("open_dollars" in candle["price"]) == bool(traded)
            if traded:
                assert candle["price"]["open_dollars"] == traded[0]["price"]["open_dollars"]
                assert candle["price"]["close_dollars"] == traded[-1]["price"]["close_dollars"]
                assert Decimal(candle["price"]["high_dollars"]) == max(amounts(traded, "price", "high_dollars"))
                assert Decimal(candle["price"]["low_dollars"]) == min(amounts(traded, "price", "low_dollars"))


def test_candles_and_the_market_object_agree(venue: Any, live: list[Market]) -> None:
    for market in live[:60]:
        wire = venue.get(f"/markets/{market.ticker}")["market"]
        series = candles(venue, market, 60)
        assert sum(Decimal(candle["volume_fp"]) for candle in series) == Decimal(wire["volume_fp"])
        closes = [candle["price"]["close_dollars"] for candle in series if "close_dollars" in candle["price"]]
        assert wire["last_price_dollars"] == (closes[-1] if closes else "0.0000")


def test_the_previous_price_is_the_last_trade_before_the_candle(venue: Any, live: list[Market]) -> None:
    for market in live[:40]:
        last = None
        for candle in candles(venue, market, 60):
            assert candle["price"].get("previous_dollars") == last
            last = candle["price"].get("close_dollars", last)


def test_illiquid_markets_have_gaps_and_candles_without_trades(venue: Any, live: list[Market]) -> None:
    thin = [market for market in live if 0 < market.trading.trades < 0.01]
    assert thin
    series = [candles(venue, market, 60) for market in thin]
    assert any("close_dollars" not in candle["price"] for one in series for candle in one)
    assert any(later["end_period_ts"] - earlier["end_period_ts"] > 3600 for one in series for earlier, later in pairwise(one))
    assert any(
        candle["yes_bid"]["close_dollars"] == "0.0000" or candle["yes_ask"]["close_dollars"] == "1.0000" for one in series for candle in one
    )


def test_the_batch_answers_like_the_single_route(venue: Any, live: list[Market]) -> None:
    chosen = live[:20]
    params = {"start_ts": (chosen[0].life.closes - 3 * DAY) // SECOND, "end_ts": int(venue.now.timestamp()), "period_interval": 60}
    batch = venue.get("/markets/candlesticks", market_tickers=",".join(market.ticker for market in chosen), **params)["markets"]
    assert [one["market_ticker"] for one in batch] == [market.ticker for market in chosen]
    for one, market in zip(batch, chosen, strict=True):
        assert one["candlesticks"] == candles(venue, market, 60, start_ts=params["start_ts"])


def test_archived_candles_are_the_live_ones_without_suffixes(world: GeneratedWorld, venue: Any, at: Any) -> None:
    tickers = [market["ticker"] for market in venue.all("/historical/markets", mve_filter="exclude", limit=1000)]
    market = world.market(max(tickers, key=lambda ticker: world.market(ticker).trading.trades))
    then = at(venue.now - timedelta(days=80))
    assert market.life.settled < to_instant(then.now), "settled, and not yet archived then"
    params = {"start_ts": 0, "end_ts": int(venue.now.timestamp()), "period_interval": 60}
    path = f"/series/{market.series_ticker}/markets/{market.ticker}/candlesticks"
    before = then.get(path, **params)["candlesticks"]
    assert venue.status(path, **params)[0] == 404
    after = venue.get(f"/historical/markets/{market.ticker}/candlesticks", **params)["candlesticks"]
    assert len(after) == len(before) > 10
    for old, new in zip(before, after, strict=True):
        assert set(new) == {"end_period_ts", "yes_bid", "yes_ask", "price", "volume", "open_interest"}
        assert set(new["price"]) == {"open", "low", "high", "close", "mean", "previous"}
        assert new["volume"] == old["volume_fp"]
        assert new["price"]["close"] == old["price"].get("close_dollars")
        assert new["yes_bid"] == {name.removesuffix("_dollars"): value for name, value in old["yes_bid"].items()}


@pytest.mark.parametrize("changes", [{"period_interval": 5}, {"start_ts": 200}, {"end_ts": ""}, {"market_tickers": ""}])
def test_candle_requests_without_sense_are_refused(venue: Any, changes: dict[str, Any]) -> None:
    asked = {"market_tickers": "KXA", "start_ts": 0, "end_ts": 100, "period_interval": 60, **changes}
    assert venue.status("/markets/candlesticks", **asked)[0] == 400
