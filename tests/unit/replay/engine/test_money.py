"""Fees of the compiled engine, compared with exact arithmetic, and conservation of money."""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal
from math import isqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.engine import account
from bellwether.replay.engine.codes import Role
from bellwether.replay.engine.session import new_markets
from bellwether.replay.rules import Accumulator, RuleSet, rule_set, rule_sets
from bellwether.replay.rules import trade_fee as exact_fee
from bellwether.replay.rules.fees import _is_computable
from tests.sizes import EXAMPLES
from tests.unit.replay.engine.small_tapes import BOOK, KALSHI_FEES, from_python, tape

fill_fee, trade_fee, _pair, _product = (
    from_python(function) for function in (account.fill_fee, account.trade_fee, account._pair, account._product)
)
prorate = from_python(account.prorate)

#: Kinds of terms with their rates.
TERMS = [(0, 0, 1), (1, 7, 100), (1, 7, 400), (1, 1_234, 10**7), (2, 1, 40), (3, 1, 4), (4, 7, 400), (5, 1, 4), (6, 7, 100)]
TERMS += [(7, 7, 100), (8, 1, 4), (8, 997, 4_000), (9, 1, 40), (9, 1000, 10**7 + 1)]


def market(fees: tuple[int, ...], rules: RuleSet) -> np.ndarray:
    """Return a row of the markets with these terms."""
    return new_markets(tape(*BOOK, fees=fees), rules)[0]


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_trade_fees_equal_exact_arithmetic(terms: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(terms)
    for chosen in rule_sets().values():
        row = market((*terms, *terms, 0), chosen)
        for largest in (500, 5_000, 10**9) * max(1, EXAMPLES // 75):
            price, lots = int(generator.integers(1, 10_000)), int(generator.integers(1, largest))
            exact = exact_fee(chosen, [*terms, *terms], Decimal(lots) / 100, Decimal(price) / 10_000, "taker")
            assert trade_fee(row, int(Role.TAKER), price, lots) == exact * 10**6, (chosen.name, price, lots)


@given(price=st.integers(1, 9_999), lots=st.integers(1, 2 * 10**9), num=st.integers(1, 1000), den=st.integers(1, 10**8))
def test_a_fee_by_square_roots_is_that_of_whole_numbers(price: int, lots: int, num: int, den: int) -> None:
    """The largest k with (k − 1/2)² ≤ (num × lots / den)² × price × (10000 − price) / unit², with integer square roots."""
    row = market((8, num, den, 0, 0, 1, 0), rule_set("polymarket-2026-04-01"))
    unit = int(row["fee_unit"])
    square, step = (num * lots) ** 2 * price * (10_000 - price), unit * den
    units = (isqrt(4 * square) + step) // (2 * step) if square >= step * step else 0
    assert trade_fee(row, int(Role.TAKER), price, lots) == units * unit


def test_digits_of_products_are_those_of_whole_numbers() -> None:
    generator = Random(4)
    numbers = [0, 1, 2**31 - 1, 2**31, 2**62 - 1, 2**62, *(generator.getrandbits(62) for _ in range(10))]
    for a in numbers:
        for b in numbers:
            assert _pair(a, b) == divmod(a * b, 2**62)
            c = generator.choice(numbers)
            first, second, last = _product(a, b, c)
            assert (first << 124) + (second << 62) + last == a * b * c
            assert 0 <= second < 2**62 and 0 <= last < 2**62


def test_the_largest_rate_that_is_accepted_is_computed_exactly() -> None:
    generator = Random(5)
    for chosen in rule_sets().values():
        step = 100 * 10_000 * chosen.fee_unit
        # The greatest numerator over 100 whose products with every size and price stay within 64 bits.
        largest = bisect_left(range(1, 2**50), True, key=lambda num: not _is_computable(1, num, 100, chosen.fee_unit))
        row = market((1, largest, 100, 0, 0, 1, 0), chosen)
        for lots, price in [(10**9, 5_000), *((generator.randint(1, 10**9), generator.randint(1, 9_999)) for _ in range(20))]:
            exact = -(-largest * lots * price * (10_000 - price) // step) * chosen.fee_unit
            assert trade_fee(row, int(Role.TAKER), price, lots) == exact, (chosen.name, largest)


def test_a_waiver_ends_at_its_instant() -> None:
    # 100 contracts at 50 cents: 7 % of a quarter of a hundred dollars.
    row = market((1, 7, 100, 1, 7, 400, 1_000), rule_set("kalshi-2025-07-01"))
    for ts, fee in ((999, 0), (1_000, 1_750_000), (1_001, 1_750_000)):
        assert fill_fee(row, int(Role.TAKER), 0, 5_000, 10_000, ts, 0) == (fee, 0)


@pytest.mark.parametrize("rules", [name for name, rules in rule_sets().items() if rules.balance_unit])
def test_rounding_of_accounts_equals_exact_arithmetic(rules: str) -> None:
    chosen, generator = rule_set(rules), np.random.default_rng(3)
    row = market(KALSHI_FEES, chosen)
    assert row["rebate_unit"] > 0
    exact, rounding = Accumulator(chosen), 0
    prices, sizes = generator.integers(1, 10_000, 400), generator.integers(1, 400, 400)
    # Half units add up to whole ones.
    prices[::2], sizes[::2] = 5_000, generator.choice([1, 20, 21, 41], 200)
    for price, lots, action in zip(prices, sizes, generator.integers(0, 2, 400), strict=True):
        trade = exact_fee(chosen, KALSHI_FEES, Decimal(int(lots)) / 100, Decimal(int(price)) / 10_000, "taker")
        revenue = Decimal(int(price * lots)).scaleb(-6)
        fee, rounding = fill_fee(row, int(Role.TAKER), int(action), int(price), int(lots), 0, rounding)
        assert fee == exact.add(revenue if action else -revenue, trade).net * 10**6
        assert rounding == exact.held * 10**6


@given(total=st.integers(0, 10**16), part=st.integers(0, 10**9), whole=st.integers(1, 10**9))
def test_shares_of_a_basis_do_not_overflow(total: int, part: int, whole: int) -> None:
    assert prorate(total, min(part, whole), whole) == total * min(part, whole) // whole
