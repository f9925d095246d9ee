"""Baselines: one row per question, no later information, no default values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.forecasting import KINDS, forecaster, forecasters
from bellwether.questions import Release, build
from bellwether.tables.benchmark import FORECASTS, HORIZONS
from tests.unit.clean.rows import CLOSE, KNOWN, OPEN, SETTLED, market, markets, price, prices

RELEASE = Release(name="test", description="test", cutoff=datetime(2026, 1, 1, tzinfo=UTC), seed=1, per_series=0)
BASELINES = [name for name, made in forecasters().items() if made.kind in KINDS]


def questions(*rows: dict[str, Any], at: Sequence[dict[str, Any]] = (), history: Sequence[dict[str, Any]] = ()) -> pl.DataFrame:
    """Return questions on the markets `rows`, in a lake that also contains the markets of `history`."""
    others = [row for row in history if row["market_id"] not in {asked["market_id"] for asked in rows}]
    made = build(RELEASE, markets(*rows, *others).lazy(), prices(*at).lazy())
    return made.filter(pl.col("market_id").is_in([row["market_id"] for row in rows]))


def settled(market_id: str, when: datetime, outcome: str | None = "yes", **changes: Any) -> dict[str, Any]:
    return market(market_id, settled_at=when, close_time=when - timedelta(hours=1), outcome=outcome, **changes)


def base_rate(*history: dict[str, Any], of: dict[str, Any] | None = None, name: str = "base-rate") -> dict[str, Any]:
    return forecaster(name).forecast(questions(of or market(), history=history)).row(0, named=True)


@pytest.mark.parametrize("name", BASELINES)
def test_every_question_has_exactly_one_row_in_the_declared_shape(name: str) -> None:
    markets = [market(f"M{n}", open_time=None if n == 3 else OPEN) for n in range(10)]
    history = [settled(f"H{n}", OPEN - timedelta(days=n)) for n in range(5)]
    asked = questions(*markets, at=[price(170, "M1"), price(2, "M2")], history=history)
    rows = forecaster(name).forecast(asked)
    assert FORECASTS.validate(rows).equals(rows)
    assert set(rows["question_id"]) == set(asked["id"])
    assert rows.height == asked.height
    assert set(rows["forecaster"]) == {name}
    assert rows.filter(pl.col("p_yes").is_null() != pl.col("error").is_not_null()).height == 0
    assert rows.filter(~pl.col("p_yes").is_between(0, 1)).height == 0


@pytest.mark.parametrize("horizon", HORIZONS)
def test_the_market_forecast_is_its_price_at_the_horizon(horizon: str) -> None:
    hours = HORIZONS[horizon]
    row = forecaster(f"market-{horizon}").forecast(questions(market(), at=[price(hours + 0.5)])).row(0, named=True)
    assert (row["p_yes"], row["answer"], row["confidence"]) == (0.42, "no", 1 - 0.42)
    assert row["as_of"] == CLOSE - timedelta(hours=hours + 0.5)


def test_without_a_price_there_is_no_market_forecast_however_near_the_final_price() -> None:
    asked = questions(market(last_price=Decimal("0.99")), at=[price(23.5), price(1)])
    row = forecaster("market-24h").forecast(asked).row(0, named=True)
    assert row["error"] == "no market price 24 h before close"
    assert (row["p_yes"], row["answer"], row["confidence"], row["as_of"]) == (None, None, None, None)


def test_the_base_rate_counts_what_had_settled_before_the_opening_and_nothing_else() -> None:
    before = [settled(f"B{n}", OPEN - timedelta(days=n + 1), outcome) for n, outcome in enumerate(["yes", "no", "no"])]
    at_or_after = [settled("A0", OPEN), settled("A1", OPEN + timedelta(days=1))]
    uncounted = [
        settled("C0", OPEN - timedelta(days=1), None, outcome_reason="scalar"),
        settled("C1", OPEN - timedelta(days=1), is_combo=True),
        settled("C2", OPEN - timedelta(days=1), market_type="scalar"),
        market("C3", settled_at=None, close_time=OPEN - timedelta(days=1)),
    ]
    row = base_rate(*before, *at_or_after, *uncounted, market())
    assert row["p_yes"] == (1 + 1) / (3 + 2)
    assert row["as_of"] == OPEN


def test_the_base_rate_counts_a_market_once() -> None:
    when = OPEN - timedelta(days=5)
    twice = [settled("B", when), settled("B", when, "no", day=when.date() + timedelta(days=1), known_at=KNOWN + timedelta(days=1))]
    assert base_rate(*twice)["p_yes"] == (0 + 1) / (1 + 2)


def test_the_base_rate_ignores_other_venues() -> None:
    early = OPEN - timedelta(days=1)
    here, elsewhere = settled("A", early, "no"), [settled(str(number), early, "yes", venue="polymarket") for number in range(9)]
    assert base_rate(here, *elsewhere)["p_yes"] == pytest.approx(1 / 3)
    assert base_rate(here, *elsewhere, name="base-rate-category")["p_yes"] == pytest.approx(1 / 3)


def test_the_base_rate_equals_a_count_by_hand_for_every_question() -> None:
    draw = random.Random(11)
    history = [
        settled(f"H{n}", OPEN + timedelta(hours=draw.randrange(-200, 200)), draw.choice(["yes", "no"]), category=draw.choice("XYZ"))
        for n in range(300)
    ]
    rows = [market(f"M{n}", open_time=OPEN + timedelta(hours=draw.randrange(-250, 250)), category=draw.choice("XYZ")) for n in range(60)]
    asked = questions(*rows, history=history)
    for name in ("base-rate", "base-rate-category"):
        made = dict(forecaster(name).forecast(asked).select("question_id", "p_yes").rows())
        for question in asked.rows(named=True):
            seen = [
                row["outcome"]
                for row in history
                if row["settled_at"] < question["open_time"] and (name == "base-rate" or row["category"] == question["category"])
            ]
            assert made[question["id"]] == (seen.count("yes") + 1) / (len(seen) + 2)


def test_a_question_without_an_opening_time_has_no_base_rate() -> None:
    row = base_rate(settled("B", OPEN - timedelta(days=1)), of=market(open_time=None))
    assert (row["p_yes"], row["error"]) == (None, "no opening time to look back from")


def test_known_at_of_the_base_rate_covers_the_markets_counted_and_only_those() -> None:
    later = KNOWN + timedelta(days=3)
    assert base_rate(settled("B", OPEN - timedelta(days=1), known_at=later))["known_at"] == later
    assert base_rate(settled("B", OPEN + timedelta(days=1), known_at=later))["known_at"] == KNOWN


def test_the_random_forecast_is_uniform_and_depends_on_seed_and_question_alone() -> None:
    asked = questions(*[market(f"M{n}") for n in range(2000)])
    chance: Any = forecaster("random")
    drawn = chance.forecast(asked)
    assert drawn.equals(chance.forecast(asked.reverse()))
    assert drawn.head(1).equals(chance.forecast(asked.filter(id=drawn["question_id"][0])))
    counts = drawn["p_yes"].hist(bins=[n / 10 for n in range(11)])["count"]
    assert counts.sum() == 2000
    assert sum((count - 200) ** 2 / 200 for count in counts) < 27.9  # chi-squared, 9 degrees of freedom, p = 0.001
    other = chance.model_copy(update={"seed": 43}).forecast(asked)
    assert other["p_yes"].to_list() != drawn["p_yes"].to_list()


def test_the_outcome_of_a_question_does_not_change_its_forecast() -> None:
    flipped = {"outcome": "no", "settlement_value": Decimal("0"), "last_price": Decimal("0.01"), "settled_at": SETTLED + timedelta(days=9)}
    for name in BASELINES:
        made = forecaster(name)
        yes, no = (made.forecast(questions(row, at=[price(200)])) for row in (market(), market(**flipped)))
        assert yes.equals(no), name
