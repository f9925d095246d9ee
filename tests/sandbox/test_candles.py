"""Candlestick routes of the sandbox: one tape seen at every period, live and archived."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.instants import DAY, SECOND, instant
from bellwether.sandbox.world.model import Market

Object = dict[str, Any]


@pytest.fixture(scope="module")
def live(world: GeneratedWorld, venue: Any) -> list[Market]:
    """Recently settled markets without combos."""
    tickers = [market["ticker"] for market in venue.all("/markets", status="settled", mve_filter="exclude", limit=1000)]
    return [world.market(ticker) for ticker in tickers[:150]]


@pytest.fixture(scope="module")
def busy(live: list[Market]) -> Market:
    """A market that trades all the time."""
    return max(live, key=lambda market: market.trading.trades * market.tape().volume[-1])


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


def test_the_mean_lies_between_low_and_high(venue: Any, busy: Market) -> None:
    bars = [candle["price"] for candle in candles(venue, busy, 60) if "mean_dollars" in candle["price"]]
    assert bars
    assert all(Decimal(bar["low_dollars"]) <= Decimal(bar["mean_dollars"]) <= Decimal(bar["high_dollars"]) for bar in bars)


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


def test_both_ends_of_the_window_are_included(venue: Any, busy: Market) -> None:
    whole = candles(venue, busy, 60)
    start, end = whole[3]["end_period_ts"], whole[7]["end_period_ts"]
    assert candles(venue, busy, 60, start_ts=start, end_ts=end) == whole[3:8]
    assert candles(venue, busy, 60, start_ts=start + 1, end_ts=end - 1) == whole[4:7]


def test_the_batch_answers_like_the_single_route(venue: Any, live: list[Market]) -> None:
    chosen = live[:20]
    params = {"start_ts": (chosen[0].life.closes - 3 * DAY) // SECOND, "end_ts": int(venue.now.timestamp()), "period_interval": 60}
    batch = venue.get("/markets/candlesticks", market_tickers=",".join(market.ticker for market in chosen), **params)["markets"]
    assert [one["market_ticker"] for one in batch] == [market.ticker for market in chosen]
    for one, market in zip(batch, chosen, strict=True):
        assert one["candlesticks"] == candles(venue, market, 60, start_ts=params["start_ts"])


def test_the_batch_leaves_unknown_and_archived_tickers_out(venue: Any, live: list[Market]) -> None:
    old = venue.get("/historical/markets", limit=1)["markets"][0]["ticker"]
    params = {"start_ts": 0, "end_ts": int(venue.now.timestamp()), "period_interval": 1440}
    batch = venue.get("/markets/candlesticks", market_tickers=f"{old},{live[0].ticker},KXNOSUCH-25JAN01", **params)["markets"]
    assert [one["market_ticker"] for one in batch] == [live[0].ticker]


def test_a_batch_beyond_its_bounds_is_refused(venue: Any, live: list[Market]) -> None:
    params = {"start_ts": 0, "end_ts": int(venue.now.timestamp()), "period_interval": 1}
    status, body = venue.status("/markets/candlesticks", market_tickers=",".join(f"KX{number}" for number in range(101)), **params)
    assert (status, "too many market_tickers" in body["error"]["details"]) == (400, True)
    status, body = venue.status("/markets/candlesticks", market_tickers=",".join(market.ticker for market in live[:100]), **params)
    assert (status, "too many candlesticks" in body["error"]["details"]) == (400, True)
    assert len(venue.get("/markets/candlesticks", market_tickers=",".join(f"KX{n}" for n in range(100)), **params)["markets"]) == 0


def test_archived_candles_are_the_live_ones_without_suffixes(world: GeneratedWorld, venue: Any, at: Any) -> None:
    tickers = [market["ticker"] for market in venue.all("/historical/markets", mve_filter="exclude", limit=1000)]
    market = world.market(max(tickers, key=lambda ticker: world.market(ticker).trading.trades))
    then = at(venue.now - timedelta(days=80))
    assert market.life.settled < instant(then.now), "settled, and not yet archived then"
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


def test_a_live_market_has_no_historical_candles(venue: Any, live: list[Market]) -> None:
    params = {"start_ts": 0, "end_ts": 1, "period_interval": 60}
    assert venue.status(f"/historical/markets/{live[0].ticker}/candlesticks", **params)[0] == 404


def test_the_state_before_the_start_is_carried_into_a_synthetic_candle(venue: Any, busy: Market) -> None:
    whole = candles(venue, busy, 60)
    start = whole[5]["end_period_ts"] + 1
    first, *rest = candles(venue, busy, 60, start_ts=start, include_latest_before_start="true")
    assert rest == whole[6:]
    assert first["end_period_ts"] == whole[5]["end_period_ts"] + 3600
    assert first["volume_fp"] == "0.00"
    assert first["price"]["previous_dollars"] == whole[5]["price"]["close_dollars"]
    assert {first["price"][f"{name}_dollars"] for name in ("open", "high", "low", "close", "mean")} == {None}
    assert set(first["yes_bid"].values()) == {whole[5]["yes_bid"]["close_dollars"]}


def test_there_is_nothing_to_carry_before_the_first_candle(venue: Any, busy: Market) -> None:
    whole = candles(venue, busy, 60)
    assert candles(venue, busy, 60, start_ts=0, include_latest_before_start="true") == whole


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"start_ts": 0, "end_ts": 1}, "period_interval"),
        ({"start_ts": 0, "end_ts": 1, "period_interval": 5}, "period_interval"),
        ({"end_ts": 1, "period_interval": 60}, "missing start_ts"),
        ({"start_ts": 0, "period_interval": 60}, "missing end_ts"),
        ({"start_ts": 2, "end_ts": 1, "period_interval": 60}, "after"),
    ],
)
def test_candle_requests_without_sense_are_refused(venue: Any, live: list[Market], params: Object, words: str) -> None:
    for path in (f"/series/{live[0].series_ticker}/markets/{live[0].ticker}/candlesticks", "/markets/candlesticks"):
        status, body = venue.status(path, market_tickers=live[0].ticker, **params)
        assert status == 400
        assert words in body["error"]["details"]


def test_a_batch_without_tickers_is_refused(venue: Any) -> None:
    status, body = venue.status("/markets/candlesticks", start_ts=0, end_ts=1, period_interval=60)
    assert (status, body["error"]["details"]) == (400, "missing market_tickers")


def test_the_series_in_the_path_must_be_the_markets(venue: Any, live: list[Market]) -> None:
    params = {"start_ts": 0, "end_ts": 1, "period_interval": 60}
    assert venue.status(f"/series/KXOTHER/markets/{live[0].ticker}/candlesticks", **params)[0] == 404
