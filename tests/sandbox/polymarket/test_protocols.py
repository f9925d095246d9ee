"""Markets of both protocol versions together in the generated world."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.sandbox.polymarket.conftest import Site

NOW = datetime(2026, 11, 22, 0, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def modern(at: Callable[[datetime], Site]) -> Site:
    """The venue after the start of Protocol V2."""
    return at(NOW)


@pytest.fixture(scope="module")
def listed(modern: Site) -> list[dict[str, Any]]:
    """All open markets."""
    return modern.all("markets", closed="false", limit=100)


def test_a_share_of_new_markets_is_on_v2_and_names_position_ids(listed: list[dict[str, Any]]) -> None:
    recent = [one for one in listed if one["createdAt"] >= "2026-10-01T00:00:00Z"]
    v2 = [one for one in recent if one["version"] == "v2"]
    assert 0.1 < len(v2) / len(recent) < 0.3
    assert {one["version"] for one in listed} == {"v1", "v2"}
    assert all(one["clobTokenIds"] == "" and "umaResolutionStatuses" not in one for one in v2)
    assert {len(one["conditionId"]) for one in v2} == {64, 66}
    assert all(one["conditionId"].startswith("0x01") for one in v2)
    for one in v2:
        condition = int(one["conditionId"][2:].ljust(64, "0"), 16)
        assert [int(position) for position in one["positionIds"]][:2] == [condition, condition + 1][: len(one["positionIds"])]


def test_some_v1_markets_have_position_ids_that_do_not_trade(modern: Site, listed: list[dict[str, Any]]) -> None:
    both = [one for one in listed if one["version"] == "v1" and one.get("positionIds")]
    assert both
    assert modern.post("/clob/books", [{"token_id": both[0]["positionIds"][0]}]).json() == []
    assert modern.post("/clob/books", [{"token_id": json.loads(both[0]["clobTokenIds"])[0]}]).json()


def test_the_clob_knows_v2_markets_by_both_spellings_of_the_condition(modern: Site, listed: list[dict[str, Any]]) -> None:
    for one in [one for one in listed if one["version"] == "v2"][:20]:
        plain = one["conditionId"][:64]
        known = {form: modern.get(f"/clob/markets/{form}") for form in (plain, plain + "00")}
        assert [token["token_id"] for token in known[plain]["tokens"]][: len(one["positionIds"])] == one["positionIds"]
        assert modern.refused(f"/clob/markets/{plain}01")[0] == 404
        assert modern.get("/gamma/markets/keyset", closed="false", condition_ids=one["conditionId"])["markets"][0]["id"] == one["id"]


def test_v2_markets_resolve_without_a_word_of_uma(at: Callable[[datetime], Site], listed: list[dict[str, Any]]) -> None:
    names = [one["id"] for one in listed if one["version"] == "v2" and one.get("endDate", "9") < "2026-12-01"]
    found = at(NOW + timedelta(days=60)).all("markets", closed="true", id=names, limit=100)
    assert found
    assert {one["resolutionStatus"] for one in found} <= {"active", "resolved"}
    assert {one.get("umaResolutionStatus") for one in found} == {None}
