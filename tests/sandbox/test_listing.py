"""Listings of the Kalshi routes: filters, paging, refusals and the live/historical split."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.instants import instant
from bellwether.sandbox.params import STATUSES

Object = dict[str, Any]


def ts(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture(scope="module")
def live(venue: Any) -> list[Object]:
    """Everything that the live listing holds, in pages of a thousand."""
    return venue.all("/markets", limit=1000)


@pytest.fixture(scope="module")
def archived(venue: Any) -> list[Object]:
    """Everything that the historical listing holds."""
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
    now = instant(venue.now)
    settled = {
        market.ticker for home in range(240) for event in world.day(home).events for market in event.markets if market.life.settled <= now
    }
    listed = [ticker for ticker in tickers(live) if ticker in settled] + tickers(archived)
    assert len(archived) > 500
    assert len(listed) == len(set(listed))
    assert set(listed) == settled


def test_the_cutoff_is_a_midnight_ninety_days_back(venue: Any, cutoff: float) -> None:
    expected = (venue.now - timedelta(days=90)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert cutoff == expected.timestamp()


def test_markets_settled_before_the_cutoff_are_only_historical(live: list[Object], archived: list[Object], cutoff: float) -> None:
    assert all(ts(market["settlement_ts"]) >= cutoff for market in live if "settlement_ts" in market)
    assert all(ts(market["settlement_ts"]) < cutoff for market in archived)
    assert not set(tickers(live)) & set(tickers(archived))


def test_events_stay_when_their_markets_are_archived(venue: Any, archived: list[Object], live: list[Object]) -> None:
    remaining = {market["event_ticker"] for market in live}
    gone = next(market for market in archived if market["event_ticker"] not in remaining and not market["ticker"].startswith("KXMVE"))
    body = venue.get(f"/events/{gone['event_ticker']}", with_nested_markets="true")
    assert body["event"]["markets"] == []
    assert body["markets"] == []
    listed = venue.get("/events", tickers=gone["event_ticker"], with_nested_markets="true")["events"]
    assert [event["markets"] for event in listed] == [[]]


def test_an_archived_market_is_found_only_under_historical(venue: Any, archived: list[Object], live: list[Object]) -> None:
    old, new = archived[0]["ticker"], live[0]["ticker"]
    assert venue.status(f"/markets/{old}")[0] == 404
    assert venue.get(f"/historical/markets/{old}")["market"] == archived[0]
    assert venue.get("/markets", tickers=old)["markets"] == []
    assert venue.status(f"/historical/markets/{new}")[0] == 404
    assert venue.get("/historical/markets", tickers=f"{new},{old}")["markets"] == [archived[0]]


def test_events_of_all_time_are_listed(world: GeneratedWorld, venue: Any) -> None:
    now = instant(venue.now)
    expected = {event.ticker for home in range(240) for event in world.day(home).events if event.created <= now and not event.is_combo}
    listed = [event["event_ticker"] for event in venue.all("/events", limit=200)]
    assert len(listed) == len(set(listed))
    assert set(listed) == expected


# --- paging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/markets", {"status": "settled", "mve_filter": "exclude", "min_settled_ts": 1749600000}),
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


def test_the_last_page_has_an_empty_cursor_even_when_it_is_full(venue: Any) -> None:
    whole = venue.get("/markets", status="open", limit=1000)["markets"]
    page = venue.get("/markets", status="open", limit=len(whole))
    assert page["markets"] == whole
    assert page["cursor"] == ""


def test_an_empty_cursor_is_the_first_page(venue: Any) -> None:
    assert venue.get("/markets", limit=5, cursor="") == venue.get("/markets", limit=5)


def test_a_listing_pages_on_while_the_clock_moves(venue: Any, at: Any) -> None:
    first = venue.get("/markets", status="settled", limit=50)
    later = at(venue.now + timedelta(hours=6)).get("/markets", status="settled", limit=50, cursor=first["cursor"])
    assert not set(tickers(first["markets"])) & set(tickers(later["markets"]))


def test_the_default_page_has_a_hundred_markets_or_two_hundred_events(venue: Any) -> None:
    assert len(venue.get("/markets")["markets"]) == 100
    assert len(venue.get("/markets", limit=0)["markets"]) == 100
    assert len(venue.get("/events")["events"]) == 200


# --- filters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", STATUSES)
def test_a_status_filter_returns_exactly_its_response_words(venue: Any, live: list[Object], word: str) -> None:
    found = venue.all("/markets", status=word, limit=1000)
    assert tickers(found) == [market["ticker"] for market in live if market["status"] in STATUSES[word]]
    assert found or word == "paused"


@pytest.mark.parametrize(
    ("name", "time", "statuses"),
    [
        ("created", "created_time", (None, "open", "unopened")),
        ("close", "close_time", (None, "closed")),
        ("settled", "settlement_ts", (None, "settled")),
    ],
)
def test_timestamp_filters_keep_what_lies_strictly_between(
    venue: Any, live: list[Object], name: str, time: str, statuses: tuple[str | None, ...]
) -> None:
    low, high = int(ts("2025-06-01T00:00:00Z")), int(ts("2025-06-14T12:00:00Z"))
    for status in statuses:
        expected = [
            market["ticker"]
            for market in live
            if market.get(time) and low < ts(market[time]) < high and (status is None or market["status"] in STATUSES[status])
        ]
        params = {f"min_{name}_ts": low, f"max_{name}_ts": high, "limit": 1000, **({"status": status} if status else {})}
        assert tickers(venue.all("/markets", **params)) == expected
        assert expected or status in ("unopened", "open")


def test_a_day_of_closes_holds_every_market_that_closed_on_it(world: GeneratedWorld, venue: Any) -> None:
    day = datetime(2025, 6, 10, tzinfo=UTC)
    found = venue.all(
        "/markets",
        min_close_ts=int(day.timestamp()) - 1,
        max_close_ts=int((day + timedelta(days=1)).timestamp()),
        mve_filter="exclude",
        limit=1000,
    )
    assert set(tickers(found)) == set(world.closing(day.date()))


def test_open_markets_are_found_by_the_close_that_they_announce(venue: Any, live: list[Object]) -> None:
    far = int(ts("2090-01-01T00:00:00Z"))
    expected = [market["ticker"] for market in live if ts(market["close_time"]) > far]
    assert tickers(venue.all("/markets", min_close_ts=far, limit=1000)) == expected
    assert expected


def test_updated_filters_are_half_open(venue: Any, live: list[Object]) -> None:
    low, high = int(ts("2025-06-12T00:00:00Z")), int(ts("2025-06-13T00:00:00Z"))
    expected = [market["ticker"] for market in live if low < ts(market["updated_time"]) <= high and not market.get("mve_selected_legs")]
    found = venue.all("/markets", min_updated_ts=low, max_updated_ts=high, mve_filter="exclude", limit=1000)
    assert tickers(found) == expected
    assert expected


def test_ticker_filters_keep_what_they_name(venue: Any, live: list[Object]) -> None:
    some = live[10]
    assert tickers(venue.all("/markets", tickers=f"{some['ticker']},KXNOSUCH-25JAN01-X", limit=10)) == [some["ticker"]]
    siblings = [market["ticker"] for market in live if market["event_ticker"] == some["event_ticker"]]
    assert tickers(venue.all("/markets", event_ticker=some["event_ticker"])) == siblings
    series = venue.get(f"/events/{some['event_ticker']}")["event"]["series_ticker"]
    assert some["ticker"] in tickers(venue.all("/markets", series_ticker=series, limit=1000))
    assert all(market["ticker"].startswith(series) for market in venue.all("/markets", series_ticker=series, limit=1000))


def test_combos_are_chosen_or_left_out(venue: Any, live: list[Object]) -> None:
    only, without = venue.all("/markets", mve_filter="only", limit=1000), venue.all("/markets", mve_filter="exclude", limit=1000)
    assert only and without
    assert all(market["mve_collection_ticker"] and market["mve_selected_legs"] for market in only)
    assert not any("mve_selected_legs" in market for market in without)
    assert sorted(tickers(only) + tickers(without)) == sorted(tickers(live))


def test_events_leave_combos_out_but_answer_for_one(venue: Any, live: list[Object]) -> None:
    combo = next(market for market in live if "mve_selected_legs" in market)
    assert venue.get("/events", tickers=combo["event_ticker"])["events"] == []
    assert venue.get(f"/events/{combo['event_ticker']}")["markets"] == [combo]


@pytest.mark.parametrize("word", ["unopened", "open", "closed", "settled"])
def test_an_event_matches_a_status_if_any_of_its_markets_does(world: GeneratedWorld, venue: Any, word: str) -> None:
    now = instant(venue.now)
    expected = {
        event.ticker
        for home in range(240)
        for event in world.day(home).events
        if not event.is_combo and any(market.life.created <= now and market.life.status(now) in STATUSES[word] for market in event.markets)
    }
    assert {event["event_ticker"] for event in venue.all("/events", status=word)} == expected


def test_events_filter_by_close_series_and_update(venue: Any) -> None:
    low = int(ts("2025-06-14T00:00:00Z"))
    nested = venue.all("/events", with_nested_markets="true", min_close_ts=low)
    assert nested
    assert all(any(ts(market["close_time"]) > low for market in event["markets"]) for event in nested)
    series = nested[0]["series_ticker"]
    assert {event["series_ticker"] for event in venue.all("/events", series_ticker=series)} == {series}
    updated = venue.all("/events", min_updated_ts=low)
    assert updated
    assert all(ts(event["last_updated_ts"]) > low for event in updated)


def test_nested_markets_are_the_same_objects_as_listed(venue: Any, live: list[Object]) -> None:
    by_ticker = {market["ticker"]: market for market in live}
    for event in venue.get("/events", status="open", with_nested_markets="true", limit=50)["events"]:
        for market in event["markets"]:
            assert market == by_ticker[market["ticker"]]


def test_an_event_carries_its_markets_beside_inside_or_not_at_all(venue: Any, live: list[Object]) -> None:
    ticker = live[0]["event_ticker"]
    beside = venue.get(f"/events/{ticker}")
    nested = venue.get(f"/events/{ticker}", with_nested_markets="true")
    without = venue.get(f"/events/{ticker}", exclude_markets="true")
    assert beside["markets"] == nested["event"]["markets"] != []
    assert "markets" not in beside["event"]
    assert nested["markets"] == without["markets"] == []


def test_series_are_listed_at_once_and_filtered(venue: Any) -> None:
    everything = venue.get("/series")["series"]
    assert len(everything) > 300
    sports = venue.get("/series", category="Sports")["series"]
    assert [one["ticker"] for one in sports] == [one["ticker"] for one in everything if "Sports" in one["categories"]]
    tagged = venue.get("/series", tags="Soccer")["series"]
    assert tagged and all("Soccer" in one["tags"] for one in tagged)
    assert venue.get("/series", category="sports")["series"] == []
    assert venue.get("/series", min_updated_ts=4_000_000_000)["series"] == []
    assert "product_metadata" not in everything[0]
    assert "product_metadata" in venue.get("/series", include_product_metadata="true")["series"][0]


def test_the_volume_of_a_series_is_that_of_its_markets(venue: Any) -> None:
    ticker = "KXGAMEBB"
    markets = venue.all("/markets", series_ticker=ticker, limit=1000) + venue.all("/historical/markets", series_ticker=ticker, limit=1000)
    body = venue.get(f"/series/{ticker}", include_volume="true")["series"]
    assert float(body["volume_fp"]) == pytest.approx(sum(float(market["volume_fp"]) for market in markets), abs=0.005)
    assert "volume_fp" not in venue.get(f"/series/{ticker}")["series"]


# --- refusals ------------------------------------------------------------------------------------------------------

BAD = [
    ("/markets", {"status": "finalized"}, "invalid status filter"),
    ("/markets", {"status": "active"}, "invalid status filter"),
    ("/markets", {"status": "open,closed"}, "invalid status filter"),
    ("/events", {"status": "finalized"}, "invalid status filter"),
    ("/events", {"status": "paused"}, "invalid status filter"),
    ("/markets", {"mve_filter": "none"}, "invalid mve_filter filter"),
    ("/historical/markets", {"mve_filter": "only"}, "invalid mve_filter filter"),
    ("/markets", {"limit": 1001}, "limit"),
    ("/markets", {"limit": -1}, "limit"),
    ("/markets", {"limit": "ten"}, "limit"),
    ("/events", {"limit": 0}, "limit"),
    ("/events", {"limit": 201}, "limit"),
    ("/historical/markets", {"limit": 1001}, "limit"),
    ("/markets", {"cursor": "bm90IGEgY3Vyc29y"}, "cursor"),
    ("/markets", {"cursor": "é"}, "cursor"),
    ("/events", {"cursor": "%%%"}, "cursor"),
    ("/markets", {"min_close_ts": "2025-06-01"}, "min_close_ts"),
    ("/markets", {"min_close_ts": "--5"}, "min_close_ts"),
    ("/events", {"with_nested_markets": "maybe"}, "with_nested_markets"),
]


@pytest.mark.parametrize(("path", "params", "words"), BAD)
def test_forbidden_requests_are_refused_in_the_venues_words(venue: Any, path: str, params: Object, words: str) -> None:
    status, body = venue.status(path, **params)
    assert status == 400
    assert (body["error"]["code"], body["error"]["message"]) == ("bad_request", "bad request")
    assert words in body["error"]["details"]


@pytest.mark.parametrize(
    "path",
    [
        "/markets/KXNOSUCH-25JAN01-X",
        "/events/KXNOSUCH-25JAN01",
        "/events/KXGAMEBB-25XXX99",
        "/series/KXNOSUCH",
        "/historical/markets/KXNOSUCH",
        "/no/such/route",
    ],
)
def test_what_does_not_exist_is_not_found(venue: Any, path: str) -> None:
    status, body = venue.status(path)
    assert status == 404
    assert body["error"]["code"] == "not_found"


def test_unknown_parameters_are_ignored(venue: Any) -> None:
    assert venue.get("/events", category="Sports", limit=5) == venue.get("/events", limit=5)
