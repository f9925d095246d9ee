"""The generated world: the same for the same seed, exact probabilities, nearly efficient quotes, and nothing from the future of the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cache

import orjson
import pytest

from bellwether.errors import ConfigError
from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.listing import EARLIEST_END, LATEST_END
from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.resolution import HALF, LATEST_RESOLUTION, YES, ResolutionStep
from bellwether.sandbox.polymarket.wire import build_book, build_clob_market, build_event, build_prices
from bellwether.sandbox.polymarket.wire import build_market as build_listed
from bellwether.sandbox.timestamps import DAY, HOUR, midnight, to_datetime, to_instant
from bellwether.sandbox.world.candles import build_candles
from bellwether.sandbox.world.events import LATEST_SETTLEMENT, LONGEST_LIFE
from bellwether.sandbox.world.model import FIRST_DAY, Market, WorldEvent
from bellwether.sandbox.world.tape import DOLLAR, GRIDS

#: The days before the sandbox's present.
RECENT = range(540, 640)


@cache
def world() -> GeneratedWorld:
    """Return one world for all tests, which draws its days when they are needed."""
    return GeneratedWorld(7)


@cache
def polymarket() -> GeneratedPolymarket:
    return GeneratedPolymarket(world())


def events(days: range = RECENT) -> list[WorldEvent]:
    return [event for home in days for event in world().day(home)]


def markets(days: range = RECENT) -> list[Market]:
    return [market for event in events(days) for market in event.markets]


def listed(days: range = RECENT) -> list[tuple[ListedEvent, ListedMarket]]:
    return [(event, market) for home in days for event in polymarket().day(home) for market in event.markets]


# --- determinism ---------------------------------------------------------------------------------------------------


def test_the_order_of_drawing_does_not_matter() -> None:
    first, second = GeneratedWorld(3), GeneratedWorld(3)
    days = [[each.day(home) for home in order] for each, order in ((first, range(3)), (second, range(2, -1, -1)))]
    found = [
        {
            market.ticker: build_candles(market.tape(), 60, 0, market.life.final)
            for day in drawn
            for event in day
            for market in event.markets
        }
        for drawn in days
    ]
    assert found[0] == found[1]
    assert {ticker: first.body(first.market(ticker), DAY * 20_300) for ticker in found[0]} == {
        ticker: second.body(second.market(ticker), DAY * 20_300) for ticker in found[0]
    }


def test_other_seeds_make_other_worlds_and_a_negative_seed_is_refused() -> None:
    tickers = [{market.ticker for event in GeneratedWorld(seed).day(5) for market in event.markets} for seed in (3, 4)]
    assert tickers[0].isdisjoint(tickers[1])
    with pytest.raises(ConfigError):
        GeneratedWorld(-1)


def test_tickers_and_ids_name_one_market_and_do_not_reveal_its_day() -> None:
    everything = markets()
    assert len({market.ticker for market in everything}) == len(everything)
    assert all(world().market(market.ticker) is market for market in everything)
    assert all(world().event(event.ticker) is event for event in events())
    for _, market in listed():
        assert all(polymarket().listed(name) is market for name in (market.id, market.condition_id, *market.tokens))
    assert [world().market(name) for name in ("KXNONE", "KXNONE-ABCD", "KXHIGHNYC-26OCT01-T5", "")] == [None] * 4
    assert [polymarket().listed(name) for name in ("", "7", "9" * 77, "0x" + "1" * 64, "no")] == [None] * 5
    for order in ([event.key[1] for event in events()], [int(event.id) for home in RECENT for event in polymarket().day(home)]):
        later = [first < second for first, second in zip(order, order[20:], strict=False)]
        assert 0.3 < sum(later) / len(later) < 0.7


# --- quotes --------------------------------------------------------------------------------------------------------


def test_quotes_have_both_sides_on_the_grid_with_depth_at_all_times() -> None:
    for market in markets(range(600, 620)):
        tape, ranges = market.tape(), GRIDS[market.trading.grid]
        lowest = ranges[0][2]
        assert (tape.bid < tape.ask).all()
        assert tape.bid.min() >= lowest
        assert tape.ask.max() <= DOLLAR - lowest
        assert min(tape.bid_size.min(), tape.ask_size.min()) > 0
        for prices in (tape.bid, tape.ask):
            assert all(any(start <= price <= end and (price - start) % step == 0 for start, end, step in ranges) for price in set(prices))
    for _, other in listed(range(610, 616)):
        for at in (other.opens, other.answered - 1, other.answered, other.closes - 1):
            for side in other.levels(at):
                assert len(side) >= 2 or side[0][1] > 100_000
    assert [other.levels(other.closes) for _, other in listed(range(610, 611))] == [([], [])] * len(listed(range(610, 611)))


# --- ends ----------------------------------------------------------------------------------------------------------


def test_markets_end_in_all_the_ways_of_the_venues() -> None:
    everything = markets(range(340, 640))
    results = [market.determination.result for market in everything]
    assert set(results) == {"yes", "no", "scalar", "void"}
    lives = [market.life for market in everything]
    assert any(life.disputed is not None for life in lives)
    assert any(life.corrected is not None for life in lives)
    assert any(life.settled - life.closes > 14 * DAY for life in lives)
    assert any(life.scheduled > life.closes for life in lives)
    assert any(to_datetime(life.scheduled).year == 2099 for life in lives)
    for market in everything:
        life = market.life
        if life.corrected is not None:
            before, after = market.determined(life.corrected - 1), market.determined(life.corrected)
            assert before is not None
            assert after is market.determination
            assert {before.result, after.result} == {"yes", "no"}
            assert (life.settlement(life.corrected - 1), life.settlement(life.corrected)) == (life.settled, life.corrected)
    theirs = [market for _, market in listed(range(340, 640))]
    words = [tuple(step.status for step in market.steps) for market in theirs]
    assert {status.count("disputed") for status in words} == {0, 1, 2}
    assert any(status.count("resolved") == 2 for status in words), "corrected"
    assert any(market.steps[-1].at - market.steps[-2].at < 6 * HOUR for market in theirs if market.steps[-2].final)
    assert any(market.closes - market.answered > 7 * DAY for market in theirs)
    assert any(market.closed(step.at) and not step.final for market in theirs for step in market.steps)
    assert {market.is_v2 for market in theirs} == {False}
    assert {market.is_v2 for _, market in listed(range(690, 694))} == {False, True}
    for _, other in listed(range(340, 640)):
        assert other.truth in (HALF, YES if other.claim.pays else 0)


def test_the_bounds_that_listings_rely_on_hold() -> None:
    for home in range(0, 640, 4):
        begin = midnight(FIRST_DAY) + home * DAY
        for event in world().day(home):
            life = event.markets[0].life
            assert begin <= life.closes < begin + DAY
            assert life.created >= begin - LONGEST_LIFE * DAY
            assert life.created < life.opens < life.closes < life.determined < life.settled <= life.final
            assert life.final < begin + LATEST_SETTLEMENT * DAY
        for theirs in polymarket().day(home):
            for other in theirs.markets:
                assert [step.at for step in other.steps] == sorted({step.at for step in other.steps})
                assert other.answered < other.closes < begin + LATEST_RESOLUTION * DAY
                assert other.ends is None or begin - EARLIEST_END * DAY <= other.ends < begin + LATEST_END * DAY


# --- the future of the clock ---------------------------------------------------------------------------------------


def test_kalshis_objects_reveal_nothing_of_the_future() -> None:
    for market in markets(range(560, 600))[::5]:
        life = market.life
        marks = (life.created, life.opens, life.closes, life.determined, life.disputed, life.settled, life.corrected)
        for now in (mark + shift for mark in marks if mark is not None for shift in (-1, 0)):
            body, past = orjson.loads(world().body(market, now)), market.determined(now)
            assert body["result"] == (past.result if past else "")
            assert ("settlement_value_dollars" in body) == bool(past and past.value is not None)
            assert ("settlement_ts" in body) == (now >= life.settled)
            assert body["close_time"] >= to_datetime(life.closes).isoformat()[:19]
            assert now < life.created or datetime.fromisoformat(body["updated_time"]) <= to_datetime(now)
            if now < life.closes:
                assert body["close_time"] == market.terms["expected_expiration_time"] or to_instant(
                    datetime.fromisoformat(body["close_time"])
                ) == (life.scheduled)
            assert (body["yes_bid_dollars"] == "0.0000") == (not life.opens <= now < life.closes)


def otherwise(market: ListedMarket, now: int) -> ListedMarket:
    """Return the same market with another future: unchanged from now on, and closed months later."""
    known = tuple(step for step in market.steps if step.at <= now)
    return replace(market, steps=(*known, ResolutionStep(now + 90 * DAY, "resolved", (), market.truth, True)))


def test_polymarkets_objects_reveal_nothing_of_the_future() -> None:
    compared = 0
    for event, market in listed(range(570, 600))[::11]:
        for at in (market.created, market.opens, market.answered, *(step.at for step in market.steps)):
            for now in (at - 1, at):
                other = otherwise(market, now)
                if now >= market.closes and len(market.steps) == 2:
                    continue
                seen = [
                    (
                        build_listed(one, event, now),
                        build_clob_market(one, event, now),
                        build_book(one, event, 0, now),
                        build_prices(one, 1, 0, now, HOUR),
                    )
                    for one in (market, other)
                ]
                assert seen[0] == seen[1]
                body = build_event(event, now)
                times = [seen[0][0]["updatedAt"], seen[0][0].get("umaEndDate"), seen[0][0].get("closedTime"), body.get("closedTime")]
                assert now < market.created or all(datetime.fromisoformat(text) <= to_datetime(now) for text in times if text)
                compared += 1
    assert compared > 80


def test_candles_end_by_the_clock_and_are_never_rewritten_and_agree_at_every_period() -> None:
    for market in markets(range(620, 630))[::4]:
        tape, life = market.tape(), market.life
        hours = build_candles(tape, 60, 0, life.final)
        assert build_candles(tape, 60, 0, (life.opens + life.closes) // 2) == [
            candle for candle in hours if candle["end_period_ts"] * 1_000_000 <= (life.opens + life.closes) // 2
        ]
        for day in build_candles(tape, 1440, 0, life.final):
            within = [hour for hour in hours if day["end_period_ts"] - 86_400 < hour["end_period_ts"] <= day["end_period_ts"]]
            assert float(day["volume_fp"]) == pytest.approx(sum(float(hour["volume_fp"]) for hour in within))
            assert day["yes_bid"]["close_dollars"] == within[-1]["yes_bid"]["close_dollars"]
            assert day["yes_ask"]["high_dollars"] == max(hour["yes_ask"]["high_dollars"] for hour in within)
            traded = [hour["price"] for hour in within if "close_dollars" in hour["price"]]
            assert [day["price"].get("open_dollars"), day["price"].get("close_dollars")] == (
                [traded[0]["open_dollars"], traded[-1]["close_dollars"]] if traded else [None, None]
            )
