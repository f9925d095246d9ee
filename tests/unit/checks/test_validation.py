"""Evaluation of rules: outcomes, crashes, and agreement with Great Expectations."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from decimal import Decimal
from random import Random

import polars as pl
import pytest

from bellwether.checks import CheckOutcome, Rule, data_docs, require, rules_for, validate, validation
from bellwether.checks.rule import holds, unique
from bellwether.errors import QualityError
from bellwether.tables import Table, table
from tests.unit.clean.rows import CLOSE, market, markets, price, prices

MARKETS, PRICES = table("clean/markets"), table("clean/prices")


def cells(sample: str) -> list[list[str]]:
    """Return header and rows of a Markdown table."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in sample.splitlines()]
    return [line for line in lines if set(line) != {"---"}]


def rule(table_name: str, name: str) -> Rule:
    return next(made for made in rules_for(table_name) if made.name == name)


def test_an_outcome_counts_the_failing_rows_and_shows_them_with_their_key() -> None:
    frame = prices(price(3), price(2, bid=Decimal("0.9")), price(1, bid=None), price(0, bid=Decimal("0.8")))
    (outcome,) = validate(PRICES, frame, [rule("clean/prices", "bid_at_or_below_ask")])
    assert (outcome.passed, outcome.rows, outcome.failing_rows) == (False, 4, 2)
    assert cells(outcome.sample)[0] == ["day", "venue", "market_id", "at", "bid", "ask"]
    assert cells(outcome.sample)[1] == ["2026-03-10", "kalshi", "KXRAIN-26MAR10-T1", "2026-03-10 18:00:00Z", "0.900000", "0.440000"]
    assert len(cells(outcome.sample)) == 3


def test_a_sample_is_readable_text_without_control_characters_and_of_bounded_size() -> None:
    rows = markets(*[market(f"M{n}", outcome="x\x1b[31m\n" + "y" * 500) for n in range(50)])
    (outcome,) = validate(MARKETS, rows, [rule("clean/markets", "known_outcome")])
    lines = outcome.sample.splitlines()
    assert outcome.failing_rows == 50
    assert len(lines) == 7
    assert max(len(line) for line in lines) < 200
    assert r"x\\x1b\[31m\\n" in lines[2]
    assert "\x1b" not in outcome.sample
    assert "np." not in outcome.sample


def test_markup_of_a_venue_stays_text_in_a_sample() -> None:
    (outcome,) = validate(MARKETS, markets(market(outcome="<b>|[x](y)`")), [rule("clean/markets", "known_outcome")])
    assert r"| \<b\>\|\[x\](y)\` |" in outcome.sample


def test_outcomes_come_in_the_order_of_the_rules_and_a_crash_is_neither_passed_nor_failed() -> None:
    rules = [
        holds("compares_text_with_a_number", "…", pl.col("status") >= 0),
        rule("clean/markets", "known_status"),
        holds("absent_column", "…", pl.col("absent") > 0),
        rule("clean/markets", "unique_key"),
    ]
    outcomes = validate(MARKETS, markets(market("A", status="finalized"), market("B")), rules)
    assert [outcome.name for outcome in outcomes] == [made.name for made in rules]
    assert [outcome.passed for outcome in outcomes] == [None, False, None, True]
    crashed = outcomes[2]
    assert (crashed.failing_rows, crashed.sample) == (0, "")
    assert "absent" in str(crashed.crashed)


def test_money_and_times_are_compared_exactly() -> None:
    tick = Decimal("0.000001")
    frame = prices(
        price(3, bid=Decimal("0.44"), ask=Decimal("0.44")),
        price(2, bid=Decimal("0.44") + tick, ask=Decimal("0.44"), known_at=CLOSE - timedelta(hours=2)),
    )
    crossed, known = validate(PRICES, frame, [rule("clean/prices", "bid_at_or_below_ask"), rule("clean/prices", "known_after_it_stood")])
    assert (crossed.failing_rows, known.failing_rows) == (1, 0)


def test_not_a_number_is_not_taken_for_a_missing_value() -> None:
    forecasts = table("benchmark/forecasts")
    frame = pl.DataFrame({"p_yes": [0.5, float("nan"), None]}).with_columns(pl.lit("x").alias(name) for name in forecasts.key)
    (outcome,) = validate(forecasts, frame, [rule(forecasts.name, "p_yes_is_probability")])
    assert (outcome.passed, outcome.failing_rows) == (False, 1)


@pytest.mark.parametrize(("missing", "passed"), [(0, True), (2, True), (3, False), (20, False)])
def test_a_tenth_of_the_forecasts_may_be_missing(missing: int, passed: bool) -> None:
    declared = table("benchmark/forecasts")
    frame = pl.DataFrame({"p_yes": [None] * missing + [0.5] * (20 - missing)}).with_columns(
        pl.lit("x").alias(name) for name in declared.key
    )
    (found,) = validate(declared, frame, [rule(declared.name, "coverage")])
    assert (found.passed, found.failing_rows) == (passed, missing)


@pytest.mark.nightly
def test_polars_finds_what_great_expectations_finds() -> None:
    draw = Random(7)
    compared = []
    for rows in (1, 3, 5):
        drawn = {"text": ["a", "b", None, "c"], "number": [-1, 0, 1, 2, None]}
        frame = pl.DataFrame(
            {name: draw.choices(values, k=rows) for name, values in drawn.items()}, schema={"text": pl.String, "number": pl.Int64}
        )
        rules = [
            holds("words", "drawn", pl.col("text").is_in(["a", "b"])),
            holds("most_words", "drawn", pl.col("text").is_not_null(), mostly=0.75),
            holds("below_two", "drawn", pl.col("number") < 2),
            unique("text", "number"),
            Rule("rows", "drawn", None),
        ]
        native = [(one.passed, one.failing_rows) for one in validate(dataclasses.replace(MARKETS, key=()), frame, rules)]
        assert native == great_expectations_results(frame, rules)
        compared += native
    assert {passed for passed, _ in compared} == {True, False}


def great_expectations_results(frame: pl.DataFrame, rules: list[Rule]) -> list[tuple[bool, int]]:
    """Return success and number of failing rows of each rule, in order."""
    import great_expectations as gx

    source = gx.get_context(mode="ephemeral").data_sources.add_pandas("drawn")
    batch = (
        source.add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("all")
        .get_batch({"dataframe": data_docs._pandas(frame, rules)})
    )
    found = [batch.validate(data_docs._expectation(gx, one)) for one in rules]
    return [(bool(one.success), int(one.result.get("unexpected_count", 0))) for one in found]


def test_a_broken_blocking_rule_is_named_with_its_rows() -> None:
    bad = markets(market("A", outcome="yes", status="closed"), market("B"))
    with pytest.raises(QualityError, match="outcome_only_when_settled") as refused:
        require("clean/markets", bad.lazy())
    assert "1 of 2 rows" in str(refused.value)
    assert "A" in str(refused.value)


def test_a_broken_rule_that_does_not_block_is_left_to_the_checks() -> None:
    crossed = prices(price(1)).with_columns(bid=pl.lit("0.9").cast(pl.Decimal(10, 6)), ask=pl.lit("0.1").cast(pl.Decimal(10, 6)))
    require("clean/prices", crossed.lazy())


def test_a_rule_that_cannot_be_evaluated_refuses_the_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(declared: Table, frame: pl.DataFrame, rules: list[Rule]) -> list[CheckOutcome]:
        return [CheckOutcome("unique_key", "…", True, None, frame.height, crashed="MemoryError")]

    monkeypatch.setattr(validation, "validate", crash)
    with pytest.raises(QualityError, match="could not be evaluated: MemoryError"):
        require("clean/markets", markets(market()).lazy())
