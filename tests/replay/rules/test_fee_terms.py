"""Terms of a market as the row of integers that the engine computes with."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.rules import fee_terms, rule_set, trade_fee
from bellwether.replay.rules.terms import (
    BY_SHARES,
    BY_SHARES_0,
    BY_SHARES_2,
    BY_SHARES_HALF,
    BY_VALUE,
    BY_VALUE_2,
    BY_VALUE_HALF,
    FLOAT,
    FREE,
    QUADRATIC,
)
from bellwether.venues.polymarket.fees import schedule_of

KALSHI = rule_set("kalshi-2026-08-30")


def test_a_fee_type_and_multiplier_become_two_reduced_fractions():
    row = fee_terms(KALSHI, {"type": "quadratic_with_maker_fees", "multiplier": "0.5"}).tolist()
    assert row == [QUADRATIC, 7, 20_000, QUADRATIC, 7, 80_000, 0]


@pytest.mark.parametrize(
    ("kind", "share"),
    [("quadratic", 0), ("quadratic_with_maker_fees", Fraction(1, 4)), ("quadratic_with_combo_maker_fees", Fraction(1, 2))],
)
def test_makers_pay_nothing_a_quarter_or_half_of_a_takers_fee(kind: str, share: Fraction):
    taker_kind, taker, taker_den, maker_kind, maker, maker_den, _ = fee_terms(KALSHI, {"type": kind}).tolist()
    assert Fraction(maker, maker_den) == share * Fraction(taker, taker_den)
    assert (taker_kind, maker_kind) == (QUADRATIC, QUADRATIC if share else FREE)


def test_no_terms_are_the_general_ones():
    assert fee_terms(KALSHI, None).tolist() == fee_terms(KALSHI, {"type": "quadratic", "multiplier": 1}).tolist()
    assert fee_terms(KALSHI, {"type": None, "multiplier": None}).tolist() == fee_terms(KALSHI, {}).tolist()


@pytest.mark.parametrize("until", ["2026-09-01T00:00:00Z", "2026-08-31T20:00:00-04:00", datetime(2026, 9, 1, tzinfo=UTC)])
def test_a_waiver_ends_at_an_instant(until: object):
    assert fee_terms(KALSHI, {"waiver_until": until})[6] == 1_788_220_800 * 10**9


def test_the_original_charges_every_market_alike():
    pmb = rule_set("pmb-2026-01")
    assert fee_terms(pmb, {"type": "whatever", "multiplier": 0}).tolist() == [FLOAT, 7, 100, FLOAT, 7, 400, 0]


@pytest.mark.parametrize(
    ("fee", "error", "message"),
    [
        ({"type": "flat"}, ConfigError, "kalshi-2026-08-30 has no fee type 'flat'; it has quadratic,"),
        ({"multiplier": float("nan")}, SchemaError, "the multiplier is nan"),
        ({"multiplier": True}, SchemaError, "the multiplier is True"),
        ({"waiver_until": "tomorrow"}, SchemaError, "waiver_until is 'tomorrow'"),
        ({"waiver_until": "2026-09-01T00:00:00"}, SchemaError, "has no zone"),
    ],
)
def test_terms_that_cannot_be_right_are_refused(fee: dict[str, object], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        fee_terms(KALSHI, fee)


@pytest.mark.parametrize(
    ("rules", "fee", "kind"),
    [
        ("polymarket-2020-10-01", {"type": "crypto_fees_v2"}, FREE),
        ("polymarket-2026-01-01", {"type": "crypto_15_min"}, BY_VALUE_2),
        ("polymarket-2026-01-01", {"type": "crypto_fees_v2"}, FREE),
        ("polymarket-2026-03-06", {"type": "crypto_fees_v2"}, BY_VALUE_2),
        ("polymarket-2026-03-06", {"type": "sports_fees"}, BY_VALUE),
        ("polymarket-2026-04-01", {"type": "sports_fees"}, BY_SHARES),
        ("polymarket-2026-04-01", {"type": "x", "schedule": {"rate": 0.01, "exponent": 2}}, BY_SHARES_2),
        ("polymarket-2026-04-01", {"type": "sports_fees", "enabled": False}, FREE),
        ("polymarket-2026-04-01", {"enabled": True, "category": "Weather"}, BY_SHARES),
        ("polymarket-2026-04-01", {}, FREE),
        ("polymarket-2026-03-30", {"type": "weather_fees", "schedule": {"rate": 0.025, "exponent": 0.5}}, BY_VALUE_HALF),
        ("polymarket-2026-04-01", {"type": "weather_fees", "schedule": {"rate": "0.025", "exponent": 0.5}}, BY_SHARES_HALF),
        ("polymarket-2026-04-01", {"type": "x", "schedule": {"rate": 0.01, "exponent": 0}}, BY_SHARES_0),
    ],
)
def test_polymarkets_terms_follow_regime_kind_and_schedule(rules: str, fee: dict[str, object], kind: int):
    row = fee_terms(rule_set(rules), fee).tolist()
    assert row[0] == kind and row[3:] == [FREE, 0, 1, 0]


def test_a_polymarket_schedule_may_charge_makers():
    row = fee_terms(rule_set("polymarket-2026-04-01"), {"schedule": {"rate": 0.02, "exponent": 1, "takerOnly": False}}).tolist()
    assert row[3:6] == row[:3] != [FREE, 0, 1]


def test_the_default_of_sports_is_that_of_the_day_of_the_rules():
    april, july = (fee_terms(rule_set(f"polymarket-2026-{day}"), {"type": "sports_fees_v2"}).tolist() for day in ("04-01", "07-01"))
    assert april[:3] == [BY_SHARES, 3, 10_000] and july[:3] == [BY_SHARES, 1, 2_000]


@pytest.mark.parametrize("fee", [{"type": "politics_fees"}, {"enabled": True}, {"type": "x", "schedule": {"rate": "much", "exponent": 1}}])
def test_unknown_terms_are_an_error_and_never_free(fee: dict[str, object]):
    with pytest.raises(SchemaError, match="reading the fees of market"):
        fee_terms(rule_set("polymarket-2026-03-30"), fee)


def test_an_exponent_that_the_engine_has_no_formula_for_is_refused():
    with pytest.raises(ConfigError, match="the exponent 3"):
        fee_terms(rule_set("polymarket-2026-04-01"), {"schedule": {"rate": 0.02, "exponent": 3}})


@pytest.mark.parametrize(
    ("rules", "market"),
    [
        ("polymarket-2026-01-01", {"feeType": "crypto_15_min"}),
        ("polymarket-2026-03-06", {"feeType": "sports_fees"}),
        ("polymarket-2026-04-01", {"feeType": "sports_fees"}),
        ("polymarket-2026-04-01", {"feeType": "x", "feeSchedule": {"rate": 0.07, "exponent": 2}}),
        ("polymarket-2026-03-30", {"feeType": "weather_fees", "feeSchedule": {"rate": 0.025, "exponent": 0.5}}),
        ("polymarket-2026-07-01", {"feeType": "sports_fees_v2"}),
    ],
)
@settings(max_examples=40)
@given(lots=st.integers(1, 10**9), price=st.integers(1, 999))
def test_the_integers_say_what_the_venues_own_schedule_says(rules: str, market: dict[str, object], lots: int, price: int):
    chosen = rule_set(rules)
    row = fee_terms(chosen, {"type": market["feeType"], "schedule": market.get("feeSchedule")}).tolist()
    size, at = Decimal(lots) / 100, Decimal(price) / 1000
    schedule = schedule_of(market, datetime.combine(chosen.since, datetime.min.time(), UTC))
    assert trade_fee(chosen, row, size, at, "taker") == schedule.fee(size, at, "buy")
    assert trade_fee(chosen, row, size, at, "maker") == 0


@pytest.mark.parametrize("multiplier", ["0.1234567", "0.12345678901234567890", "1e30"])
def test_a_multiplier_that_integers_cannot_hold_is_refused(multiplier: str):
    with pytest.raises(SchemaError, match=r"multiplier.*finer or larger"):
        fee_terms(rule_set("kalshi-2025-07-01"), {"type": "quadratic", "multiplier": multiplier})
