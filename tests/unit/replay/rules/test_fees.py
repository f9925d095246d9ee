"""Fees: documented examples of the venues, terms as integers, and the rule set of a day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.rules import Accumulator, OrderFees, fee_terms, rule_set, rule_sets, rules_for, trade_fee
from bellwether.replay.rules.fees import (
    BY_SHARES,
    BY_SHARES_0,
    BY_SHARES_2,
    BY_SHARES_HALF,
    BY_VALUE,
    BY_VALUE_2,
    BY_VALUE_HALF,
    FREE,
    QUADRATIC,
)
from bellwether.venues.polymarket.fees import schedule_of

CENTS = rule_set("kalshi-2026-05-28-cents")
SPRING, AUTUMN = rule_set("kalshi-2026-05-28"), rule_set("kalshi-2026-08-30")


@pytest.mark.parametrize(
    ("revenue", "trade", "rounding", "held", "net"),
    [
        ("-0.055", "0.0085", "0.0065", ("0.0065", "0.0030", "0.0095"), ("0.0150", "0.0050", "0.0150")),
        ("-0.15", "0.0041", "0.0059", ("0.0059", "0.0018", "0.0077"), ("0.0100", "0.0000", "0.0100")),
        ("-0.009903", "0.0005", "0.009597", ("0.009597", "0.009194", "0.008791"), ("0.010097", "0.000097", "0.000097")),
    ],
)
def test_the_documented_examples_of_three_fills(revenue: str, trade: str, rounding: str, held: tuple[str, ...], net: tuple[str, ...]):
    accumulator = Accumulator(CENTS)
    for expected_held, expected_net in zip(held, net, strict=True):
        fee = accumulator.add(Decimal(revenue), Decimal(trade))
        assert (fee.rounding, accumulator.held, fee.net) == (Decimal(rounding), Decimal(expected_held), Decimal(expected_net))


def test_the_documented_example_of_autumn_2026():
    fee = OrderFees(rule_set("kalshi-2026-08-30-cents")).fill(1, "0.055")
    assert (fee.trade, fee.rounding, fee.net) == (Decimal("0.003639"), Decimal("0.001361"), Decimal("0.005"))


def test_the_documented_accumulator_of_autumn_2026():
    accumulator = Accumulator(rule_set("kalshi-2026-08-30-cents"))
    fees = [accumulator.add(Decimal("-0.09"), Decimal("0.006")) for _ in range(3)]
    assert [fee.rebate for fee in fees] == [0, 0, Decimal("0.01")] and accumulator.held == Decimal("0.002")


def test_a_rebate_came_above_a_cent_and_later_comes_at_a_unit():
    half = Decimal("0.005")
    before, after = Accumulator(CENTS), Accumulator(rule_set("kalshi-2026-08-30-cents"))
    assert [before.add(-half, Decimal(0)).rebate for _ in range(3)] == [0, 0, 0]
    assert [after.add(Decimal("-0.1"), half).rebate for _ in range(2)] == [0, Decimal("0.01")]


@pytest.mark.parametrize(
    ("contracts", "price", "exact", "cent"),
    [(1, "0.5", "0.0175", "0.02"), (100, "0.5", "1.75", "1.75"), (100, "0.05", "0.3325", "0.34"), (100, "0.99", "0.0693", "0.07")],
)
def test_takers_pay_in_hundredths_of_a_cent_or_in_cents(contracts: int, price: str, exact: str, cent: str):
    assert OrderFees(SPRING).fill(contracts, price).trade == Decimal(exact)
    assert OrderFees(rule_set("kalshi-2025-07-01")).fill(contracts, price).trade == Decimal(cent)


SIZES = st.integers(1, 10_000).map(lambda lots: Decimal(lots) / 100)
PRICES = st.integers(1, 9999).map(lambda price: Decimal(price) / 10_000)
FILLS = st.lists(st.tuples(SIZES, PRICES, st.sampled_from(["buy", "sell"]), st.sampled_from(["taker", "maker"])), min_size=1, max_size=12)


@pytest.mark.parametrize("name", ["kalshi-2026-03-09", "kalshi-2026-05-28", "kalshi-2026-08-30-cents"])
@given(fills=FILLS)
def test_balances_stay_in_their_unit_and_no_fill_is_paid_for(name: str, fills: list[tuple[Decimal, Decimal, str, str]]):
    rules = rule_set(name)
    order, unit = OrderFees(rules, {"type": "quadratic_with_maker_fees"}), Decimal(min(rules.balance_unit, rules.rebate_unit)).scaleb(-6)
    paid = charged = Decimal(0)
    for size, price, action, role in fills:
        fee = order.fill(size, price, action=action, role=role)  # type: ignore[arg-type]
        change = (size * price if action == "sell" else -size * price) - fee.net
        assert fee.net >= 0 and fee.rounding >= 0 and change % unit == 0
        paid += fee.net
        charged += fee.trade
    assert charged <= paid < charged + len(fills) * Decimal(rules.balance_unit).scaleb(-6)


@given(lots=st.integers(1, 10**9), price=st.integers(1, 9999))
def test_the_fee_is_the_least_multiple_of_its_unit_that_covers_the_formula(lots: int, price: int):
    exact = Decimal(7 * lots * price * (10_000 - price)) / Decimal(10**12)
    for rules in (rule_set("kalshi-2025-07-01"), SPRING, AUTUMN):
        fee, unit = OrderFees(rules).fill(Decimal(lots) / 100, Decimal(price) / 10_000).trade, Decimal(rules.fee_unit).scaleb(-6)
        assert fee % unit == 0 and 0 <= fee - exact < unit


def test_a_size_or_price_that_cannot_be_is_refused():
    for contracts, price in (("-1", "0.5"), ("1", "1.01"), ("NaN", "0.5"), ("1", "-0.1")):
        with pytest.raises(ConfigError):
            OrderFees(SPRING).fill(contracts, price)


# Rule sets: selection by day, and data restricted to values that the code supports


def test_a_day_has_the_newest_rules_in_force():
    days = {
        "kalshi": {
            date(2024, 2, 3): "2021-07-01",
            date(2025, 6, 30): "2021-07-01",
            date(2025, 7, 1): "2025-07-01",
            date(2026, 3, 18): "2026-03-09",
            date(2026, 8, 29): "2026-05-28",
            date(2026, 8, 30): "2026-08-30",
        },
        "polymarket": {
            date(2025, 1, 1): "2020-10-01",
            date(2026, 2, 1): "2026-01-01",
            date(2026, 3, 29): "2026-03-06",
            date(2026, 3, 30): "2026-03-30",
            date(2026, 6, 30): "2026-04-01",
            date(2026, 7, 1): "2026-07-01",
        },
    }
    for venue, names in days.items():
        assert {day: rules_for(venue, day).name for day in names} == {day: f"{venue}-{name}" for day, name in names.items()}


def test_every_set_is_named_by_its_venue_and_day_and_says_where_it_is_from():
    for name, rules in rule_sets().items():
        assert rules.name == name and rules.title and rules.sources
        assert name.removesuffix("-cents") == f"{rules.venue}-{rules.since}"


def test_unknown_names_venues_and_early_days_are_refused():
    for call in (
        lambda: rule_set("kalshi-1999"),
        lambda: rules_for("manifold", date(2026, 1, 1)),
        lambda: rules_for("kalshi", date(2020, 1, 1)),
    ):
        with pytest.raises(ConfigError):
            call()


# Terms of a market as the engine's row of integers

KALSHI = rule_set("kalshi-2026-08-30")


def test_a_fee_type_and_multiplier_become_two_reduced_fractions():
    row = fee_terms(KALSHI, {"type": "quadratic_with_maker_fees", "multiplier": "0.5"}).tolist()
    assert row == [QUADRATIC, 7, 200, QUADRATIC, 7, 800, 0]
    assert fee_terms(KALSHI, {"type": "quadratic_with_combo_maker_fees"}).tolist() == [QUADRATIC, 7, 100, QUADRATIC, 7, 200, 0]


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


#: Terms that are refused and never free: rules, terms, error.
WRONG_TERMS: list[tuple[str, dict[str, object], type[Exception]]] = [
    ("kalshi-2026-08-30", {"type": "flat"}, ConfigError),
    ("kalshi-2026-08-30", {"multiplier": float("nan")}, SchemaError),
    ("kalshi-2026-08-30", {"multiplier": True}, SchemaError),
    ("kalshi-2026-08-30", {"waiver_until": "tomorrow"}, SchemaError),
    ("kalshi-2026-08-30", {"waiver_until": "2026-09-01T00:00:00"}, SchemaError),
    ("kalshi-2025-07-01", {"type": "quadratic", "multiplier": "0.1234567"}, SchemaError),
    ("kalshi-2025-07-01", {"type": "quadratic", "multiplier": "0.12345678901234567890"}, SchemaError),
    ("kalshi-2025-07-01", {"type": "quadratic", "multiplier": "1e30"}, SchemaError),
    ("polymarket-2026-03-30", {"type": "politics_fees"}, SchemaError),
    ("polymarket-2026-03-30", {"enabled": True}, SchemaError),
    ("polymarket-2026-03-30", {"type": "x", "schedule": {"rate": "much", "exponent": 1}}, SchemaError),
    ("polymarket-2026-04-01", {"schedule": {"rate": 0.02, "exponent": 3}}, ConfigError),
]


def test_terms_that_cannot_be_right_are_refused():
    for rules, fee, error in WRONG_TERMS:
        with pytest.raises(error):
            fee_terms(rule_set(rules), fee)
            pytest.fail(f"{rules} {fee}")


#: Rules, terms with the largest rate of its digits that is accepted, and a rate that is refused. Fees of 2,147,483,647 lots (the largest size) at
#: 50 cents are computed in 62 bits: below 4,611,686,018,427,387,904. Kalshi's first set also has a product below 9,223,372,036,854,775,808:
#: 161 and 189 times 2,147,483,647 x 5,000 x 5,000, plus 10^17.
LARGEST_RATES: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("kalshi-2025-07-01", {"multiplier": "0.0000023"}, {"multiplier": "0.0000027"}),
    ("kalshi-2026-08-30", {"multiplier": 12_271_335}, {"multiplier": 12_271_336}),
    ("polymarket-2026-04-01", {"schedule": {"rate": "0.000107373", "exponent": 0}}, {"schedule": {"rate": "0.000107377", "exponent": 0}}),
    (
        "polymarket-2026-04-01",
        {"schedule": {"rate": "0.000214747", "exponent": 0.5}},
        {"schedule": {"rate": "0.000214749", "exponent": 0.5}},
    ),
    ("polymarket-2026-04-01", {"schedule": {"rate": "0.000429493", "exponent": 1}}, {"schedule": {"rate": "0.000429497", "exponent": 1}}),
    ("polymarket-2026-04-01", {"schedule": {"rate": "0.001717983", "exponent": 2}}, {"schedule": {"rate": "0.001717987", "exponent": 2}}),
]


@pytest.mark.parametrize(("rules", "accepted", "refused"), LARGEST_RATES)
def test_rates_beyond_the_integers_of_the_engine_are_refused(rules: str, accepted: dict[str, object], refused: dict[str, object]):
    assert fee_terms(rule_set(rules), accepted)[1] > 0
    with pytest.raises(SchemaError, match="more digits"):
        fee_terms(rule_set(rules), refused)


#: Rules, terms, kind of the taker's formula.
POLYMARKET_TERMS: list[tuple[str, dict[str, object], int]] = [
    ("2020-10-01", {"type": "crypto_fees_v2"}, FREE),
    ("2026-01-01", {"type": "crypto_15_min"}, BY_VALUE_2),
    ("2026-01-01", {"type": "crypto_fees_v2"}, FREE),
    ("2026-03-06", {"type": "crypto_fees_v2"}, BY_VALUE_2),
    ("2026-03-06", {"type": "sports_fees"}, BY_VALUE),
    ("2026-04-01", {"type": "sports_fees"}, BY_SHARES),
    ("2026-04-01", {"type": "x", "schedule": {"rate": 0.01, "exponent": 2}}, BY_SHARES_2),
    ("2026-04-01", {"type": "sports_fees", "enabled": False}, FREE),
    ("2026-04-01", {"enabled": True, "category": "Weather"}, BY_SHARES),
    ("2026-04-01", {}, FREE),
    ("2026-03-30", {"type": "weather_fees", "schedule": {"rate": 0.025, "exponent": 0.5}}, BY_VALUE_HALF),
    ("2026-04-01", {"type": "weather_fees", "schedule": {"rate": "0.025", "exponent": 0.5}}, BY_SHARES_HALF),
    ("2026-04-01", {"type": "x", "schedule": {"rate": 0.01, "exponent": 0}}, BY_SHARES_0),
]


def test_polymarkets_terms_follow_regime_kind_and_schedule():
    for rules, fee, kind in POLYMARKET_TERMS:
        row = fee_terms(rule_set(f"polymarket-{rules}"), fee).tolist()
        assert (row[0], row[3:]) == (kind, [FREE, 0, 1, 0]), (rules, fee)


def test_a_polymarket_schedule_may_charge_makers():
    row = fee_terms(rule_set("polymarket-2026-04-01"), {"schedule": {"rate": 0.02, "exponent": 1, "takerOnly": False}}).tolist()
    assert row[3:6] == row[:3] != [FREE, 0, 1]


def test_the_default_of_sports_is_that_of_the_day_of_the_rules():
    april, july = (fee_terms(rule_set(f"polymarket-2026-{day}"), {"type": "sports_fees_v2"}).tolist() for day in ("04-01", "07-01"))
    assert april[:3] == [BY_SHARES, 3, 100] and july[:3] == [BY_SHARES, 1, 20]


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
@given(lots=st.integers(1, 10**9), price=st.integers(1, 9999))
def test_the_integers_say_what_the_venues_own_schedule_says(rules: str, market: dict[str, object], lots: int, price: int):
    chosen = rule_set(rules)
    row = fee_terms(chosen, {"type": market["feeType"], "schedule": market.get("feeSchedule")}).tolist()
    size, at = Decimal(lots) / 100, Decimal(price) / 10_000
    schedule = schedule_of(market, datetime.combine(chosen.since, datetime.min.time(), UTC))
    assert trade_fee(chosen, row, size, at, "taker") == schedule.fee(size, at, "buy")
    assert trade_fee(chosen, row, size, at, "maker") == 0
