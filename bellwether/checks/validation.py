"""Evaluation of rules with Polars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

import polars as pl

from bellwether.checks.rule import Rule, columns_read, rules_for
from bellwether.errors import QualityError
from bellwether.formatting import markdown_table
from bellwether.tables import table
from bellwether.tables.schema import Table

SAMPLE_ROWS = 5
CELL_WIDTH = 60

#: Markdown and HTML markup, escaped in a cell because its text comes from a venue or a model.
MARKUP = frozenset("\\`*[]<>|~&")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Result of evaluating a rule on some rows.

    Attributes:
        passed: Whether the rule is met; None if it could not be evaluated, for the reason `crashed`.
        rows: Number of rows checked.
        failing_rows: Number of rows that break the rule.
        sample: First failing rows as a Markdown table, empty if the rule is met.
    """

    name: str
    description: str
    blocking: bool
    passed: bool | None
    rows: int
    failing_rows: int = 0
    sample: str = ""
    crashed: str | None = None


def validate(table: Table, frame: pl.DataFrame, rules: Sequence[Rule]) -> list[CheckOutcome]:
    """Evaluate `rules` on rows of `table`. Returns an outcome for each rule, in the same order.

    An empty frame meets all rules except those that require a row. Null values meet a rule.
    """
    return [_outcome(rule, table, frame) for rule in rules]


def require(name: str, rows: pl.LazyFrame) -> None:
    """Raise `QualityError` if `rows` break a blocking rule of the table `name`.

    Raises `QualityError` for the first rule that is broken or cannot be evaluated.
    """
    declared = table(name)
    rules = [rule for rule in rules_for(name) if rule.blocking]
    for outcome in validate(declared, rows.select(columns_read(declared, rules)).collect(), rules):
        if outcome.crashed:
            raise QualityError(f"checking {name}: the rule {outcome.name} could not be evaluated: {outcome.crashed}")
        if not outcome.passed:
            raise QualityError(
                f"checking {name}: {outcome.failing_rows} of {outcome.rows} rows break the rule {outcome.name} ({outcome.description}); "
                f"pull and clean those days again, or fix their source. First rows:\n{outcome.sample}"
            )


def _outcome(rule: Rule, table: Table, frame: pl.DataFrame) -> CheckOutcome:
    outcome = CheckOutcome(rule.name, rule.description, rule.blocking, passed=None, rows=frame.height)
    if rule.condition is None:
        return replace(outcome, passed=not frame.is_empty(), sample="no rows" if frame.is_empty() else "")
    if frame.is_empty():
        return replace(outcome, passed=True)
    try:
        failing = (~frame.select(holds=rule.condition).to_series()).arg_true()
    except pl.exceptions.PolarsError as error:
        return replace(outcome, crashed=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    passed = (frame.height - failing.len()) / frame.height >= rule.mostly
    sample = "" if passed else _sample(rule, table, frame, failing.head(SAMPLE_ROWS).to_list())
    return replace(outcome, passed=passed, failing_rows=failing.len(), sample=sample)


def _sample(rule: Rule, table: Table, frame: pl.DataFrame, rows: list[int]) -> str:
    """Format the failing rows at these positions as a Markdown table, with the table's key and the columns that the rule reads."""
    sample = frame.select(list(dict.fromkeys([*table.key, *rule.columns])))[rows]
    return "\n".join(markdown_table(sample.columns, ([_cell(value) for value in row] for row in sample.rows())))


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    text = "".join(character if character.isprintable() else repr(character)[1:-1] for character in str(value))
    text = text if len(text) <= CELL_WIDTH else f"{text[: CELL_WIDTH - 1]}…"
    return "".join(f"\\{character}" if character in MARKUP else character for character in text)
