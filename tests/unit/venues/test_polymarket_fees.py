"""Polymarket's fees: three regimes, precedence of the market's own terms, and exact decimals."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError, SchemaError
from bellwether.venues.polymarket.fees import FREE, FeeSchedule, Regime, schedule_of

BEFORE = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)
JANUARY = datetime(2026, 1, 20, tzinfo=UTC)
MARCH = datetime(2026, 3, 6, tzinfo=UTC)
LATE_MARCH = datetime(2026, 3, 31, 23, 59, 59, tzinfo=UTC)
JUNE = datetime(2026, 6, 30, 23, 59, 59, tzinfo=UTC)
JULY = datetime(2026, 7, 24, tzinfo=UTC)
SCHEDULE = {"rate": 0.07, "exponent": 1, "takerOnly": True, "rebateRate": 0.2}
TODAY = {"id": "1", "feesEnabled": True, "feeType": "crypto_fees_v2", "feeSchedule": SCHEDULE, "takerBaseFee": 1000, "makerBaseFee": 1000}
IN_MARCH = {"id": "2", "feesEnabled": True, "takerBaseFee": 1000, "makerBaseFee": 1000}


def typed(kind: str) -> dict[str, Any]:
    return {**IN_MARCH, "feeType": kind}


VECTORS = [
    # regime 3: shares × rate × p(1 − p), 5 decimals
    (TODAY, JULY, "100", "0.5", "1.75000"),
    (TODAY, JULY, "1", "0.5", "0.01750"),
    (TODAY, JULY, "100", "0.01", "0.06930"),
    (TODAY, JULY, "100", "0.99", "0.06930"),
    (TODAY, JULY, "12.34", "0.037", "0.03078"),
    (TODAY, JULY, "0.01", "0.001", "0"),
    (TODAY, JULY, "1000000", "0.999", "69.93000"),
    (TODAY, JULY, "100", "1", "0"),
    (TODAY, JULY, "0", "0.5", "0"),
    (typed("sports_fees"), JUNE, "100", "0.5", "0.75000"),
    (typed("sports_fees_v2"), JULY, "100", "0.5", "1.25000"),
    (typed("politics_fees"), JULY, "100", "0.5", "1.00000"),
    (typed("weather_fees"), JULY, "100", "0.5", "1.25000"),
    (typed("unheard_of"), JULY, "100", "0.5", "1.25000"),
    (typed("geopolitics_fees"), JULY, "100", "0.5", "0"),
    # regime 2: shares × p × rate × (p(1 − p))^exponent, 4 decimals
    (typed("crypto_fees"), MARCH, "100", "0.5", "0.7813"),
    (typed("crypto_fees"), MARCH, "100", "0.9", "0.1823"),
    (typed("crypto_fees"), MARCH, "100", "0.1", "0.0203"),
    (typed("sports_fees"), MARCH, "100", "0.5", "0.2188"),
    (typed("sports_fees"), MARCH, "0.1", "0.01", "0"),
    (typed("politics_fees"), MARCH, "100", "0.5", "0"),
    # regime 1: the short crypto markets alone, from January 2026
    (typed("crypto_15_min"), JANUARY, "100", "0.5", "0.7813"),
    (typed("crypto_fees"), JANUARY, "100", "0.5", "0"),
    (typed("crypto_15_min"), BEFORE, "100", "0.5", "0"),
    (TODAY, BEFORE, "100", "0.5", "0"),
]


def test_the_markets_own_terms_come_before_its_type():
    schedule = schedule_of({**TODAY, "feeSchedule": {"rate": 0.072, "exponent": 2, "takerOnly": True, "rebateRate": 0.25}}, JULY)
    assert (schedule.rate, schedule.exponent, schedule.source) == (Decimal("0.072"), 2, "market")
    assert schedule.fee(Decimal(100), Decimal("0.5"), "buy") == Decimal("0.45")


@pytest.mark.parametrize(
    ("market", "category", "rate"),
    [
        (IN_MARCH, "Sports", "0.05"),
        (IN_MARCH, " crypto ", "0.07"),
        ({**IN_MARCH, "category": "Tech"}, None, "0.04"),
        (typed("sports_fees"), "Crypto", "0.05"),
        (IN_MARCH, None, "0.05"),
    ],
)
def test_without_a_type_the_category_stands_in(market: dict[str, Any], category: str | None, rate: str):
    assert schedule_of(market, JULY, category=category).rate == Decimal(rate)


@pytest.mark.parametrize(
    "market",
    [
        {"id": "3", "feesEnabled": False, "feeType": None},
        {"id": "3", "feesEnabled": False, "takerBaseFee": 1000},
        {"id": "3"},
        {"id": "3", "takerBaseFee": 0},
    ],
)
def test_a_market_without_fees_is_free(market: dict[str, Any]):
    assert schedule_of(market, JULY) == FREE
    assert FREE.fee(Decimal(100), Decimal("0.5"), "buy") == 0
    assert FREE.is_free


@pytest.mark.parametrize(
    ("at", "rate", "rebate"),
    [(JUNE, "0.03", "0.25"), (datetime(2026, 7, 1, tzinfo=UTC), "0.05", "0.15"), (datetime(2026, 11, 1, tzinfo=UTC), "0.05", "0.15")],
)
def test_the_default_of_sports_changed_in_july(at: datetime, rate: str, rebate: str):
    schedule = schedule_of(typed("sports_fees_v2"), at)
    assert (schedule.rate, schedule.rebate_rate, schedule.source) == (Decimal(rate), Decimal(rebate), "category")
    stated = {"rate": 0.03, "exponent": 1, "takerOnly": True, "rebateRate": 0.25}
    assert schedule_of({**typed("sports_fees_v2"), "feeSchedule": stated}, at).rate == Decimal("0.03"), "the market's own terms come first"


WEATHER = {**typed("weather_fees"), "feeSchedule": {"rate": 0.025, "exponent": 0.5, "takerOnly": True, "rebateRate": 0.25}}


@pytest.mark.parametrize(
    ("at", "shares", "price", "fee"),
    [
        # 100 × 0.3 × 0.025 × √0.21 = 0.34369…; √0.25 and √0.16 are exact, and 0.5 × 0.025 × 0.4 × 1.29 = 0.00645 is a tie in 4 decimals.
        (LATE_MARCH, "100", "0.3", "0.3437"),
        (LATE_MARCH, "100", "0.5", "0.6250"),
        (LATE_MARCH, "3.225", "0.2", "0.0065"),
        (JULY, "100", "0.3", "1.14564"),
        (JULY, "100", "0.8", "1.00000"),
        (JULY, "0.0005", "0.2", "0"),
        (JULY, "0.0015", "0.2", "0.00002"),
    ],
)
def test_the_exponent_of_one_half_is_a_square_root(at: datetime, shares: str, price: str, fee: str):
    assert schedule_of(WEATHER, at).fee(Decimal(shares), Decimal(price), "buy") == Decimal(fee)


@given(
    shares=st.decimals(min_value=0, max_value=10**6, places=2),
    price=st.decimals(min_value=0, max_value=1, places=4),
    numerator=st.integers(1, 9),
    denominator=st.sampled_from([2, 4, 5, 10]),
)
def test_a_fractional_exponent_is_rounded_as_the_roots_of_whole_numbers_say(
    shares: Decimal, price: Decimal, numerator: int, denominator: int
):
    """The fee is k units if and only if (k − 1/2)^d ≤ (shares × rate / unit)^d × (p (1 − p))^n < (k + 1/2)^d."""
    exponent = Decimal(numerator) / denominator
    schedule = schedule_of({**TODAY, "feeSchedule": SCHEDULE | {"exponent": float(exponent)}}, JULY)
    units = Fraction(schedule.fee(shares, price, "buy")) * 10**5
    power = Fraction(exponent)
    exact = (Fraction(shares) * Fraction("0.07") * 10**5) ** power.denominator * (
        Fraction(price) * (1 - Fraction(price))
    ) ** power.numerator
    if units == 0:
        assert exact < 1
    else:
        assert (units - Fraction(1, 2)) ** power.denominator <= exact < (units + Fraction(1, 2)) ** power.denominator


def test_the_exponent_zero_charges_by_shares_alone():
    schedule = schedule_of({**TODAY, "feeSchedule": SCHEDULE | {"exponent": 0}}, JULY)
    assert {schedule.fee(Decimal(100), Decimal(price), "buy") for price in ("0.01", "0.5", "0.99")} == {Decimal("7.00000")}


@pytest.mark.parametrize(
    ("market", "at"),
    [(typed("unheard_of"), MARCH), (IN_MARCH, MARCH), (typed("politics_fees"), LATE_MARCH), (typed("weather_fees"), LATE_MARCH)],
)
def test_fees_that_were_charged_by_unknown_terms_are_never_nothing(market: dict[str, Any], at: datetime):
    with pytest.raises(SchemaError, match=f"no known terms on {at.date()}"):
        schedule_of(market, at)


def test_rounding_is_a_term_that_can_be_changed():
    terms = {"regime": Regime.BY_SHARES, "rate": Decimal("0.07")}
    amounts = [FeeSchedule(**terms, **more).fee(Decimal("0.03"), Decimal("0.5"), "buy") for more in ({}, {"rounding": ROUND_DOWN})]
    assert amounts == [Decimal("0.00053"), Decimal("0.00052")]


@given(
    shares=st.decimals(min_value=0, max_value=10**9, places=6),
    price=st.decimals(min_value=0, max_value=1, places=6),
    rate=st.decimals(min_value=0, max_value=1, places=4),
    exponent=st.integers(0, 4),
    regime=st.sampled_from([Regime.BY_VALUE, Regime.BY_SHARES]),
)
def test_a_fee_is_exact_within_half_a_unit(shares: Decimal, price: Decimal, rate: Decimal, exponent: int, regime: Regime):
    fee = FeeSchedule(regime, rate, exponent).fee(shares, price, "buy")
    p, unit = Fraction(price), Fraction(1, 10**regime.decimals)
    exact = Fraction(shares) * (p if regime.by_value else 1) * Fraction(rate) * (p * (1 - p)) ** exponent
    assert fee == fee.quantize(Decimal(1).scaleb(-regime.decimals))
    assert Fraction(fee) == 0 if exact < unit else abs(Fraction(fee) - exact) <= unit / 2


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "venues.md").read_text("utf-8")


def test_the_example_of_fees_gives_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "venues.md", "exec"), names)
    terms = names["terms"]
    assert terms.source == "market"  # type: ignore[attr-defined]
    assert terms.fee(Decimal(100), Decimal("0.4"), "buy") == Decimal("0.72000")  # type: ignore[attr-defined]


def test_a_taker_pays():
    for market, at, shares, price, fee in VECTORS:
        schedule = schedule_of(market, at)
        fees = [schedule.fee(Decimal(shares), Decimal(price), side) for side in ("buy", "sell")]
        assert fees == [Decimal(fee)] * 2, (market, at, shares, price)


def test_the_instant_of_the_trade_chooses_the_regime():
    second = timedelta(seconds=1)
    starts = {
        datetime(2026, 1, 1, tzinfo=UTC): Regime.SHORT_CRYPTO,
        MARCH: Regime.BY_VALUE,
        datetime(2026, 4, 1, tzinfo=UTC): Regime.BY_SHARES,
    }
    before = Regime.NONE
    for start, regime in starts.items():
        assert (Regime.at(start - second), Regime.at(start)) == (before, regime)
        before = regime
    assert Regime.at(datetime(2019, 12, 31, tzinfo=UTC)) is Regime.NONE
    with pytest.raises(ConfigError, match="no zone"):
        schedule_of(TODAY, datetime(2026, 7, 1))


def test_any_base_fee_tells_that_there_are_fees_but_not_how_high():
    for base_fee in (1, 1000):
        assert schedule_of({"id": "3", "takerBaseFee": base_fee}, JUNE, category="Sports").rate == Decimal("0.03")


def test_terms_that_are_null_or_text_are_the_usual_ones():
    for absent in ({"takerOnly": None}, {"exponent": None}, {"rebateRate": None}):
        schedule = schedule_of({**TODAY, "feeSchedule": SCHEDULE | absent}, JULY)
        assert (schedule.exponent, schedule.taker_only, schedule.rate) == (1, True, Decimal("0.07"))
    texts = {"rate": "0.07", "exponent": "1", "takerOnly": True, "rebateRate": "0.2"}
    assert schedule_of({**TODAY, "feeSchedule": texts}, JULY) == schedule_of(TODAY, JULY)


def test_fills_and_terms_that_cannot_be_right_are_refused():
    one, half = Decimal(1), Decimal("0.5")
    fills: list[Any] = [
        (0.5, half, "buy"),
        (one, Decimal(50), "buy"),
        (Decimal(-1), half, "buy"),
        (Decimal("NaN"), half, "buy"),
        (one, half, "yes"),
    ]
    for fill in fills:
        with pytest.raises(ConfigError, match="computing a fee"):
            schedule_of(TODAY, JULY).fee(*fill)
    terms: dict[str, tuple[Any, ...]] = {
        "rate": ("7 %", "", float("nan"), 7, -0.1, None, True),
        "exponent": (-0.5, 11, "half"),
        "rebateRate": (2,),
        "takerOnly": (1,),
    }
    for name, values in terms.items():
        for value in values:
            with pytest.raises(SchemaError, match=rf"fees of market '1': feeSchedule.{name}"):
                schedule_of({**TODAY, "feeSchedule": SCHEDULE | {name: value}}, JULY)
    with pytest.raises(SchemaError, match="feeSchedule is 7"):
        schedule_of({**TODAY, "feeSchedule": 7}, JULY)


def test_the_makers_share_and_the_terms_of_march_depend_on_the_kind():
    shares = {kind: schedule_of(typed(kind), JULY).rebate_rate for kind in ("crypto_fees_v2", "politics_fees", "geopolitics_fees")}
    assert shares == {"crypto_fees_v2": Decimal("0.20"), "politics_fees": Decimal("0.25"), "geopolitics_fees": Decimal(0)}
    extended = datetime(2026, 3, 30, tzinfo=UTC)
    assert schedule_of(typed("politics_fees"), extended - timedelta(seconds=1)).is_free
    assert schedule_of(typed("geopolitics_fees"), extended).is_free
    with pytest.raises(SchemaError, match="no known terms on 2026-03-30"):
        schedule_of(typed("politics_fees"), extended)
