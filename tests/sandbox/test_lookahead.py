"""No response depends on the time after the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import orjson
import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.source import ListingFilter
from bellwether.sandbox.timestamps import DAY, HOUR, format_time, to_datetime, to_instant
from bellwether.sandbox.world.model import Market, to_day_number

ORDER = ["initialized", "active", "closed", "determined", "disputed", "finalized"]


@pytest.fixture(scope="module")
def markets(world: GeneratedWorld) -> list[Market]:
    """Markets of two months, including combos."""
    return [market for home in range(60, 120) for event in world.day(home).events for market in event.markets]


def body(world: GeneratedWorld, market: Market, now: int) -> dict[str, Any] | None:
    """Return the market as served, or None if it does not exist yet."""
    row = next(world.markets(ListingFilter(tickers=(market.ticker,)), now), None)
    return orjson.loads(row.body()) if row else None


def moments(market: Market) -> list[int]:
    """Return instants around every step of a market."""
    life = market.life
    marks = [
        life.created,
        life.opens,
        life.closes - 3 * HOUR,
        life.closes,
        life.determined,
        life.disputed,
        life.settled,
        life.settled + 2 * DAY,
    ]
    return sorted(mark + shift for mark in marks if mark is not None for shift in (-1, 0))


def test_results_are_empty_until_determined_and_settlements_until_settled(world: GeneratedWorld, markets: list[Market]) -> None:
    for market in markets[::7]:
        for now in moments(market):
            wire = body(world, market, now)
            if wire is None:
                assert now < market.life.created
                continue
            determined, settled = now >= market.life.determined, now >= market.life.settled
            assert wire["result"] == (market.determination.result if determined else "")
            assert wire["expiration_value"] == (market.determination.expiration_value if determined else "")
            assert ("settlement_value_dollars" in wire) == (determined and market.determination.value is not None)
            assert ("settlement_ts" in wire) == settled


def test_no_time_of_a_change_lies_ahead_of_the_clock(world: GeneratedWorld, markets: list[Market]) -> None:
    for market in markets[::7]:
        for now in moments(market):
            wire = body(world, market, now)
            if wire is not None:
                assert datetime.fromisoformat(wire["updated_time"]) <= to_datetime(now)
                assert datetime.fromisoformat(wire["created_time"]) <= to_datetime(now)


def test_states_follow_each_other(world: GeneratedWorld, markets: list[Market]) -> None:
    seen = set()
    for market in markets:
        states = [market.life.status(now) for now in moments(market) if now >= market.life.created]
        assert [ORDER.index(state) for state in states] == sorted(ORDER.index(state) for state in states)
        assert states[-1] == "finalized"
        seen |= set(states)
    assert seen == set(ORDER)


def test_an_open_market_announces_its_scheduled_close_and_a_closed_one_its_real_close(world: GeneratedWorld, markets: list[Market]) -> None:
    early = [market for market in markets if market.life.scheduled > market.life.closes]
    assert early
    for market in early:
        assert market.terms["can_close_early"]
        before, after = body(world, market, market.life.closes - 1), body(world, market, market.life.closes)
        assert before and before["close_time"] == format_time(market.life.scheduled)
        assert after and after["close_time"] == format_time(market.life.closes)


def test_the_book_is_wiped_at_the_close(world: GeneratedWorld, markets: list[Market]) -> None:
    for market in markets[::5]:
        wire = body(world, market, market.life.closes)
        assert wire is not None
        assert (wire["yes_bid_dollars"], wire["yes_ask_dollars"], wire["no_bid_dollars"], wire["no_ask_dollars"]) == (
            "0.0000",
            "1.0000",
        ) * 2
        assert (wire["yes_bid_size_fp"], wire["yes_ask_size_fp"]) == ("0.00", "0.00")


def test_candles_end_by_the_clock_and_are_never_rewritten(world: GeneratedWorld, markets: list[Market]) -> None:
    for market in markets[::11]:
        life = market.life
        whole = world.candles(market.ticker, 60, 0, life.settled, life.settled) or []
        for now in (life.opens + HOUR, (life.opens + life.closes) // 2, life.closes):
            seen = world.candles(market.ticker, 60, 0, life.settled, now) or []
            assert all(candle["end_period_ts"] * 1_000_000 <= now for candle in seen)
            assert seen == whole[: len(seen)]


def test_nothing_is_listed_before_it_is_created(at: Callable[[datetime], Any], world: GeneratedWorld) -> None:
    now = datetime(2025, 4, 1, 9, tzinfo=UTC)
    venue, limit = at(now), to_instant(now)
    hidden = [event for home in range(92, 160) for event in world.day(home).events if event.created > limit]
    assert hidden
    listed = {market["ticker"] for market in venue.all("/markets", limit=1000)}
    events = {event["event_ticker"] for event in venue.all("/events")}
    for event in hidden:
        assert event.ticker not in events
        assert venue.get("/events", tickers=event.ticker)["events"] == []
        assert not listed & {market.ticker for market in event.markets}
        assert venue.status(f"/markets/{event.markets[0].ticker}")[0] == 404


def test_places_in_listings_do_not_tell_when_an_event_ends(world: GeneratedWorld) -> None:
    events = [event for home in range(200, 330) for event in world.day(home).events]
    assert all(event.key[0] in (-to_day_number(event.created), 1 - to_day_number(event.created)) for event in events)
    assert len({event.key for event in events}) == len(events)
    by_day: dict[int, list[int]] = {}
    for event in sorted(events, key=lambda event: event.key):
        by_day.setdefault(event.key[0], []).append(event.home)
    later = [first < second for homes in by_day.values() for first, second in pairwise(homes) if first != second]
    assert 0.4 < sum(later) / len(later) < 0.6


def test_listings_run_in_the_order_of_their_places_however_they_are_narrowed(world: GeneratedWorld) -> None:
    now = to_instant(datetime(2025, 9, 1, 9, tzinfo=UTC))
    everything = [row.key for row in world.markets(ListingFilter(), now)]
    assert everything == sorted(everything)
    narrow = (
        ListingFilter(settled_after=now - 90 * DAY),
        ListingFilter(closes=(now - 9 * DAY, now - 7 * DAY)),
        ListingFilter(settled_before=now - 200 * DAY),
    )
    for wanted in (*narrow, ListingFilter(closes=(now, None)), ListingFilter(series_ticker="KXGAMEBB")):
        rows = [row.key for row in world.markets(wanted, now)]
        assert rows
        assert [key for key in everything if key in set(rows)] == rows
        assert [row.key for row in world.markets(replace(wanted, after=rows[len(rows) // 2]), now)] == rows[len(rows) // 2 + 1 :]


def test_a_narrowed_listing_leaves_out_nothing_that_is_wanted(world: GeneratedWorld) -> None:
    now = to_instant(datetime(2025, 9, 1, 9, tzinfo=UTC))
    everything = list(world.markets(ListingFilter(), now))
    low, high = now - 20 * DAY, now - 10 * DAY
    wanted = {row.ticker for row in everything if row.closes is not None and low <= row.closes <= high}
    assert wanted <= {row.ticker for row in world.markets(ListingFilter(closes=(low, high)), now)}
    cutoff = now - 90 * DAY
    live = {row.ticker for row in everything if row.settled is None or row.settled >= cutoff}
    assert live <= {row.ticker for row in world.markets(ListingFilter(settled_after=cutoff), now)}
    archived = {row.ticker for row in everything if row.settled is not None and row.settled < cutoff}
    assert archived <= {row.ticker for row in world.markets(ListingFilter(settled_before=cutoff), now)}


def test_tickers_of_deadlines_do_not_tell_the_day_on_which_they_close(world: GeneratedWorld, markets: list[Market]) -> None:
    early = [market for market in markets if market.life.scheduled - market.life.closes > 20 * DAY and not market.is_combo]
    assert early
    for market in early:
        date = to_datetime(market.life.closes).strftime("%y%b%d").upper()
        assert date not in market.ticker
