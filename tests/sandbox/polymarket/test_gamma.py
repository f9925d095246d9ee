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


@pytest.mark.parametrize(
    ("name", "order"),
    [("markets", {}), ("events", {}), ("markets", {"order": "volumeNum", "ascending": "false"}), ("markets", {"order": "closedTime"})],
)
def test_pages_of_any_size_give_every_object_once(site: Any, name: str, order: dict[str, str]) -> None:
    whole = site.all(name, limit=100, closed="false", **order)
    assert len(set(ids(whole))) == len(whole) > 100
    assert ids(site.all(name, limit=7, closed="false", **order)) == ids(whole)


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


@pytest.mark.parametrize("name", ["volumeNum", "endDate"])
def test_sorting_goes_by_a_field_and_rows_without_a_value_come_last(site: Any, name: str) -> None:
    for ascending in ("true", "false"):
        values = [one.get(name) for one in site.all("markets", limit=100, closed="false", order=name, ascending=ascending)]
        known = [one for one in values if one is not None]
        assert values[: len(known)] == known
        if name == "endDate":
            known = [time(one) for one in known]
        assert known == sorted(known, reverse=ascending == "false")


# --- objects -------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("markets/keyset", {"limit": 101}, 422),
        ("markets/keyset", {"offset": 20}, 422),
        ("markets/keyset", {"after_cursor": "nonsense"}, 422),
        ("markets/keyset", {"order": "colour"}, 422),
        ("markets/keyset", {"closed": "maybe"}, 422),
        ("markets/keyset", {"condition_ids": [f"0x{number}" for number in range(101)]}, 422),
        ("markets", {"offset": 2001}, 422),
        ("markets/1", {}, 404),
        ("events/nonsense", {}, 404),
    ],
)
def test_what_makes_no_sense_is_refused(site: Any, path: str, params: dict[str, Any], status: int) -> None:
    found, body = site.refused(f"/gamma/{path}", **params)
    assert (found, body["type"]) == (status, "validation error" if status == 422 else "not found error")


def test_markets_are_found_by_every_name(site: Any) -> None:
    for one in site.all("markets", limit=100, closed="false")[:20]:
        named = {
            "id": one["id"],
            "condition_ids": one["conditionId"],
            "clob_token_ids": (json.loads(one["clobTokenIds"] or "[]") or [None])[0],
        }
        for name, value in named.items():
            assert value is None or site.get("/gamma/markets/keyset", **{name: value})["markets"] == [one], name
