"""Question sets: eligible markets, the draw, and prices before the close."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.questions import Release, build, eligibility, funnel
from bellwether.tables import clean
from bellwether.tables.benchmark import HORIZONS, QUESTIONS
from tests.unit.clean.rows import CLOSE, DAY, KNOWN, OPEN, SETTLED, market, markets, price, prices

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)


def recipe(**changes: Any) -> Release:
    return Release(**{"name": "test", "description": "test", "cutoff": CUTOFF, "seed": 42, **changes})


def questions(*rows: dict[str, Any], of: Release | None = None, at: list[dict[str, Any]] | None = None) -> pl.DataFrame:
    return build(of or recipe(), markets(*rows).lazy(), prices(*(at or [])).lazy())


def ids(frame: pl.DataFrame) -> set[str]:
    return set(frame["market_id"])


def in_series(count: int, series: str = "S", per_event: int = 1) -> list[dict[str, Any]]:
    return [market(f"{series}-{n}", series_id=series, event_id=f"{series}-E{n // per_event}") for n in range(count)]


def test_a_question_carries_the_market_and_its_outcome() -> None:
    row = questions(market()).row(0, named=True)
    assert (row["id"], row["source"], row["market_id"]) == ("kalshi:KXRAIN-26MAR10-T1", "kalshi", "KXRAIN-26MAR10-T1")
    assert (row["series_ticker"], row["event_id"], row["ground_truth"]) == ("KXRAIN", "KXRAIN-26MAR10", "yes")
    assert (row["open_time"], row["close_time"], row["settled_at"], row["cutoff"]) == (OPEN, CLOSE, SETTLED, CUTOFF)
    assert row["cluster"] == "kalshi:KXRAIN"
    assert (row["market_probability"], row["ordinal"], row["rules"]) == (0.97, 0, recipe().version)


def test_series_of_different_venues_are_different_clusters() -> None:
    rows = (market("A", series_id="S", event_id="E1"), market("B", venue="polymarket", series_id="S", event_id="E1"))
    assert set(questions(*rows, of=recipe(venues=("kalshi", "polymarket")))["cluster"]) == {"kalshi:S", "polymarket:S"}


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": None, "outcome_reason": "scalar"},
        {"outcome": None, "outcome_reason": "disputed", "status": "disputed"},
        {"market_type": "scalar"},
        {"is_combo": True},
        {"question": None},
        {"question": "x" * 2001},
        {"description": None},
        {"description": "too short"},
        {"venue": "polymarket"},
        {"settled_at": CUTOFF},
        {"close_time": CUTOFF, "settled_at": CUTOFF + timedelta(days=1)},
        {"settled_at": CLOSE - timedelta(hours=1)},
        {"settled_at": None, "close_time": datetime(2099, 1, 1, tzinfo=UTC)},
    ],
    ids=lambda fields: ",".join(f"{name}={str(value)[:30]!r}" for name, value in fields.items()),
)
def test_a_market_that_is_no_clean_question_is_left_out(fields: dict[str, Any]) -> None:
    assert ids(questions(market(**fields), market("GOOD", series_id="OTHER"))) == {"GOOD"}


def test_without_a_settlement_time_the_close_counts() -> None:
    early, late = CUTOFF, CUTOFF + timedelta(microseconds=1)
    assert ids(questions(market("A", settled_at=None, close_time=early), market("B", settled_at=None, close_time=late))) == {"B"}


def test_the_end_of_a_release_counts_settlement_and_includes_its_instant() -> None:
    rows = [market("A", settled_at=SETTLED), market("B", settled_at=SETTLED + timedelta(microseconds=1))]
    assert ids(questions(*rows, of=recipe(until=SETTLED))) == {"A"}


def test_categories_and_opening_after_the_cutoff_can_be_required() -> None:
    rows = [market("A", category="Politics"), market("B", open_time=CUTOFF), market("C", open_time=None), market("D")]
    assert ids(questions(*rows, of=recipe(per_series=0, categories=("Weather",)))) == {"B", "C", "D"}
    assert ids(questions(*rows, of=recipe(per_series=0, require_open_after_cutoff=True))) == {"A", "D"}


def test_a_description_is_cut_to_the_limit_and_nul_alone_is_removed() -> None:
    text = "é\x01\x00</question>" + "x" * 6000
    row = questions(market(description=text, question="Will\x00 it <script>?\x1b")).row(0, named=True)
    assert row["description"] == text.replace("\x00", "")[:5000]
    assert row["question"] == "Will it <script>?\x1b"


def test_a_market_without_event_or_series_is_its_own_cluster() -> None:
    row = questions(market(event_id=None, series_id=None)).row(0, named=True)
    assert (row["event_id"], row["series_ticker"]) == ("KXRAIN-26MAR10-T1", "KXRAIN-26MAR10-T1")
    loners = [market(f"L{n}", event_id=None, series_id=None) for n in range(5)]
    assert questions(*loners).height == 5


def test_of_two_records_of_a_market_the_one_known_last_counts() -> None:
    tomorrow = {"day": DAY + timedelta(days=1), "close_time": CLOSE + timedelta(days=1), "settled_at": SETTLED + timedelta(days=1)}
    reopened = market(**tomorrow, known_at=KNOWN + timedelta(days=1), outcome="no")
    assert questions(market(), reopened)["ground_truth"].to_list() == ["no"]
    retracted = market(**tomorrow, known_at=KNOWN + timedelta(days=1), outcome=None, outcome_reason="disputed", status="disputed")
    assert questions(market(), retracted).height == 0


def test_at_most_two_per_series_of_different_events_first() -> None:
    chosen = questions(*in_series(12, "S", per_event=4), *in_series(3, "T", per_event=3), *in_series(1, "U"))
    assert chosen.group_by("series_ticker").len().sort("series_ticker").rows() == [("S", 2), ("T", 2), ("U", 1)]
    assert chosen.filter(pl.col("series_ticker") == "S")["event_id"].n_unique() == 2


def test_every_event_gives_one_before_any_gives_a_second() -> None:
    chosen = questions(*in_series(12, "S", per_event=4), of=recipe(per_series=5))
    assert sorted(chosen.group_by("event_id").len()["len"]) == [1, 2, 2]


def test_large_series_are_not_drawn_more_often_than_small_ones() -> None:
    rows = [row for n in range(40) for row in in_series(12 if n % 2 else 1, f"S{n}")]
    drawn = [
        series for seed in range(30) for series in questions(*rows, of=recipe(per_series=1, sample_size=10, seed=seed))["series_ticker"]
    ]
    large = sum(int(series[1:]) % 2 for series in drawn) / len(drawn)
    assert abs(large - 0.5) < 0.1  # 300 draws: more than three standard errors


def test_the_sample_is_the_beginning_of_the_whole_order() -> None:
    rows = [row for n in range(50) for row in in_series(1, f"S{n}")]
    whole = questions(*rows)
    assert questions(*rows, of=recipe(sample_size=20))["id"].to_list() == whole["id"].to_list()[:20]
    assert whole["ordinal"].to_list() == list(range(50))


@pytest.mark.parametrize("seed", range(4))
def test_markets_of_other_series_take_only_their_own_places(seed: int) -> None:
    draw = random.Random(seed)
    rows = [row for n in range(30) for row in in_series(3, f"S{n}")]
    before = questions(*rows, of=recipe(sample_size=20))["market_id"].to_list()
    new = {(draw.choice("ABCDE"), draw.randrange(10)) for _ in range(8)}
    added = [market(f"NEW{series}-{n}", series_id=f"NEW{series}", event_id=f"NEW{series}-E{n}") for series, n in sorted(new)]
    both = [*rows, *added]
    draw.shuffle(both)
    after = questions(*both, of=recipe(sample_size=20))["market_id"].to_list()
    kept = [name for name in after if not name.startswith("NEW")]
    assert kept == before[: len(kept)]


def test_a_price_is_the_middle_of_the_book_at_or_before_the_horizon() -> None:
    row = questions(
        market(),
        at=[price(25), price(24, bid=Decimal("0.10"), ask=Decimal("0.13")), price(23.99, bid=Decimal("0.90"), ask=Decimal("0.98"))],
    )
    assert row.select("price_24h", "price_24h_at").row(0) == (Decimal("0.115"), CLOSE - timedelta(hours=24))
    assert row["price_7d"].to_list() == [None]
    assert row["price_6h"].to_list() == [Decimal("0.94")]


@pytest.mark.parametrize("name", HORIZONS)
def test_no_price_is_later_than_its_horizon(name: str) -> None:
    hours = HORIZONS[name]
    row = questions(market(), at=[price(hours - 0.001)]).row(0, named=True)
    assert (row[f"price_{name}"], row[f"price_{name}_at"]) == (None, None)
    row = questions(market(), at=[price(hours)]).row(0, named=True)
    assert (row[f"price_{name}"], row[f"price_{name}_at"]) == (Decimal("0.42"), CLOSE - timedelta(hours=hours))


@pytest.mark.parametrize(
    ("bid", "ask", "last", "expected"),
    [
        ("0.40", "0.44", "0.99", "0.42"),
        ("0.0001", "0.0002", None, "0.00015"),
        (None, "0.44", "0.43", "0.43"),
        ("0.40", None, "0.43", "0.43"),
        (None, None, "0.43", "0.43"),
        ("0.40", None, None, None),
        ("0.44", "0.40", "0.43", "0.43"),
        ("0.44", "0.44", "0.43", "0.44"),
        (None, None, None, None),
    ],
)
def test_the_price_is_the_middle_of_both_sides_else_the_last_trade(
    bid: str | None, ask: str | None, last: str | None, expected: str | None
) -> None:
    quote = {name: None if text is None else Decimal(text) for name, text in [("bid", bid), ("ask", ask), ("last", last)]}
    row = questions(market(), at=[price(24, **quote)]).row(0, named=True)
    assert row["price_24h"] == (None if expected is None else Decimal(expected))
    assert (row["price_24h_at"] is None) == (expected is None)


def test_a_price_from_before_the_opening_is_not_used() -> None:
    opened = {"open_time": CLOSE - timedelta(hours=30)}
    assert questions(market(**opened), at=[price(31)])["price_24h"].to_list() == [None]
    assert questions(market(**opened), at=[price(30)])["price_24h"].to_list() == [Decimal("0.42")]


def test_prices_of_another_day_or_market_are_not_used() -> None:
    assert questions(market(), at=[price(24, "ANOTHER"), price(24, day=DAY - timedelta(days=1))])["price_24h"].to_list() == [None]


def test_known_at_covers_the_prices_used_and_only_those() -> None:
    later = KNOWN + timedelta(hours=5)
    assert questions(market(), at=[price(24, known_at=later)])["known_at"].to_list() == [later]
    assert questions(market(), at=[price(0.5, known_at=later)])["known_at"].to_list() == [KNOWN]


def test_the_final_price_is_never_a_price_before_close() -> None:
    row = questions(market(last_price=Decimal("0.99"))).row(0, named=True)
    assert row["market_probability"] == 0.99
    assert all(row[f"price_{name}"] is None for name in HORIZONS)


def test_the_funnel_ends_with_the_questions_and_names_every_rule() -> None:
    rows = [*in_series(5), market("COMBO", is_combo=True), market("OPEN", status="active", outcome=None, outcome_reason="undetermined")]
    steps = funnel(recipe(sample_size=1), markets(*rows).lazy())
    left = dict(steps.select("step", "markets").rows())
    assert (left["markets"], left["venue"], left["binary"], left["settled"], left["per series"], left["sample"]) == (7, 7, 6, 5, 2, 1)
    assert {rule.name for rule in eligibility(recipe())} < left.keys()


def test_without_any_market_there_is_an_empty_question_set() -> None:
    assert build(recipe(), clean.MARKETS.empty().lazy(), clean.PRICES.empty().lazy()).equals(QUESTIONS.empty())


def test_markets_at_the_limits_of_the_rules_are_questions() -> None:
    rows = [
        market("LONG", question="x" * 2000, series_id="1"),
        market("SHORT", description="ten chars!", series_id="2"),
        market("AT ONCE", settled_at=CLOSE, series_id="3"),
        market("FIRST", close_time=CUTOFF + timedelta(microseconds=1), series_id="4"),
    ]
    assert ids(questions(*rows)) == {"LONG", "SHORT", "AT ONCE", "FIRST"}


def test_base_rates_count_markets_that_settled_before_the_opening_once() -> None:
    def history(name: str, before: timedelta, outcome: str | None = "yes", **changes: Any) -> dict[str, Any]:
        settled = OPEN - before
        return market(name, settled_at=settled, close_time=settled - timedelta(hours=1), outcome=outcome, **changes)

    instant, day = timedelta(microseconds=1), timedelta(days=1)
    rows = [
        history("H1", instant),
        history("H2", day, "no"),
        history("H3", 2 * day, "no", category="Politics"),
        history("AT", timedelta(0)),
        history("COMBO", day, is_combo=True),
        history("SCALAR", day, market_type="scalar"),
        history("VOID", day, None, outcome_reason="void"),
        history("OTHER", day, venue="polymarket"),
        market("NEVER", settled_at=None, close_time=OPEN - day),
        history("TWICE", 3 * day),
        history("TWICE", 3 * day, "no", day=DAY + day, known_at=KNOWN + day),
    ]
    row = questions(*rows, market(), of=recipe(per_series=0)).filter(market_id="KXRAIN-26MAR10-T1").row(0, named=True)
    assert (row["base_n"], row["base_yes"], row["base_known_at"]) == (4, 1, KNOWN + day)
    assert (row["base_category_n"], row["base_category_yes"]) == (3, 1)
    unopened = questions(*rows, market(open_time=None), of=recipe(per_series=0)).filter(market_id="KXRAIN-26MAR10-T1").row(0, named=True)
    assert (unopened["base_n"], unopened["base_yes"]) == (None, None)
