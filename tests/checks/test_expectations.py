"""The adapter: what an outcome says, and that a broken check is not bad data."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import polars as pl
import pytest

from bellwether.checks import Rule, expectations, rules_for, validate
from bellwether.tables import table
from tests.clean.rows import CLOSE, market, markets, price, prices

MARKETS, PRICES = table("clean/markets"), table("clean/prices")
ROOT = Path(__file__).resolve().parents[2]


def cells(sample: str) -> list[list[str]]:
    """Header and rows of a Markdown table."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in sample.splitlines()]
    return [line for line in lines if set(line) != {"---"}]


def rule(table_name: str, name: str) -> Rule:
    return next(made for made in rules_for(table_name) if made.name == name)


def test_an_outcome_counts_the_failing_rows_and_shows_them_with_their_key() -> None:
    frame = prices(price(3), price(2, bid=Decimal("0.9")), price(1, bid=None), price(0, bid=Decimal("0.8")))
    (outcome,) = validate(PRICES, frame, [rule("clean/prices", "bid_at_or_below_ask")])
    assert (outcome.passed, outcome.rows, outcome.failing_rows, outcome.failing_share) == (False, 4, 2, 0.5)
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


def test_a_sample_shows_nulls_as_null() -> None:
    (outcome,) = validate(MARKETS, markets(market(question=None)), [rule("clean/markets", "outcome_has_question")])
    header, row = cells(outcome.sample)
    assert dict(zip(header, row, strict=True))["question"] == "null"


def test_outcomes_come_in_the_order_of_the_rules_whatever_became_of_them() -> None:
    rules = [
        Rule(
            "expectation_breaks",
            "compares text with a number",
            "ExpectColumnValuesToBeBetween",
            ("status",),
            {"column": "status", "min_value": 0},
        ),
        rule("clean/markets", "known_status"),
        Rule(
            "condition_breaks",
            "reads a column that is not there",
            "ExpectColumnValuesToBeInSet",
            (),
            {"value_set": [True]},
            True,
            pl.col("absent") > 0,
        ),
        rule("clean/markets", "unique_key"),
    ]
    outcomes = validate(MARKETS, markets(market("A", status="finalized"), market("B")), rules)
    assert [outcome.name for outcome in outcomes] == [made.name for made in rules]
    assert [outcome.passed for outcome in outcomes] == [None, False, None, True]


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (Rule("r", "r", "ExpectColumnValuesToBeBetween", ("status",), {"column": "status", "min_value": 0}), "same type"),
        (Rule("r", "r", "ExpectColumnValuesToBeInSet", ("absent",), {"column": "absent", "value_set": [1]}), "absent"),
        (Rule("r", "r", "ExpectColumnValuesToBeInSet", (), {"value_set": [True]}, False, pl.col("status") > 1), "compare"),
    ],
    ids=["expectation", "column", "condition"],
)
def test_a_check_that_breaks_is_neither_passed_nor_failed_and_says_how(broken: Rule, cause: str) -> None:
    (outcome,) = validate(MARKETS, markets(market()), [broken])
    assert (outcome.passed, outcome.failing_rows, outcome.sample) == (None, 0, "")
    assert outcome.crashed is not None
    assert cause in outcome.crashed


def test_rows_that_a_condition_does_not_concern_are_not_counted_as_failing() -> None:
    rows = markets(market("A", settlement_value=None), market("B", outcome=None, outcome_reason="void", settlement_value=Decimal("0.3")))
    (outcome,) = validate(MARKETS, rows, [rule("clean/markets", "outcome_agrees_with_payout")])
    assert (outcome.passed, outcome.failing_rows) == (True, 0)


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
    between = Rule("r", "r", "ExpectColumnValuesToBeBetween", ("p_yes",), {"column": "p_yes", "min_value": 0, "max_value": 1})
    (outcome,) = validate(forecasts, frame, [between])
    assert (outcome.passed, outcome.failing_rows) == (False, 1)


def test_the_frame_is_not_changed() -> None:
    frame = markets(market("A"), market("B"))
    before = frame.clone()
    validate(MARKETS, frame, rules_for("clean/markets"))
    assert frame.equals(before)


def test_importing_the_checks_and_checking_an_empty_frame_stays_light() -> None:
    script = (
        "import sys; from bellwether.checks import rules_for, validate; from bellwether.tables import table\n"
        "t = table('clean/markets'); assert all(o.passed for o in validate(t, t.empty(), rules_for(t.name)))\n"
        "sys.exit(any(name in sys.modules for name in ('great_expectations', 'pandas', 'scipy', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_what_is_met_costs_no_import_of_great_expectations() -> None:
    script = (
        "import sys; from bellwether.checks import rules_for, validate; from tests.clean.rows import market, markets\n"
        "from bellwether.tables import table\n"
        "outcomes = validate(table('clean/markets'), markets(market('A'), market('B')), rules_for('clean/markets'))\n"
        "assert all(outcome.passed for outcome in outcomes), outcomes\n"
        "sys.exit(any(name in sys.modules for name in ('great_expectations', 'pandas', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


COLUMNS = {
    "text": ["a", "b", None, "c"],
    "number": [-1, 0, 1, 2, None],
    "share": [-0.5, 0.0, 0.5, 1.0, float("nan"), None],
    "price": [Decimal("0.25"), Decimal("1.25"), None],
}
EXPECTATIONS = [
    ("ExpectColumnValuesToBeUnique", lambda name: {"column": name}),
    ("ExpectColumnValuesToNotBeNull", lambda name: {"column": name, "mostly": 1.0}),
    ("ExpectColumnValuesToNotBeNull", lambda name: {"column": name, "mostly": 0.75}),
    ("ExpectColumnValuesToBeBetween", lambda name: {"column": name, "min_value": 0, "max_value": 1}),
    ("ExpectColumnValuesToBeBetween", lambda name: {"column": name, "min_value": None, "max_value": 1}),
    ("ExpectColumnValuesToBeInSet", lambda name: {"column": name, "value_set": [*COLUMNS[name][:2]]}),
]


def test_a_share_of_missing_forecasts_costs_no_import_of_great_expectations() -> None:
    script = (
        "import sys, polars as pl; from bellwether.checks import rules_for, validate; from bellwether.tables import table\n"
        "declared = table('benchmark/forecasts'); rule = next(one for one in rules_for(declared.name) if one.name == 'coverage')\n"
        "def coverage(missing):\n"
        "    frame = pl.DataFrame({'p_yes': [None] * missing + [0.5] * (20 - missing)})\n"
        "    (found,) = validate(declared, frame.with_columns(pl.lit('x').alias(name) for name in declared.key), [rule])\n"
        "    return found.passed, found.failing_rows, len(found.sample.splitlines())\n"
        "assert [coverage(n) for n in (0, 2, 3, 20)] == [(True, 0, 0), (True, 2, 0), (False, 3, 5), (False, 20, 7)]\n"
        "sys.exit(any(name in sys.modules for name in ('great_expectations', 'pandas', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_polars_finds_what_great_expectations_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(7)
    outcomes: dict[bool, list[tuple[bool | None, int, str]]] = {True: [], False: []}
    asked = 0
    for rows in (1, 3, 5):
        frame = pl.DataFrame({name: draw.choices(values, k=rows) for name, values in COLUMNS.items()}, strict=False)
        rules = [
            Rule(f"{name}_{number}", "drawn", expectation, (name,), kwargs(name))
            for number, (expectation, kwargs) in enumerate(EXPECTATIONS)
            for name in COLUMNS
        ]
        rules.append(Rule("rows", "drawn", "ExpectTableRowCountToBeBetween", (), {"min_value": 2, "max_value": 4}))
        rules.append(Rule("pair", "drawn", "ExpectCompoundColumnsToBeUnique", ("text", "number"), {"column_list": ["text", "number"]}))
        drawn = dataclasses.replace(MARKETS, key=())
        for native in (True, False):
            with monkeypatch.context() as patch:
                if not native:
                    patch.setattr(expectations, "_LOOKS", {})
                    patch.setattr(expectations, "_BREAKS", {})
                outcomes[native] += [(found.passed, found.failing_rows, found.sample) for found in validate(drawn, frame, rules)]
        asked += len(rules)
    assert outcomes[True] == outcomes[False]
    assert asked / 5 < sum(passed is True for passed, *_ in outcomes[True]) < asked * 4 / 5
