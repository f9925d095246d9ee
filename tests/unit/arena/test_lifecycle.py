"""State machines of decisions, weeks, their order, and the universe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.identity import decision_order, week_number, week_of, week_start
from bellwether.arena.lifecycle import find_complete_cohorts, is_start_allowed
from bellwether.arena.market import MarketStatus, UnknownFees
from bellwether.arena.records import FrozenCohort, FrozenUniverse, decode_record, encode_record
from bellwether.arena.universe import build_universe, market_from_row, select_universe, status_from_row
from bellwether.arena.weekly.context import list_deciding_cohorts as weekly_deciding
from bellwether.errors import ConfigError, SchemaError
from bellwether.journal.journal import Journal
from bellwether.venues.polymarket.fees import FeeSchedule, Regime
from tests.unit.arena.weeks import Arena
from tests.unit.arena.world import V1, agent, agents_frame, usd

NOW = datetime(2026, 3, 1, 1, 0, tzinfo=UTC)


def deciding_in(week: date, tmp_path: Path, *started: date) -> list[date]:
    """Return the cohorts in the journal that decide in a week."""
    with Journal(f"sqlite:///{tmp_path}/journal.db") as journal:
        world = Arena(tmp_path).world(journal)
        for sunday in started:
            cohort = FrozenCohort(sunday, "rules", "v1", False, {"hold": "rule/hold"}, week_start(sunday), {})
            world.records.once("cohort", sunday.isoformat(), partial(encode_record, cohort))
        return [cohort.week for cohort in weekly_deciding(world, week, reconstructed=False)]


SUNDAYS = [date(2026, 3, 1) + number * timedelta(days=7) for number in range(7)]


def test_the_newest_five_decide(tmp_path: Path) -> None:
    assert deciding_in(SUNDAYS[-1], tmp_path, *SUNDAYS) == SUNDAYS[:1:-1]


def test_an_older_cohort_takes_the_place_of_none(tmp_path: Path) -> None:
    assert deciding_in(SUNDAYS[-1], tmp_path, *SUNDAYS[:-1]) == SUNDAYS[-2:1:-1]


def test_a_tick_starts_a_cohort_in_the_first_hour_of_sunday() -> None:
    assert not is_start_allowed(datetime(2026, 3, 4, 12, tzinfo=UTC))
    assert is_start_allowed(datetime(2026, 3, 1, 0, 59, 59, tzinfo=UTC))
    assert not is_start_allowed(datetime(2026, 3, 1, 1, tzinfo=UTC))


def test_a_week_has_one_cohort_whenever_it_is_asked_for() -> None:
    assert {week_of(datetime(2026, 3, day, 12, tzinfo=UTC)) for day in range(1, 8)} == {date(2026, 3, 1)}
    assert week_start(date(2026, 3, 1)) == datetime(2026, 3, 1, tzinfo=UTC)
    assert week_of(datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == date(2026, 2, 22)
    with pytest.raises(ConfigError, match="not a Sunday"):
        week_start(date(2026, 3, 2))
    with pytest.raises(ConfigError, match="zone"):
        week_of(datetime(2026, 3, 1))


def test_weeks_are_counted_between_midnights() -> None:
    start = datetime(2025, 12, 7, 23, 30, tzinfo=UTC)
    assert week_number(start, datetime(2025, 12, 14, 0, 2, tzinfo=UTC)) == 2
    assert week_number(start, datetime(2025, 12, 13, 23, 59, tzinfo=UTC)) == 1


def test_a_cohort_is_complete_when_nothing_can_follow() -> None:
    over = datetime(2026, 3, 31, tzinfo=UTC)
    agents = agents_frame([agent(family=family) for family in ("a", "b")])
    first, second = agents["agent_id"]

    def is_complete(*states: tuple[str, str], now: datetime = over, closed: Sequence[str] = (), held: int = 0) -> bool:
        decisions = pl.DataFrame(states, schema=["agent_id", "state"], orient="row")
        rows = agents.with_columns(closed_at=pl.when(pl.col("agent_id").is_in(list(closed))).then(pl.lit(NOW)))
        return find_complete_cohorts(rows, decisions, {first: held}, {"v1": V1}, now) == {SUNDAYS[0]}

    finished = ((first, "failed"), (first, "finished"), (second, "refused"))
    assert is_complete(*finished)
    assert not is_complete(*finished, held=1)
    assert not is_complete(*finished, now=over - timedelta(seconds=1))
    outage = (*finished[:2], (second, "failed"), (second, "blocked"))
    assert not is_complete(*outage)
    assert is_complete(*outage, closed=[second])
    assert not is_complete(*finished[:2])


def test_each_agent_is_first_equally_often() -> None:
    names = ["c", "a", "b"]
    orders = [decision_order(names, date(2026, 3, 1) + n * timedelta(days=7)) for n in range(6)]
    assert [sorted(order) for order in orders] == [["a", "b", "c"]] * 6
    assert sorted(order[0] for order in orders) == ["a", "a", "b", "b", "c", "c"]
    assert decision_order(["b", "a"], date(2026, 3, 1)) == decision_order(["a", "b", "a"], date(2026, 3, 1))
    assert decision_order([], date(2026, 3, 1)) == []


def row(market_id: str, volume: str | None = "1", **more: Any) -> dict[str, Any]:
    prices = [Decimal("0.4"), Decimal("0.6")]
    known = {"outcomes": ["Yes", "No"], "outcome_prices": prices, "token_ids": ["y", "n"], "question": "q", "active": True, "closed": False}
    known |= {"best_bid": Decimal("0.39"), "best_ask": Decimal("0.41")}
    return {"market_id": market_id, "volume": volume and Decimal(volume), **known, **more}


def test_the_largest_volume_first_and_no_id_twice() -> None:
    rows = [row("b", "25"), row("a", "50"), row("a", "50"), row("c", "40"), row("closed", "2500", closed=True), row("nulls", None)]
    chosen = select_universe([market_from_row(one, NOW) for one in rows], 500, NOW)
    assert [market.market_id for market in chosen.markets] == ["a", "c", "b", "nulls"]
    assert len(select_universe([market_from_row(one, NOW) for one in rows], 1, NOW).markets) == 1


def test_a_market_that_has_ended_or_has_no_price_is_in_no_universe() -> None:
    rows = [
        row("open", end_time=NOW + timedelta(seconds=1)),
        row("ended", end_time=NOW),
        row("unpriced", outcome_prices=None),
        row("one-sided", best_ask=Decimal(1), last_trade_price=Decimal("0.41")),
    ]
    assert [market.market_id for market in select_universe([market_from_row(one, NOW) for one in rows], 500, NOW).markets] == ["open"]


@pytest.mark.parametrize("quotes", [("0.39", "1"), ("0.39", None), (None, "0.41"), ("0", "0.41"), (None, None)])
def test_a_listing_that_quotes_one_side_has_no_price(quotes: tuple[str | None, str | None]) -> None:
    """Neither the last trade nor the listed price replaces the midpoint."""
    known = {name: value and Decimal(value) for name, value in zip(("best_bid", "best_ask"), quotes, strict=True)}
    assert market_from_row(row("m", last_trade_price=Decimal("0.41"), **known), NOW).prices == (None, None)


def test_the_hash_is_of_what_is_shown() -> None:
    markets = [market_from_row(row(name), NOW) for name in "ab"]
    assert select_universe(markets, 5, NOW).digest == select_universe(markets[::-1], 5, NOW).digest
    assert select_universe(markets, 5, NOW).digest != select_universe([markets[0], replace(markets[1], question="other")], 5, NOW).digest


def test_a_market_without_an_id_is_refused() -> None:
    with pytest.raises(SchemaError, match="no market_id"):
        market_from_row(row(""), NOW)


@pytest.mark.parametrize(
    ("case", "more", "expected"),
    [
        ("open", {}, MarketStatus.ACTIVE),
        ("closed", {"closed": True}, MarketStatus.CLOSED),
        ("inactive", {"active": False}, MarketStatus.CLOSED),
        ("no orders", {"accepting_orders": False}, MarketStatus.CLOSED),
        ("disputed", {"closed": True, "uma_resolution_status": "Disputed"}, MarketStatus.DISPUTED),
        ("proposed", {"closed": True, "uma_resolution_status": "proposed"}, MarketStatus.PROPOSED),
        ("no outcomes", {"outcomes": []}, MarketStatus.CLOSED),
    ],
)
def test_where_a_market_stands(case: str, more: dict[str, Any], expected: MarketStatus) -> None:
    assert status_from_row(row("m", **more)) is expected


@pytest.mark.parametrize(
    ("case", "outcomes", "prices", "expected"),
    [
        ("an outcome without a price", ["One", "", "Three"], ["0.4", "0.5"], (400_000, 500_000, None)),
        ("prices outside of 0 to 1", ["A", "B"], ["2", "-1"], (None, None)),
        ("prices of 0 and 1", ["Yes", "No"], ["0", "1"], (0, 1_000_000)),
        ("no prices", ["Yes", "No"], None, (None, None)),
    ],
)
def test_prices_of_a_listing(case: str, outcomes: list[str], prices: list[str] | None, expected: tuple[int | None, ...]) -> None:
    market = market_from_row(row("m", outcomes=outcomes, outcome_prices=prices and [Decimal(price) for price in prices]), NOW)
    assert market.prices == expected


def test_yes_is_found_by_its_name() -> None:
    market = market_from_row(row("m", outcomes=["No", "Yes"], outcome_prices=[Decimal("0.9"), Decimal("0.1")], token_ids=["n", "y"]), NOW)
    assert (market.price("YES"), market.price("NO"), market.place("yes")) == (usd("0.1"), usd("0.9"), 1)


def test_fees_are_read_where_they_can_be() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    known = market_from_row(
        row("m", fees_enabled=True, fee_type="sports_fees", fee_rate=Decimal("0.03"), fee_exponent=Decimal(1), taker_only=True), at
    )
    assert known.fees.rate == Decimal("0.03")
    half = row("m", fees_enabled=True, fee_type="weather_fees", fee_rate=Decimal("0.025000"), fee_exponent=Decimal("0.500000"))
    assert market_from_row(half, at).fees == FeeSchedule(Regime.BY_SHARES, Decimal("0.025"), Decimal("0.5"), source="market")
    assert not market_from_row(row("m", taker_base_fee=1000), at).fees.is_free, "a base fee alone tells that there are fees"
    sports = row("m", fees_enabled=True, fee_type="sports_fees_v2")
    assert [market_from_row(sports, when).fees.rate for when in (at, datetime(2026, 7, 1, tzinfo=UTC))] == [
        Decimal("0.03"),
        Decimal("0.05"),
    ]


@pytest.mark.parametrize(
    "terms", [{"fee_rate": Decimal(7)}, {"fee_exponent": Decimal(1)}, {"fee_rate": Decimal("0.1"), "fee_exponent": Decimal(20)}]
)
def test_fees_that_cannot_be_read_are_unknown_and_never_nothing(terms: dict[str, Decimal]) -> None:
    market = market_from_row(row("m", fees_enabled=True, **terms), datetime(2026, 5, 1, tzinfo=UTC))
    assert isinstance(market.fees, UnknownFees)
    assert market.fees.reason.startswith("reading the fees of market 'm': feeSchedule")
    stored = build_universe([market, replace(market, market_id="h", fees=FeeSchedule(Regime.BY_SHARES, Decimal("0.025"), Decimal("0.5")))])
    assert decode_record(FrozenUniverse, encode_record(FrozenUniverse(stored, NOW, False, "test"))).universe == stored
