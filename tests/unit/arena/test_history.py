"""Universes of the past: markets are chosen by dates alone and priced by known prices, regardless of their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.arena.history import find_candidates, find_prices, reconstruct_evidence, reconstruct_quotes, reconstruct_universe, was_open
from bellwether.arena.market import Market
from bellwether.arena.resolution import Observation, judge_evidence
from bellwether.arena.universe import market_from_row
from bellwether.arena.weekly.evidence import derive_poll_states
from bellwether.tables.arena import EVIDENCE as TABLE
from bellwether.venues.polymarket.resolution import EVIDENCE

AT = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def row(name: str = "1", **more: Any) -> dict[str, Any]:
    """Return an open market that opened a week ago and ends in a week."""
    plain = {
        "market_id": name,
        "question": f"Will {name}?",
        "outcomes": ["Yes", "No"],
        "outcome_prices": [Decimal("0.4"), Decimal("0.6")],
        "token_ids": [f"{name}1", f"{name}2"],
        "condition_id": f"0x{name}",
        "market_type": "binary",
        "created_at": AT - 8 * DAY,
        "start_time": AT - 7 * DAY,
        "end_time": AT + 7 * DAY,
        "closed": False,
        "active": True,
    }
    return {**plain, **more}


def points(*prices: tuple[float, str]) -> Sequence[tuple[datetime, Decimal]]:
    return [(AT + hours * HOUR, Decimal(price)) for hours, price in prices]


@pytest.mark.parametrize(
    ("more", "open_then"),
    [
        ({}, True),
        ({"closed": True, "closed_at": AT + HOUR}, True),
        ({"closed": True, "closed_at": AT}, False),
        ({"closed": True, "closed_at": None}, False),
        ({"closed": False, "closed_at": AT - HOUR}, False),
        ({"created_at": AT + HOUR}, False),
        ({"start_time": AT + HOUR}, False),
        ({"start_time": None}, True),
        ({"created_at": None, "start_time": None}, False),
    ],
)
def test_a_market_was_open_by_its_dates(more: dict[str, Any], open_then: bool) -> None:
    assert was_open(row(**more), AT) is open_then


def test_the_soonest_end_comes_first_within_a_day_and_a_fortnight() -> None:
    ends = {"a": 3 * DAY, "b": HOUR, "c": 14 * DAY, "d": 14 * DAY + HOUR, "e": DAY, "f": 3 * DAY}
    rows = [row(name, end_time=AT + after) for name, after in ends.items()]
    assert [one["market_id"] for one in find_candidates([*rows, row("g", end_time=None)], AT)] == ["e", "a", "f", "c"]


def test_a_market_without_a_price_of_the_day_before_is_left_out() -> None:
    prices = {"a1": points((-25, "0.5")), "b1": points((1, "0.5")), "c1": points((-24, "0.5")), "d1": points((0, "0.5"))}
    assert [market.market_id for market in reconstruct_universe([row(name) for name in "abcde"], prices, AT, 9).markets] == ["c", "d"]


def test_prices_are_those_of_the_sides_whatever_their_order() -> None:
    swapped = market_from_row(row("a", outcomes=["No", "Yes"], token_ids=["n", "y"]), AT)
    prices = {"y": points((-1, "0.3")), "n": points((-1, "0.9"))}
    assert find_prices(swapped, prices, AT) == (700_000, 300_000)
    named = Market("m", "Who?", ("X", "Y"), token_ids=("x", "y"))
    assert find_prices(named, {"y": points((-1, "0.3"))}, AT) == (None, 300_000)
    assert {place: quote.mid for place, quote in reconstruct_quotes(named, {"y": points((-1, "0.3"))}, AT).items()} == {1: 300_000}
    quote = reconstruct_quotes(named, {"y": points((-1, "0.3"))}, AT)[1]
    assert (quote.bid, quote.ask, quote.at, quote.source) == (None, None, AT - HOUR, "prices-history")


def closed(name: str, status: str | None, prices: tuple[str, str], **more: Any) -> dict[str, Any]:
    plain = dict.fromkeys(EVIDENCE) | row(name, closed=True, closed_at=AT + DAY, outcome_prices=[Decimal(price) for price in prices])
    return plain | {"uma_resolution_status": status, "uma_statuses": [status] if status else [], "uma_end_at": AT + DAY + HOUR} | more


def _seen(rows: list[dict[str, Any]], now: datetime) -> list[Observation]:
    looks = reconstruct_evidence(rows, {}, now, wait=2 * HOUR, grace=14 * DAY)
    return judge_evidence(pl.DataFrame([{name: look[name] for name in EVIDENCE} for look in looks], schema=EVIDENCE, orient="row"))


def test_evidence_is_dated_when_the_dispute_window_was_over_and_ends_with_a_result() -> None:
    rows = [closed("a", "resolved", ("1", "0")), row("b")]
    found = _seen(rows, AT + 60 * DAY)
    assert [(one.market_id, one.observed_at) for one in found] == [("a", AT + DAY + 3 * HOUR)]
    assert found[0].ruling is not None and found[0].ruling.winner == "Yes"
    assert _seen(rows, AT + DAY) == [], "before it was over nobody could have seen it"


def test_a_market_that_never_says_is_looked_at_again_until_its_grace_is_over() -> None:
    found = _seen([closed("a", None, ("0.5", "0.4"), uma_end_at=None)], AT + 90 * DAY)
    assert len(found) == 4
    assert found[-1].observed_at - found[0].observed_at >= 14 * DAY


def test_looks_that_say_the_same_are_counted() -> None:
    def look(hours: int, **more: Any) -> dict[str, Any]:
        plain = {column.name: None for column in TABLE.columns} | {"market_id": "a", "outcomes": ["Yes", "No"], "closed": False}
        return plain | {"week": AT.date(), "reconstructed": False, "known_at": AT + hours * HOUR} | more

    rows = TABLE.frame([look(0), look(6), look(12, closed=True, closed_at=AT + 11 * HOUR)])
    assert [(one.same, str(one.status)) for one in derive_poll_states(rows.head(2)).values()] == [(2, "active")]
    last = derive_poll_states(rows)["a"]
    assert (last.same, str(last.status), last.looked_at) == (1, "closed", AT + 12 * HOUR)
