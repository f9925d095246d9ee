"""clean/markets and clean/prices of Kalshi: identity, question, outcome, quotes before the close, and the time at which each was known."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.lake.sql import run_sql
from bellwether.tables import raw
from bellwether.tables.clean import MARKETS, PRICES
from tests.unit.clean.rows import CLOSE, DAY, KNOWN, market, markets, raw_candle, raw_event, raw_inputs, raw_market, raw_series

DAYS = {"first_day": DAY, "last_day": DAY}


def clean(live: list[dict[str, Any]], *, days: dict[str, date] = DAYS, **inputs: Any) -> pl.DataFrame:
    return run_sql(MARKETS, raw_inputs(live, **inputs), days)


def clean_one(**changes: Any) -> dict[str, Any]:
    inputs = {name: changes.pop(name) for name in ("events", "series") if name in changes}
    return clean([raw_market(**changes)], **inputs).row(0, named=True)


def clean_all(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of several markets, in order. Each differs from the ordinary market by the given fields."""
    return clean([raw_market(f"M{place:02}", **one) for place, one in enumerate(changes)]).sort("market_id").rows(named=True)


def test_a_settled_market_carries_its_facts_and_its_outcome() -> None:
    row = clean_one()
    assert (row["venue"], row["market_id"], row["event_id"], row["series_id"]) == (
        "kalshi",
        "KXRAIN-26MAR10-T1",
        "KXRAIN-26MAR10",
        "KXRAIN",
    )
    assert (row["status"], row["outcome"], row["outcome_reason"]) == ("settled", "yes", None)
    assert row["question"] == "Will it rain more than 1 inch?"
    assert row["description"] == "If it rains more than 1 inch, the market resolves to Yes.\n\nTrace amounts count as zero."


def test_only_a_paid_out_yes_or_no_is_an_outcome() -> None:
    cases = [
        ("finalized", "no", "no", None),
        ("finalized", "scalar", None, "scalar"),
        ("finalized", "void", None, "void"),
        ("finalized", "", None, "unknown result"),
        ("determined", "yes", None, "undetermined"),
        ("closed", "", None, "undetermined"),
        ("disputed", "yes", None, "disputed"),
    ]
    found = clean_all(*({"status": status, "result": result, "settlement_value": None} for status, result, _, _ in cases))
    assert [(row["outcome"], row["outcome_reason"]) for row in found] == [(outcome, reason) for _, _, outcome, reason in cases]
    assert [row["status"] for row in found] == ["settled" if status == "finalized" else status for status, *_ in cases]


def test_a_scalar_market_has_no_binary_outcome_even_at_its_upper_bound() -> None:
    row = clean_one(market_type="scalar", result="yes")
    assert (row["outcome"], row["outcome_reason"]) == (None, "scalar")


def test_the_record_known_last_wins_over_the_one_updated_last() -> None:
    earlier = raw_market(result="scalar", updated_at=KNOWN)
    later = raw_market(source="historical", known_at=KNOWN + timedelta(hours=1))
    assert clean([earlier], archive=[later]).select("outcome", "source").rows() == [("yes", "historical")]
    assert clean([later], archive=[earlier]).select("outcome", "source").rows() == [("yes", "historical")]


def test_of_records_known_at_once_the_one_updated_last_wins_and_one_without_time_loses() -> None:
    stale = raw_market(result="scalar", updated_at=None)
    fresh = raw_market(source="historical")
    assert clean([stale], archive=[fresh])["outcome"].to_list() == ["yes"]
    assert clean([fresh], archive=[stale])["outcome"].to_list() == ["yes"]


def test_of_records_of_equal_age_the_final_one_wins() -> None:
    pending = raw_market(status="closed", result="")
    final = raw_market(source="historical")
    assert clean([pending], archive=[final])["outcome"].to_list() == ["yes"]
    assert clean([final], archive=[pending])["outcome"].to_list() == ["yes"]


def test_archived_markets_of_other_days_stay_out() -> None:
    other = raw_market("KXRAIN-26MAR11-T1", day=DAY + timedelta(days=1), close_time=CLOSE + timedelta(days=1))
    assert clean([raw_market()], archive=[other])["market_id"].to_list() == ["KXRAIN-26MAR10-T1"]


def test_a_range_of_days_gives_the_same_rows_as_its_days_one_by_one() -> None:
    tomorrow = DAY + timedelta(days=1)
    later = {"title": "How much rain?", "day": tomorrow, "close_time": CLOSE + timedelta(days=1)}
    live = [raw_market("A", title="How much rain?"), raw_market("B", **later), raw_market("A", **later, known_at=KNOWN + timedelta(days=1))]
    events = [raw_event(), raw_event(day=tomorrow, known_at=KNOWN + timedelta(days=1), category="Moved")]
    whole = clean(live, days={"first_day": DAY, "last_day": tomorrow}, events=events)
    single = [clean(live, days={"first_day": day, "last_day": day}, events=events) for day in (DAY, tomorrow)]
    assert whole.height == 3
    assert whole.equals(pl.concat(single))


def test_a_market_whose_event_is_missing_is_kept_without_series() -> None:
    row = clean_one(events=[])
    assert (row["event_id"], row["series_id"], row["category"], row["outcome"]) == ("KXRAIN-26MAR10", None, "unknown", "yes")


@pytest.mark.parametrize(
    ("of_series", "of_event", "category"), [("Weather", "Climate", "Weather"), ("  ", "Climate", "Climate"), (None, "", "unknown")]
)
def test_the_category_is_the_series_else_the_events_else_unknown(of_series: str | None, of_event: str | None, category: str) -> None:
    assert clean_one(series=[raw_series(category=of_series)], events=[raw_event(category=of_event)])["category"] == category


@pytest.mark.parametrize(
    ("fields", "event_title", "question"),
    [
        ({"title": "Will it rain?"}, "Rain", "Will it rain?"),
        ({"title": None}, "Rain in NYC", "Rain in NYC — Above 1 inch"),
        ({"title": None, "yes_sub_title": None}, "Rain in NYC", "Rain in NYC"),
        ({"title": None}, None, None),
        ({"title": "Rain in NYC"}, "Rain in NYC", "Rain in NYC — Above 1 inch"),
        ({"title": "Rain in NYC?", "yes_sub_title": "Rain in NYC?"}, "Rain in NYC?", "Rain in NYC?"),
    ],
)
def test_the_question_says_which_market_it_is(fields: dict[str, Any], event_title: str | None, question: str | None) -> None:
    assert clean_one(events=[raw_event(title=event_title)], **fields)["question"] == question


def test_markets_of_one_event_with_one_title_are_told_apart_by_what_yes_stands_for() -> None:
    title = "Highest temperature in NYC?"
    rows = [raw_market("A", title=title, yes_sub_title="71° to 72°"), raw_market("B", title=title, yes_sub_title="73° or above")]
    alone = raw_market("C", title=title, yes_sub_title="60°", event_ticker="ANOTHER")
    assert clean([*rows, alone])["question"].to_list() == [f"{title} — 71° to 72°", f"{title} — 73° or above", title]


def test_the_description_joins_the_rules_that_there_are() -> None:
    cases = [("P", "S", "P\n\nS"), ("P", None, "P"), ("P", " ", "P"), (None, "S", "S"), (None, None, None), ("", "\n", None)]
    found = clean_all(*({"rules_primary": primary, "rules_secondary": secondary} for primary, secondary, _ in cases))
    assert [row["description"] for row in found] == [description for *_, description in cases]


def test_known_at_is_the_latest_of_the_facts_used_and_only_of_those() -> None:
    later, latest = KNOWN + timedelta(hours=1), KNOWN + timedelta(hours=2)
    assert clean_one(events=[], series=[])["known_at"] == KNOWN
    assert clean_one(events=[raw_event(known_at=later)])["known_at"] == later
    assert clean_one(series=[raw_series(known_at=latest)])["known_at"] == latest
    assert clean_one(series=[raw_series(known_at=latest, category="")])["known_at"] == KNOWN


def test_rows_do_not_depend_on_the_order_of_the_inputs() -> None:
    live = [raw_market(f"M{n}", result=random.Random(n).choice(["yes", "no"]), settlement_value=None) for n in range(30)]
    archive = [raw_market(f"M{n}", source="historical", result="scalar") for n in range(0, 30, 3)]
    shuffled = random.Random(1).sample(live, len(live)), random.Random(2).sample(archive, len(archive))
    assert clean(live, archive=archive).equals(clean(shuffled[0], archive=shuffled[1]))


def test_a_payout_that_contradicts_the_result_leaves_the_outcome_unknown_and_one_that_agrees_or_is_missing_does_not() -> None:
    contradicting = [("yes", Decimal(0)), ("no", Decimal(1)), ("yes", Decimal("0.5")), ("no", Decimal("0.24"))]
    agreeing = [("yes", None), ("no", None), ("yes", Decimal(1)), ("no", Decimal(0))]
    found = clean_all(*({"result": result, "settlement_value": value} for result, value in contradicting + agreeing))
    assert [(row["outcome"], row["outcome_reason"], row["settlement_value"]) for row in found[:4]] == [
        (None, "unknown result", value) for _, value in contradicting
    ]
    assert [(row["outcome"], row["outcome_reason"]) for row in found[4:]] == [(result, None) for result, _ in agreeing]


NO_POLYMARKET = {"polymarket_prices": raw.POLYMARKET_PRICES.empty()}


def clean_prices(*candles: dict[str, Any], of: pl.DataFrame | None = None) -> pl.DataFrame:
    inputs = {
        **NO_POLYMARKET,
        "kalshi_candles": raw.KALSHI_CANDLES.frame(list(candles)),
        "markets": markets(market()) if of is None else of,
    }
    return run_sql(PRICES, inputs, {"first_day": DAY, "last_day": DAY})


def test_a_price_is_what_stood_at_the_end_of_its_candle() -> None:
    row = clean_prices(raw_candle(24)).row(0, named=True)
    assert row["at"] == CLOSE - timedelta(hours=24)
    assert (row["bid"], row["ask"], row["last"]) == (Decimal("0.40"), Decimal("0.44"), Decimal("0.43"))


def test_without_a_trade_the_last_trade_is_the_previous_one() -> None:
    rows = clean_prices(raw_candle(3, price_close=None), raw_candle(2, price_close=None, price_previous=None))
    assert rows["last"].to_list() == [Decimal("0.41"), None]


def test_a_candle_that_ends_after_the_close_is_left_out() -> None:
    rows = clean_prices(raw_candle(1), raw_candle(0), raw_candle(-0.01), raw_candle(-1))
    assert rows["at"].to_list() == [CLOSE - timedelta(hours=1), CLOSE]


def test_a_candle_without_a_market_is_left_out() -> None:
    assert clean_prices(raw_candle(ticker="ANOTHER")).height == 0


def test_of_candles_that_end_at_once_the_shortest_stands() -> None:
    rows = clean_prices(raw_candle(24, period_minutes=1440, yes_bid_close=None), raw_candle(24, period_minutes=1), raw_candle(24))
    assert rows["period_minutes"].to_list() == [1]


def test_known_at_covers_the_candle_and_the_market_whose_close_bounds_it() -> None:
    later = KNOWN + timedelta(hours=1)
    assert clean_prices(raw_candle(known_at=later))["known_at"].to_list() == [later]
    assert clean_prices(raw_candle(), of=markets(market(known_at=later)))["known_at"].to_list() == [later]
