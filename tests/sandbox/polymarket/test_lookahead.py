"""No output of Polymarket depends on the time after the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from bellwether.sandbox.polymarket import clob_wire, wire
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.listing import EARLIEST_CREATION, EARLIEST_END, LATEST_END, Listing
from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.resolution_steps import LATEST_CORRECTION, LATEST_RESOLUTION, ResolutionStep
from bellwether.sandbox.polymarket.source import ListingFilter, PriceTimes
from bellwether.sandbox.timestamps import DAY, HOUR, SECOND, midnight, to_datetime
from bellwether.sandbox.world.model import FIRST_DAY, to_day_number

SEED = 11


@pytest.fixture(scope="module")
def pairs(listing: Listing) -> list[tuple[ListedEvent, ListedMarket]]:
    """Markets of two months with their events, and every disputed or corrected market of half a year."""
    early = [(event, market) for home in range(40, 100) for event in listing.day(home) for market in event.markets]
    rare = [(event, market) for home in range(180) for event in listing.day(home) for market in event.markets if len(market.steps) > 2]
    return early[::25] + rare[::3]


def moments(market: ListedMarket) -> list[int]:
    """Return instants around every step of a market."""
    marks = [market.created, market.opens, market.answered, *(step.at for step in market.steps)]
    return sorted({mark + shift for mark in marks for shift in (-1, 0)} | {(market.opens + market.answered) // 2})


def otherwise(market: ListedMarket, now: int) -> ListedMarket:
    """Return the same market with another future: unchanged from now on, and closed months later."""
    known = tuple(step for step in market.steps if step.at <= now)
    value = market.truth if market.truth is not None else 1000 if market.claim.pays else 0
    return replace(market, steps=(*known, ResolutionStep(now + 90 * DAY, "resolved", (), value, True)))


def visible_data(event: ListedEvent, market: ListedMarket, ids: Any, now: int) -> tuple[Any, ...]:
    """Return all data about a market that clients can see."""
    book = clob_wire.build_book(market, event, 0, SEED, now)
    return (
        wire.build_market(market, event, ids, wire.compute_figures(market, SEED, now), now),
        clob_wire.build_market(market, event, ids, now),
        book.body() if book else None,
        clob_wire.compute_prices(market, 1, PriceTimes(0, now + DAY, HOUR), now),
    )


def test_another_future_shows_the_same_present(listing: Listing, pairs: list[tuple[ListedEvent, ListedMarket]]) -> None:
    compared = 0
    for event, market in pairs:
        for now in moments(market):
            if now >= market.created and (now < market.closes or len(market.steps) > 2):
                assert visible_data(event, market, listing.ids, now) == visible_data(event, otherwise(market, now), listing.ids, now)
                compared += 1
    assert compared > 200


def test_no_time_of_a_change_lies_ahead_of_the_clock(
    polymarket: GeneratedPolymarket, pairs: list[tuple[ListedEvent, ListedMarket]]
) -> None:
    import orjson

    for _, market in pairs:
        for now in moments(market):
            row = next(polymarket.markets(ListingFilter(ids=frozenset((market.id,))), now), None)
            assert (row is not None) == (now >= market.created)
            if row is None:
                assert polymarket.clob_market(market.condition_id, now) is None
                assert polymarket.prices(market.tokens[0], PriceTimes(0, now, HOUR), now) == []
                continue
            body = orjson.loads(row.body())
            times = [body["updatedAt"], body["createdAt"], *(body[name] for name in ("closedTime", "umaEndDate") if name in body)]
            inner = body["events"][0]
            times += [inner["updatedAt"], inner["createdAt"], *([inner["closedTime"]] if "closedTime" in inner else [])]
            assert all(datetime.fromisoformat(text) <= to_datetime(now) for text in times)
            assert body["closed"] == row.closed == ("closedTime" in body)


def test_the_bounds_that_listings_rely_on_hold(listing: Listing) -> None:
    for home in range(0, 600, 3):
        begin = midnight(FIRST_DAY) + home * DAY
        for event in listing.day(home):
            assert event.created >= begin - EARLIEST_CREATION * DAY
            for market in event.markets:
                assert market.created >= event.created
                assert market.closes >= market.answered
                assert [step.at for step in market.steps] == sorted({step.at for step in market.steps})
                assert market.closes < market.answered + LATEST_RESOLUTION * DAY
                assert event.final < market.closes + (LATEST_RESOLUTION + LATEST_CORRECTION) * DAY
                assert market.closes < begin + (LATEST_RESOLUTION + 1) * DAY
                assert market.ends is None or begin - EARLIEST_END * DAY <= market.ends < begin + LATEST_END * DAY


def test_ids_and_places_do_not_tell_when_a_question_is_answered(listing: Listing) -> None:
    events = [event for home in range(200, 400) for event in listing.day(home)]
    numbers = [int(event.markets[0].id) for event in events]
    later = sum(first < second for first, second in zip(numbers, numbers[20:], strict=False)) / (len(numbers) - 20)
    assert 0.3 < later < 0.7
    days = [-event.key[0] for event in events]
    assert all((to_day_number(event.created), int(event.id)) == (day, event.key[1]) for event, day in zip(events, days, strict=True))


def test_books_end_with_the_close(at: Any, markets: list[ListedMarket]) -> None:
    for market in markets[::150]:
        before, after = at(to_datetime(market.closes - SECOND)), at(to_datetime(market.closes))
        assert before.get("/clob/book", token_id=market.tokens[0])["asset_id"] == market.tokens[0]
        assert after.refused("/clob/book", token_id=market.tokens[0])[0] == 404
        assert before.get(f"/gamma/markets/{market.id}")["closed"] is False
        assert after.get(f"/gamma/markets/{market.id}")["closed"] is True
