"""Exact fees: the venue's documented examples, the original's float overcharges, and what must hold for every order."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError
from bellwether.replay.rules import Accumulator, OrderFees, fee_terms, kalshi_fee, rule_set, trade_fee

CENTS = rule_set("kalshi-2026-05-28-cents")
SPRING, AUTUMN = rule_set("kalshi-2026-05-28"), rule_set("kalshi-2026-08-30")
PMB = rule_set("pmb-2026-01")


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
    assert kalshi_fee(SPRING, contracts, price) == Decimal(exact)
    assert kalshi_fee(rule_set("kalshi-2025-07-01"), contracts, price) == Decimal(cent)


def float_fee(contracts: int, cents: int, role: str) -> int:
    fee = trade_fee(PMB, fee_terms(PMB, None).tolist(), Decimal(contracts), Decimal(cents) / 100, role)  # type: ignore[arg-type]
    return int(fee * 100)


def exact_fee(contracts: int, cents: int, role: str) -> int:
    return -(-7 * contracts * cents * (100 - cents) // (10_000 if role == "taker" else 40_000))


@pytest.mark.parametrize(("role", "cases"), [("taker", 45), ("maker", 19)])
def test_the_originals_floats_overcharge_a_cent_in_known_cases(role: str, cases: int):
    difference = [float_fee(size, cents, role) - exact_fee(size, cents, role) for size in range(1, 101) for cents in range(1, 100)]
    assert set(difference) == {0, 1} and sum(difference) == cases


SIZES = st.integers(1, 10_000).map(lambda lots: Decimal(lots) / 100)
PRICES = st.integers(1, 999).map(lambda mills: Decimal(mills) / 1000)
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


@given(lots=st.integers(1, 10**9), mills=st.integers(1, 999))
def test_the_fee_is_the_least_multiple_of_its_unit_that_covers_the_formula(lots: int, mills: int):
    exact = Decimal(7 * lots * mills * (1000 - mills)) / Decimal(10**10)
    for rules in (rule_set("kalshi-2025-07-01"), SPRING, AUTUMN):
        fee, unit = kalshi_fee(rules, Decimal(lots) / 100, Decimal(mills) / 1000), Decimal(rules.fee_unit).scaleb(-6)
        assert fee % unit == 0 and 0 <= fee - exact < unit


@pytest.mark.parametrize(("contracts", "price"), [("-1", "0.5"), ("1", "1.01"), ("NaN", "0.5"), ("1", "-0.1")])
def test_a_size_or_price_that_cannot_be_is_refused(contracts: str, price: str):
    with pytest.raises(ConfigError, match="computing a fee"):
        kalshi_fee(SPRING, contracts, price)
