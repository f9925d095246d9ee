"""clean/markets and clean/prices of Polymarket: question, close, outcome by evidence, and tables of both venues."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.lake.sql import run_sql
from bellwether.questions import Release, build
from bellwether.tables import clean, raw
from tests.unit.clean.rows import (
    DAY,
    KNOWN,
    OPEN,
    PM_CLOSED,
    PM_CONDITION,
    PM_END,
    markets,
    polymarket_event,
    polymarket_inputs,
    polymarket_market,
    polymarket_price,
    polymarket_winner,
    raw_candle,
    raw_inputs,
    raw_market,
)

DAYS: dict[str, date] = {"first_day": DAY, "last_day": DAY}
CHALLENGE = timedelta(hours=2)
UP_DOWN = {"outcomes": ["Up", "Down"], "market_type": "named", "yes_token": None, "no_token": None}


def cleaned(
    *listed: dict[str, Any],
    events: list[dict[str, Any]] | None = None,
    winners: list[dict[str, Any]] | None = None,
    kalshi: list[dict[str, Any]] | None = None,
    days: dict[str, date] = DAYS,
) -> pl.DataFrame:
    inputs = {**raw_inputs(kalshi or []), **polymarket_inputs(list(listed), [polymarket_event()] if events is None else events, winners)}
    return clean.MARKETS.validate(run_sql(clean.MARKETS, inputs, days))


def one(events: list[dict[str, Any]] | None = None, winners: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    return cleaned(polymarket_market(**changes), events=events, winners=winners).row(0, named=True)


def several(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of several markets, in order. Each differs from the ordinary market by the given fields."""
    listed = (polymarket_market(f"{500 + place}", condition_id=f"0x{place + 1:064x}", **one) for place, one in enumerate(changes))
    return cleaned(*listed).sort("market_id").rows(named=True)


def priced(*points: dict[str, Any], of: pl.DataFrame | None = None, candles: list[dict[str, Any]] | None = None) -> pl.DataFrame:
    inputs = {
        "kalshi_candles": raw.KALSHI_CANDLES.frame(candles or []),
        "polymarket_prices": raw.POLYMARKET_PRICES.frame(list(points)),
        "markets": cleaned(polymarket_market()) if of is None else of,
    }
    return clean.PRICES.validate(run_sql(clean.PRICES, inputs, DAYS))


def test_a_resolved_market_carries_its_facts_and_its_outcome() -> None:
    row = one()
    assert (row["venue"], row["market_id"], row["event_id"]) == ("polymarket", "501", "71")
    assert (row["status"], row["outcome"], row["outcome_reason"], row["settlement_value"]) == ("settled", "yes", None, Decimal(1))
    assert (row["question"], row["description"]) == ("Will it rain in NYC?", "If it rains, Yes.")
    assert (row["market_type"], row["is_combo"], row["mutually_exclusive"]) == ("binary", False, True)
    assert (row["open_time"], row["last_price"], row["volume"]) == (OPEN, Decimal("0.97"), Decimal("1250.51"))


def test_the_close_is_the_scheduled_end_or_before_the_answer_of_an_early_one_was_proposed() -> None:
    cases = [(PM_CLOSED, PM_CLOSED - CHALLENGE), (PM_END + timedelta(hours=5), PM_END), (PM_END, PM_END), (None, PM_END)]
    found = several(*({"closed_at": closed_at} for closed_at, _ in cases))
    assert [(row["close_time"], row["day"]) for row in found] == [(close_time, DAY) for _, close_time in cases]


def test_a_market_settles_when_uma_is_done() -> None:
    later = PM_CLOSED + timedelta(hours=9)
    assert one(uma_end_at=later)["settled_at"] == later
    assert one(uma_resolution_status="proposed")["settled_at"] is None


def test_only_a_resolution_is_an_outcome() -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"uma_resolution_status": "proposed"}, "determined", "undetermined"),
        ({"uma_resolution_status": "disputed"}, "disputed", "disputed"),
        ({"closed": False, "uma_resolution_status": None}, "active", "undetermined"),
        ({"outcome_prices": [Decimal("0.5")] * 2}, "settled", "void"),
        ({"outcome_prices": [Decimal("0.24"), Decimal("0.76")]}, "settled", "scalar"),
        ({"outcome_prices": [Decimal(0)] * 2}, "closed", "undetermined"),
    ]
    found = several(*(changes for changes, _, _ in cases))
    assert [(row["status"], row["outcome"], row["outcome_reason"]) for row in found] == [
        (status, None, reason) for _, status, reason in cases
    ]


def test_sources_that_contradict_each_other_leave_no_outcome() -> None:
    row = one(winners=[polymarket_winner(0, winner=False), polymarket_winner(1, winner=True)])
    assert (row["outcome"], row["outcome_reason"]) == (None, "contradictory evidence")


@pytest.mark.parametrize(("prices", "outcome"), [([1, 0], "yes"), ([0, 1], "no")])
def test_of_two_named_outcomes_the_question_is_about_the_first(prices: list[int], outcome: str) -> None:
    row = one(**UP_DOWN, question="Bitcoin Up or Down", outcome_prices=[Decimal(price) for price in prices])
    assert (row["question"], row["market_type"], row["outcome"]) == ("Bitcoin Up or Down — Up", "binary", outcome)


def test_where_yes_stands_second_it_is_still_yes() -> None:
    row = one(outcomes=["No", "Yes"], yes_token="222", no_token="111", last_trade_price=Decimal("0.97"))
    assert (row["outcome"], row["last_price"]) == ("no", Decimal("0.03"))


def test_three_outcomes_are_no_yes_or_no_question() -> None:
    prices = [Decimal(0), Decimal(1), Decimal(0)]
    row = one(outcomes=["A", "B", "C"], outcome_prices=prices, market_type="multi", token_ids=[], yes_token=None, no_token=None)
    assert (row["market_type"], row["outcome"], row["outcome_reason"], row["status"]) == ("multi", None, "several outcomes", "settled")


def test_the_place_in_the_group_is_added_where_the_question_does_not_say_which_market_it_is() -> None:
    rows = cleaned(
        polymarket_market("1", question="Fed decision?", group_item_title="25 bps cut"),
        polymarket_market("2", question="Fed decision?", group_item_title="No change", condition_id=f"0x{2:064x}"),
        polymarket_market("3", question="Rain in NYC", group_item_title="1 inch", condition_id=f"0x{3:064x}"),
        polymarket_market("4", question="Will it snow?", group_item_title="Snow", condition_id=f"0x{4:064x}"),
        polymarket_market("5", question="Fed decision?", event_id="99", group_item_title="Else", condition_id=f"0x{5:064x}"),
    )
    assert rows["question"].to_list() == [
        "Fed decision? — 25 bps cut",
        "Fed decision? — No change",
        "Rain in NYC — 1 inch",
        "Will it snow?",
        "Fed decision?",
    ]


def test_the_cluster_is_the_series_of_the_event_or_else_the_event() -> None:
    assert one()["series_id"] == "71"
    assert one(events=[polymarket_event(series_slug="rain-daily")])["series_id"] == "rain-daily"
    assert one(events=[], series_slug="rain-hourly")["series_id"] == "rain-hourly"
    assert one(events=[], event_id=None)["series_id"] is None


@pytest.mark.parametrize(
    ("tags", "old", "category"),
    [
        (["all", "weather"], None, "Climate and Weather"),
        (["politics", "elections", "us-elections"], None, "Elections"),
        (["Crypto-Prices", "up-or-down"], None, "Crypto"),
        (["hide-from-new"], "US-current-affairs", "US-current-affairs"),
        ([], None, "unknown"),
    ],
)
def test_the_category_is_that_of_the_tags_else_the_old_one(tags: list[str], old: str | None, category: str) -> None:
    assert one(events=[polymarket_event(tags=tags, category=old)])["category"] == category


def test_a_price_is_never_rounded_onto_0_or_1() -> None:
    cases = {"0.9999999871": "0.999999", "0.0000000123": "0.000001", "1": "1", "0.1234567": "0.123457"}
    shown = [Decimal(one) for one in cases.values()]
    assert [row["last_price"] for row in several(*({"last_trade_price": Decimal(price)} for price in cases))] == shown
    assert one(last_trade_price=None)["last_price"] is None
    points = [polymarket_price(24 - place, price=Decimal(price)) for place, price in enumerate(cases)]
    assert priced(*points).sort("at")["last"].to_list() == shown


def test_known_at_covers_the_market_the_event_and_the_clob() -> None:
    later = KNOWN + timedelta(hours=1)
    assert one()["known_at"] == KNOWN
    assert one(known_at=later)["known_at"] == later
    assert one(events=[polymarket_event(known_at=later)])["known_at"] == later
    assert one(winners=[polymarket_winner(0, known_at=later), polymarket_winner(1)])["known_at"] == later


def test_both_venues_stand_side_by_side_and_either_may_be_empty() -> None:
    both = cleaned(polymarket_market(), kalshi=[raw_market()])
    assert both["venue"].to_list() == ["kalshi", "polymarket"]
    alone = [cleaned(polymarket_market()), cleaned(kalshi=[raw_market()], events=[])]
    assert pl.concat(alone).sort("venue").equals(both.sort("venue"))


def test_a_range_of_days_gives_the_rows_of_its_days_one_by_one() -> None:
    following = DAY + timedelta(days=1)
    second = polymarket_market(day=following, end_time=PM_END + timedelta(days=1))
    events = [polymarket_event(), polymarket_event(day=following)]
    days = [{"first_day": day, "last_day": day} for day in (DAY, following)]
    singly = pl.concat(cleaned(polymarket_market(), second, events=events, days=day) for day in days)
    assert cleaned(polymarket_market(), second, events=events, days={"first_day": DAY, "last_day": following}).equals(singly)


def test_a_price_has_no_sides_and_stands_as_the_last_trade() -> None:
    row = priced(polymarket_price(24)).row(0, named=True)
    assert (row["venue"], row["at"], row["period_minutes"]) == ("polymarket", PM_CLOSED - timedelta(hours=24), 60)
    assert (row["bid"], row["ask"], row["last"]) == (None, None, Decimal("0.42"))


def test_a_price_after_the_answer_was_proposed_is_left_out() -> None:
    hours = (2, 1.99, 0, -0.01, -0.9)
    assert priced(*map(polymarket_price, hours))["at"].to_list() == [PM_CLOSED - CHALLENGE]


def test_a_release_of_both_venues_has_questions_with_prices_of_both() -> None:
    both = cleaned(polymarket_market(), kalshi=[raw_market()])
    prices = priced(polymarket_price(27, price=Decimal("0.61")), candles=[raw_candle(25)], of=both)
    recipe = Release(
        name="both", description="both", cutoff=datetime(2026, 1, 1, tzinfo=UTC), seed=1, venues=("kalshi", "polymarket"), cluster="event"
    )
    questions = build(recipe, markets(*both.to_dicts()).lazy(), prices.lazy()).sort("source")
    assert questions.select("id", "ground_truth", "price_24h", "cluster").rows() == [
        ("kalshi:KXRAIN-26MAR10-T1", "yes", Decimal("0.42"), "kalshi:KXRAIN-26MAR10"),
        ("polymarket:501", "yes", Decimal("0.61"), "polymarket:71"),
    ]


def test_the_condition_joins_markets_and_winners_of_the_same_day_only() -> None:
    elsewhere = [
        polymarket_winner(0, day=DAY + timedelta(days=1), winner=False),
        polymarket_winner(1, day=DAY + timedelta(days=1), winner=True),
    ]
    assert {row["condition_id"] for row in elsewhere} == {PM_CONDITION}
    assert one(winners=elsewhere)["outcome"] == "yes"
