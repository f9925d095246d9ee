"""Gamma's routes: filters, sorting, both kinds of paging, limits and errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

DAY = {"end_date_min": "2025-06-10T00:00:00Z", "end_date_max": "2025-06-11T00:00:00Z"}
OPEN = {"closed": "false"}


def ids(objects: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in objects]


def time(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- paging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["markets", "events"])
@pytest.mark.parametrize("order", [{}, {"order": "volumeNum", "ascending": "false"}, {"order": "endDate"}, {"order": "closedTime,id"}])
def test_pages_of_any_size_give_every_object_once(site: Any, name: str, order: dict[str, str]) -> None:
    whole = site.all(name, limit=100, closed="false", **order)
    assert len(set(ids(whole))) == len(whole) > 100
    assert ids(site.all(name, limit=7, closed="false", **order)) == ids(whole)


def test_a_sorted_listing_is_sorted_anew_for_another_instant_or_order(site: Any, at: Any) -> None:
    moved = at(site.now)
    later = at(site.now + timedelta(days=2))
    asked = {"limit": 50, "closed": "true", "order": "closedTime", "ascending": "false"}
    first = moved.get("/gamma/markets/keyset", **asked)
    other = moved.get("/gamma/markets/keyset", **asked | {"order": "volumeNum"})
    assert other == site.get("/gamma/markets/keyset", **asked | {"order": "volumeNum"}) != first
    moved.clock.set(later.now)
    assert moved.get("/gamma/markets/keyset", **asked) == later.get("/gamma/markets/keyset", **asked) != first


def test_the_last_page_has_no_cursor_and_a_full_last_page_none_either(site: Any) -> None:
    count = len(site.all("markets", limit=100, closed="true", **DAY))
    assert "next_cursor" not in site.get("/gamma/markets/keyset", limit=count, closed="true", **DAY)
    assert "next_cursor" in site.get("/gamma/markets/keyset", limit=count - 1, closed="true", **DAY)


def test_the_wrong_name_of_the_cursor_gives_the_first_page_again(site: Any) -> None:
    first = site.get("/gamma/markets/keyset", limit=3, **OPEN)
    assert site.get("/gamma/markets/keyset", limit=3, cursor=first["next_cursor"], **OPEN) == first
    second = site.get("/gamma/markets/keyset", limit=3, after_cursor=first["next_cursor"], **OPEN)
    assert not set(ids(second["markets"])) & set(ids(first["markets"]))


def test_offsets_give_the_same_objects_as_a_bare_list_until_they_end(site: Any) -> None:
    listed = site.all("markets", limit=100, closed="false")
    parts = [one for offset in range(0, len(listed) + 50, 50) for one in site.get("/gamma/markets", offset=offset, limit=50, **OPEN)]
    assert ids(parts) == ids(listed)
    response = site.response("/gamma/markets", limit=1, **OPEN)
    assert response.headers["deprecation"] == "true"
    assert "keyset" in response.headers["link"]
    status, body = site.refused("/gamma/markets", offset=2001, **OPEN)
    assert status == 422
    assert "/markets/keyset" in body["error"]
    assert len(site.get("/gamma/markets", limit=9999, **OPEN)) == min(500, len(listed))


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/gamma/markets/keyset", {"offset": 0}),
        ("/gamma/markets/keyset", {"limit": 101}),
        ("/gamma/markets/keyset", {"limit": 0}),
        ("/gamma/events/keyset", {"limit": 501}),
        ("/gamma/markets/keyset", {"limit": "ten"}),
        ("/gamma/markets/keyset", {"after_cursor": "nonsense"}),
        ("/gamma/markets/keyset", {"after_cursor": "WzFd", "order": "volumeNum"}),
        ("/gamma/markets/keyset", {"closed": "maybe"}),
        ("/gamma/markets/keyset", {"end_date_min": "yesterday"}),
        ("/gamma/markets/keyset", {"volume_num_min": "much"}),
        ("/gamma/markets/keyset", {"order": "prettiness"}),
        ("/gamma/markets/keyset", {"id": "abc"}),
        ("/gamma/markets/keyset", {"condition_ids": [f"0x{number:064x}" for number in range(101)]}),
        ("/gamma/markets/abc", {}),
        ("/gamma/events/abc", {}),
    ],
)
def test_what_the_venue_refuses(site: Any, path: str, params: dict[str, Any]) -> None:
    status, body = site.refused(path, **params)
    assert status == 422
    assert body["type"] == "validation error"
    assert body["error"]


@pytest.mark.parametrize("path", ["markets/1", "events/1", "markets/slug/none", "events/slug/none-12", "markets/99999999999"])
def test_unknown_names_are_not_found(site: Any, path: str) -> None:
    status, body = site.refused(f"/gamma/{path}")
    assert status == 404
    assert body == {"type": "not found error", "error": "slug not found" if "slug" in path else "id not found"}


# --- filters -------------------------------------------------------------------------------------------------------


def test_a_day_is_listed_by_its_announced_ends(site: Any) -> None:
    low, high = datetime(2025, 6, 10, tzinfo=UTC), datetime(2025, 6, 11, tzinfo=UTC)
    closed = site.all("markets", limit=100, closed="true", **DAY)
    assert closed
    assert all(low <= time(one["endDate"]) <= high and one["closed"] for one in closed)
    both = site.all("markets", limit=100, closed="true") + site.all("markets", limit=100, closed="false")
    meant = {one["id"] for one in both if "endDate" in one and low <= time(one["endDate"]) <= high}
    still = site.all("markets", limit=100, closed="false", **DAY)
    assert {*ids(closed), *ids(still)} == meant


def test_about_seventeen_markets_end_per_day(site: Any) -> None:
    ended = site.all("markets", limit=100, closed="true", end_date_min="2025-02-01", end_date_max="2025-06-01")
    assert 15 < len(ended) / 120 < 20


def test_markets_are_found_by_every_name(site: Any) -> None:
    some = site.get("/gamma/markets/keyset", limit=5, closed="true")["markets"]
    assert site.all("markets", id=ids(some)) == some
    assert site.all("markets", condition_ids=[one["conditionId"] for one in some]) == some
    assert site.all("markets", slug=[one["slug"] for one in some]) == some
    assert site.all("markets", clob_token_ids=[json.loads(one["clobTokenIds"])[1] for one in some]) == some
    assert site.all("markets", id=some[0]["id"], slug=some[1]["slug"]) == []
    assert site.all("markets", id=ids(some), closed="false") == []
    for one in some[:2]:
        assert site.get(f"/gamma/markets/{one['id']}") == one
        assert site.get(f"/gamma/markets/slug/{one['slug']}") == one
    wrong = "x" + some[0]["slug"]
    assert site.all("markets", slug=wrong) == []
    assert site.refused(f"/gamma/markets/slug/{wrong}")[0] == 404


def test_events_are_found_by_every_name(site: Any) -> None:
    some = site.get("/gamma/events/keyset", limit=4, closed="false")["events"]
    assert site.all("events", id=ids(some), limit=2) == some
    assert site.all("events", slug=[one["slug"] for one in some]) == some
    assert site.get(f"/gamma/events/{some[0]['id']}") == some[0]
    assert site.get(f"/gamma/events/slug/{some[1]['slug']}") == some[1]


def test_filters_on_figures_states_and_subjects(site: Any) -> None:
    listed = site.all("markets", limit=100, closed="false", include_tag="true")
    deep = [one for one in listed if one.get("volumeNum", 0) >= 5000]
    assert 0 < len(deep) < len(listed)
    assert ids(site.all("markets", limit=100, closed="false", volume_num_min=5000)) == ids(deep)
    proposed = [one for one in listed if one.get("umaResolutionStatus") == "proposed"]
    assert ids(site.all("markets", closed="false", uma_resolution_status="proposed")) == ids(proposed)
    tag = listed[0]["tags"][0]["id"]
    tagged = [one for one in listed if tag in {each["id"] for each in one["tags"]}]
    assert ids(site.all("markets", limit=100, closed="false", tag_id=tag)) == ids(tagged)
    assert site.all("markets", closed="false", active="false") == []
    assert ids(site.all("markets", limit=100, closed="false", archived="false")) == ids(listed)
    late = [one for one in listed if time(one["startDate"]) >= site.now - timedelta(days=2)]
    # What is shown lies a fraction of a second behind what is compared.
    assert ids(site.all("markets", limit=100, closed="false", start_date_min=(site.now - timedelta(days=2)).isoformat())) == ids(late)


@pytest.mark.parametrize("name", ["volumeNum", "liquidityNum", "endDate", "startDate", "createdAt", "id"])
def test_sorting_goes_by_names_in_camel_case_and_rows_without_a_value_come_last(site: Any, name: str) -> None:
    def value(one: dict[str, Any]) -> Any:
        return None if name not in one else int(one[name]) if name == "id" else one[name]

    for ascending in ("true", "false"):
        values = [value(one) for one in site.all("markets", limit=100, closed="false", order=name, ascending=ascending)]
        known = [one for one in values if one is not None]
        assert values[: len(known)] == known
        if name in ("endDate", "startDate", "createdAt"):
            known = [time(one) for one in known]
        assert known == sorted(known, reverse=ascending == "false")


def test_sorting_by_names_in_snake_case_is_silently_ignored(site: Any) -> None:
    plain = ids(site.get("/gamma/markets", limit=50, **OPEN))
    assert ids(site.get("/gamma/markets", limit=50, order="volume_num", ascending="false", **OPEN)) == plain
    assert ids(site.get("/gamma/markets", limit=50, order="volumeNum", ascending="false", **OPEN)) != plain


# --- objects -------------------------------------------------------------------------------------------------------


def test_events_without_closed_are_closed_ones_by_offset_only(site: Any) -> None:
    assert all(one["closed"] for one in site.get("/gamma/events", limit=100))
    assert not any(one["closed"] for one in site.get("/gamma/events", limit=100, **OPEN))
    assert {one["closed"] for one in site.get("/gamma/events/keyset", limit=500)["events"]} == {True, False}


def test_events_hold_their_markets_and_markets_their_event(site: Any) -> None:
    events = site.all("events", limit=100, closed="false")
    several = [event for event in events if len(event["markets"]) > 1]
    assert several
    for event in several[:10]:
        assert {tag["label"] for tag in event["tags"]}
        listed = site.all("markets", limit=100, id=ids(event["markets"]))
        assert [{**one, "events": None} for one in listed] == [{**one, "events": None} for one in event["markets"]]
        for one in listed:
            (inner,) = one["events"]
            assert inner == {name: value for name, value in event.items() if name not in ("markets", "tags", "series")}
        assert event["volume"] == pytest.approx(sum(one.get("volumeNum", 0) for one in event["markets"]))
        assert len({one["groupItemTitle"] for one in event["markets"]}) == len(event["markets"])


def test_tags_come_with_markets_only_when_asked(site: Any) -> None:
    one = site.get("/gamma/markets/keyset", limit=1, **OPEN)["markets"][0]
    assert "tags" not in one
    tagged = site.get(f"/gamma/markets/{one['id']}", include_tag="true")
    assert {**one, "tags": tagged["tags"]} == tagged
    assert tagged["tags"][0]["label"]


def test_objects_have_the_venues_forms(site: Any) -> None:
    listed = site.all("markets", limit=100, closed="false") + site.all("markets", limit=100, closed="true", **DAY)
    for one in listed:
        assert one["id"].isdecimal()
        for name in ("conditionId", "questionID"):
            assert len(one[name]) == 66
            assert int(one[name], 16)
        outcomes, tokens = json.loads(one["outcomes"]), json.loads(one["clobTokenIds"])
        assert len(outcomes) == len(tokens) == 2
        assert all(token.isdecimal() and 70 <= len(token) <= 78 for token in tokens)
        assert isinstance(json.loads(one["umaResolutionStatuses"]), list)
        assert one["orderPriceMinTickSize"] in (0.01, 0.001)
        if "volume" in one:
            assert float(one["volume"]) == one["volumeNum"] > 0
        assert float(one["liquidity"]) == one["liquidityNum"]
        if "closedTime" in one:
            assert one["closedTime"].endswith("+00")
            assert one["closedTime"][10] == " "
            assert time(one["closedTime"]) <= site.now
        if "outcomePrices" in one:
            first, second = map(float, json.loads(one["outcomePrices"]))
            assert first + second == pytest.approx(1)
            if not one["closed"]:
                bid, ask = one.get("bestBid", 0), one["bestAsk"]
                assert bid <= first <= ask
                assert first == pytest.approx((bid + ask) / 2) or (ask - bid > 0.1 and not (bid and ask < 1))
    names = {name for one in listed for name in one}
    for name in ("endDate", "bestBid", "volume", "umaResolutionStatus", "negRiskMarketID", "gameStartTime"):
        assert name in names
        assert any(name not in one for one in listed)


def test_markets_that_exclude_each_other_share_a_group(site: Any) -> None:
    groups = [event for event in site.all("events", limit=100, closed="false") if event["negRisk"]]
    assert groups
    for event in groups:
        places = [int(one["groupItemThreshold"]) for one in event["markets"]]
        assert places == sorted(set(places))
        for place, one in zip(places, event["markets"], strict=True):
            assert one["negRisk"]
            assert one["negRiskMarketID"] == event["negRiskMarketID"]
            assert one["questionID"] == f"{event['negRiskMarketID'][:-2]}{place:02x}"


@pytest.mark.parametrize(
    ("now", "category", "fields"),
    [
        (datetime(2025, 12, 1, tzinfo=UTC), "Crypto", {"feesEnabled": False, "feeType": None}),
        (datetime(2026, 2, 15, tzinfo=UTC), "Recurring", {"feesEnabled": True, "feeType": "crypto_15_min", "takerBaseFee": 1000}),
        (datetime(2026, 2, 15, tzinfo=UTC), "Sports", {"feesEnabled": False}),
        (datetime(2026, 3, 28, tzinfo=UTC), "Recurring", {"feeType": "crypto_fees", "takerBaseFee": 1000}),
        (datetime(2026, 6, 20, tzinfo=UTC), "Recurring", {"feeType": "crypto_fees_v2", "feeSchedule": {"rate": 0.07, "exponent": 1}}),
        (datetime(2026, 6, 20, tzinfo=UTC), "Sports", {"feeSchedule": {"rate": 0.03, "exponent": 1, "takerOnly": True}}),
        (datetime(2026, 6, 20, tzinfo=UTC), "World", {"feesEnabled": False}),
    ],
)
def test_fees_follow_the_regime_of_the_day_of_creation(at: Any, now: datetime, category: str, fields: dict[str, Any]) -> None:
    since = (now - timedelta(days=12)).isoformat()
    listed = at(now).all("markets", limit=100, include_tag="true", start_date_min=since, end_date_min=since)
    chosen = [one for one in listed if category in {tag["label"] for tag in one["tags"]}]
    assert chosen
    for one in chosen:
        for name, value in fields.items():
            if isinstance(value, dict):
                assert value.items() <= one[name].items()
            else:
                assert one[name] == value
        assert ("feeSchedule" in one) == ("feeSchedule" in fields)
