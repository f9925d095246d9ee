"""Listings of the Kalshi routes: filters, paging, refusals and the live/historical split."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.params import STATUSES
from bellwether.sandbox.timestamps import to_instant
from tests.sandbox.conftest import closing

Object = dict[str, Any]


def ts(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture(scope="module")
def live(venue: Any) -> list[Object]:
    """The whole live listing, in pages of a thousand."""
    return venue.all("/markets", limit=1000)


@pytest.fixture(scope="module")
def archived(venue: Any) -> list[Object]:
    """The whole historical listing."""
    return venue.all("/historical/markets", limit=1000)


@pytest.fixture(scope="module")
def cutoff(venue: Any) -> float:
    return ts(venue.get("/historical/cutoff")["market_settled_ts"])


def tickers(objects: list[Object]) -> list[str]:
    return [one["ticker"] for one in objects]


# --- the split -----------------------------------------------------------------------------------------------------


def test_live_and_historical_together_are_the_settled_world_once_each(
    world: GeneratedWorld, venue: Any, live: list[Object], archived: list[Object]
) -> None:
    now = to_instant(venue.now)
    settled = {
        market.ticker for home in range(240) for event in world.day(home).events for market in event.markets if market.life.settled <= now
    }
    listed = [ticker for ticker in tickers(live) if ticker in settled] + tickers(archived)
    assert len(archived) > 500
    assert len(listed) == len(set(listed))
    assert set(listed) == settled


def test_markets_settled_before_the_cutoff_are_only_historical(live: list[Object], archived: list[Object], cutoff: float) -> None:
    assert all(ts(market["settlement_ts"]) >= cutoff for market in live if "settlement_ts" in market)
    assert all(ts(market["settlement_ts"]) < cutoff for market in archived)
    assert not set(tickers(live)) & set(tickers(archived))


def test_events_stay_when_their_markets_are_archived(venue: Any, archived: list[Object], live: list[Object]) -> None:
    remaining = {market["event_ticker"] for market in live}
    gone = next(market for market in archived if market["event_ticker"] not in remaining and not market["ticker"].startswith("KXMVE"))
    listed = venue.get("/events", tickers=gone["event_ticker"], with_nested_markets="true")["events"]
    assert [event["markets"] for event in listed] == [[]]


# --- paging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/markets", {"status": "settled", "mve_filter": "exclude", "min_close_ts": 1749600000}),
        ("/markets", {"status": "open", "mve_filter": "only"}),
        ("/historical/markets", {"series_ticker": "KXGAMEBB"}),
        ("/events", {"status": "open", "with_nested_markets": "true"}),
    ],
)
def test_tiny_pages_add_up_to_one_big_page(venue: Any, path: str, params: Object) -> None:
    name = "events" if path == "/events" else "markets"
    whole = venue.get(path, **params, limit=200 if path == "/events" else 1000)
    assert whole["cursor"] == ""
    assert len(whole[name]) > 3
    assert venue.all(path, **params, limit=3) == whole[name]


# --- filters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, "closed"])
def test_timestamp_filters_keep_what_lies_strictly_between(venue: Any, live: list[Object], status: str | None) -> None:
    low, high = int(ts("2025-06-01T00:00:00Z")), int(ts("2025-06-14T12:00:00Z"))
    expected = [
        market["ticker"]
        for market in live
        if low < ts(market["close_time"]) < high and (status is None or market["status"] in STATUSES[status])
    ]
    params = {"min_close_ts": low, "max_close_ts": high, "limit": 1000, **({"status": status} if status else {})}
    assert tickers(venue.all("/markets", **params)) == expected != []


def test_a_day_of_closes_holds_every_market_that_closed_on_it(world: GeneratedWorld, venue: Any) -> None:
    day = datetime(2025, 6, 10, tzinfo=UTC)
    found = venue.all(
        "/markets",
        min_close_ts=int(day.timestamp()) - 1,
        max_close_ts=int((day + timedelta(days=1)).timestamp()),
        mve_filter="exclude",
        limit=1000,
    )
    assert set(tickers(found)) == set(closing(world, day.date()))


def test_ticker_filters_keep_what_they_name(venue: Any, live: list[Object]) -> None:
    some = live[10]
    assert tickers(venue.all("/markets", tickers=f"{some['ticker']},KXNOSUCH-25JAN01-X", limit=10)) == [some["ticker"]]
    siblings = [market["ticker"] for market in live if market["event_ticker"] == some["event_ticker"]]
    assert tickers(venue.all("/markets", event_ticker=some["event_ticker"])) == siblings
    series = venue.get("/events", tickers=some["event_ticker"])["events"][0]["series_ticker"]
    assert some["ticker"] in tickers(venue.all("/markets", series_ticker=series, limit=1000))
    assert all(market["ticker"].startswith(series) for market in venue.all("/markets", series_ticker=series, limit=1000))


def test_combos_are_chosen_or_left_out(venue: Any, live: list[Object]) -> None:
    only, without = venue.all("/markets", mve_filter="only", limit=1000), venue.all("/markets", mve_filter="exclude", limit=1000)
    assert only and without
    assert all(market["mve_collection_ticker"] and market["mve_selected_legs"] for market in only)
    assert not any("mve_selected_legs" in market for market in without)
    assert sorted(tickers(only) + tickers(without)) == sorted(tickers(live))


@pytest.mark.parametrize("word", ["unopened", "open", "closed", "settled"])
def test_an_event_matches_a_status_if_any_of_its_markets_does(world: GeneratedWorld, venue: Any, word: str) -> None:
    now = to_instant(venue.now)
    expected = {
        event.ticker
        for home in range(240)
        for event in world.day(home).events
        if not event.is_combo and any(market.life.created <= now and market.life.status(now) in STATUSES[word] for market in event.markets)
    }
    assert {event["event_ticker"] for event in venue.all("/events", status=word)} == expected


def test_events_filter_by_close_and_series(venue: Any) -> None:
    low = int(ts("2025-06-14T00:00:00Z"))
    nested = venue.all("/events", with_nested_markets="true", min_close_ts=low)
    assert nested
    assert all(any(ts(market["close_time"]) > low for market in event["markets"]) for event in nested)
    series = nested[0]["series_ticker"]
    assert {event["series_ticker"] for event in venue.all("/events", series_ticker=series)} == {series}


def test_nested_markets_are_the_same_objects_as_listed(venue: Any, live: list[Object]) -> None:
    by_ticker = {market["ticker"]: market for market in live}
    for event in venue.get("/events", status="open", with_nested_markets="true", limit=50)["events"]:
        for market in event["markets"]:
            assert market == by_ticker[market["ticker"]]


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "params", "status", "details"),
    [
        ("/markets", {"status": "finalized"}, 400, "invalid status filter"),
        ("/historical/markets", {"mve_filter": "only"}, 400, "invalid mve_filter filter"),
        ("/markets", {"limit": 1001}, 400, "invalid limit"),
        ("/events", {"limit": 0}, 400, "invalid limit"),
        ("/markets", {"cursor": "nonsense"}, 400, "invalid cursor"),
        ("/markets", {"min_close_ts": "yesterday"}, 400, "invalid min_close_ts"),
        ("/events", {"with_nested_markets": "maybe"}, 400, "invalid with_nested_markets"),
        ("/markets/KXNOSUCH-25JAN01-X", {}, 404, "market not found"),
    ],
)
def test_what_makes_no_sense_is_refused_in_the_venues_words(venue: Any, path: str, params: Object, status: int, details: str) -> None:
    message = {400: "bad request", 404: "not found"}[status]
    assert venue.status(path, **params) == (
        status,
        {"error": {"code": message.replace(" ", "_"), "message": message, "details": details}},
    )


def test_unknown_and_empty_parameters_are_ignored(venue: Any) -> None:
    assert venue.get("/markets", limit=3, cursor="", colour="red") == venue.get("/markets", limit=3)


@pytest.mark.parametrize("word", STATUSES)
def test_a_status_filter_returns_exactly_its_response_words(venue: Any, live: list[Object], word: str) -> None:
    found = venue.all("/markets", status=word, limit=1000)
    assert tickers(found) == [market["ticker"] for market in live if market["status"] in STATUSES[word]]
    assert found or word == "paused"


def test_open_markets_are_found_by_the_close_that_they_announce(venue: Any, live: list[Object]) -> None:
    far = int(ts("2090-01-01T00:00:00Z"))
    expected = [market["ticker"] for market in live if ts(market["close_time"]) > far]
    assert tickers(venue.all("/markets", min_close_ts=far, limit=1000)) == expected
    assert expected
