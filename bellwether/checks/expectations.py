"""Runs rules: Polars decides conditions, finds what is met and counts what is missing; Great Expectations reports what else a column breaks.

Great Expectations takes five seconds to import and a copy in pandas to look at, so that it is asked only about an expectation that Polars does
not find met: one ephemeral context, one copy of the columns that those rules read. Missing values are the exception: a forecaster that leaves a
question out is no accident, and Polars counts them to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.checks.rule import Rule
from bellwether.markdown import table as markdown_table
from bellwether.tables.schema import Table

SAMPLE_ROWS = 5
CELL_WIDTH = 60

#: Characters that would be markup in a cell; the text comes from a venue or a model.
MARKUP = frozenset("\\`*[]<>|~&")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What one rule found.

    passed is None exactly when the check itself broke; `crashed` then says how, and nothing is known about the data.
    rows, failing_rows: rows looked at, and those that break the rule; failing_share: their ratio, 0 without rows.
    sample: the first failing rows as a Markdown table, or what was observed; empty when the rule holds.
    """

    name: str
    description: str
    blocking: bool
    passed: bool | None
    rows: int
    failing_rows: int = 0
    sample: str = ""
    crashed: str | None = None

    @property
    def failing_share(self) -> float:
        """Share of the rows that break the rule; 0 without rows."""
        return self.failing_rows / self.rows if self.rows else 0.0


def validate(table: Table, frame: pl.DataFrame, rules: Sequence[Rule]) -> list[CheckOutcome]:
    """One outcome per rule, in the order of `rules`.

    frame: rows of `table`. A frame without rows meets every rule that is not about the number of rows.
    """
    outcomes: dict[str, CheckOutcome] = {}
    reported: list[Rule] = []
    columns: list[pl.Series] = []
    for rule in rules:
        if frame.is_empty() and not rule.counts_rows:
            outcomes[rule.name] = _outcome(rule, passed=True, rows=0)
            continue
        try:
            if rule.condition is not None:
                outcomes[rule.name] = _condition(rule, table, frame)
                continue
            operands = [_operand(frame[name]) for name in rule.columns]
        except pl.exceptions.PolarsError as error:
            outcomes[rule.name] = _outcome(rule, passed=None, rows=frame.height, crashed=_first_line(error))
            continue
        if rule.expectation in _BREAKS:
            failing = _BREAKS[rule.expectation](operands).arg_true()
            outcomes[rule.name] = _counted(rule, table, frame, failing, mostly=rule.kwargs.get("mostly", 1.0))
        elif _is_met(rule, operands, frame.height):
            outcomes[rule.name] = _outcome(rule, passed=True, rows=frame.height)
        else:
            reported.append(rule)
            columns.extend(operands)
    if reported:
        copy = pl.DataFrame({column.name: column for column in columns}) if columns else pl.DataFrame({"row": range(frame.height)})
        for rule, result in zip(reported, _run(copy, reported), strict=True):
            outcomes[rule.name] = _read(rule, result, table, frame)
    return [outcomes[rule.name] for rule in rules]


def _condition(rule: Rule, table: Table, frame: pl.DataFrame) -> CheckOutcome:
    """The outcome of a condition; a row for which it is null is not concerned."""
    assert rule.condition is not None
    return _counted(rule, table, frame, (~frame.select(rule.condition.alias("holds")).to_series()).arg_true())


def _counted(rule: Rule, table: Table, frame: pl.DataFrame, failing: pl.Series, mostly: float = 1.0) -> CheckOutcome:
    """The outcome of a rule that a share of at least `mostly` of the rows must meet. failing: numbers of the rows that do not."""
    passed = (frame.height - failing.len()) / frame.height >= mostly
    sample = "" if passed else _sample(rule, table, frame, failing.head(SAMPLE_ROWS).to_list())
    return _outcome(rule, passed=passed, rows=frame.height, failing_rows=failing.len(), sample=sample)


def _operand(column: pl.Series) -> pl.Series:
    """A column that an expectation reads, in a type that pandas compares fast and without surprises."""
    if column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    if column.dtype.is_float():
        column = column.fill_nan(float("inf"))  # pandas would take NaN for a missing value, which no rule looks at
    return column


def _is_met(rule: Rule, operands: Sequence[pl.Series], rows: int) -> bool:
    """Whether Polars finds an expectation met; False also where it cannot tell, such as for one that it does not know."""
    look = _LOOKS.get(rule.expectation)
    try:
        return look is not None and look(rule.kwargs, operands, rows)
    except (pl.exceptions.PolarsError, TypeError):
        return False


def _is_between(kwargs: Mapping[str, Any], column: pl.Series) -> bool:
    return column.dtype.is_numeric() and (column.null_count() == column.len() or _within(kwargs, column.min(), column.max()))


def _within(kwargs: Mapping[str, Any], least: Any, most: Any) -> bool:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    return (low is None or least >= low) and (high is None or most <= high)


#: Expectations that Polars decides by itself: from the columns that one reads, true for each row that breaks it.
_BREAKS: dict[str, Callable[[Sequence[pl.Series]], pl.Series]] = {"ExpectColumnValuesToNotBeNull": lambda columns: columns[0].is_null()}

#: How Polars finds another expectation met: from its arguments, the columns that it reads, and the number of rows. Missing values break none.
_LOOKS: dict[str, Callable[[Mapping[str, Any], Sequence[pl.Series], int], bool]] = {
    "ExpectTableRowCountToBeBetween": lambda kwargs, _, rows: _within(kwargs, rows, rows),
    "ExpectCompoundColumnsToBeUnique": lambda _, columns, rows: pl.DataFrame(columns).n_unique() == rows,
    "ExpectColumnValuesToBeUnique": lambda _, columns, rows: columns[0].drop_nulls().is_unique().all(),
    "ExpectColumnValuesToBeInSet": lambda kwargs, columns, _: columns[0].drop_nulls().is_in(list(kwargs["value_set"])).all(),
    "ExpectColumnValuesToBeBetween": lambda kwargs, columns, _: _is_between(kwargs, columns[0]),
}


def _run(copy: pl.DataFrame, rules: Sequence[Rule]) -> list[Any]:
    """Great Expectations' results in the order of `rules`."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = gx.ExpectationSuite(name="rules")
    for rule in rules:
        suite.add_expectation(getattr(gx.expectations, rule.expectation)(**rule.kwargs, meta={"rule": rule.name}))
    whole = context.data_sources.add_pandas("pandas").add_dataframe_asset("table").add_batch_definition_whole_dataframe("partition")
    batch = whole.get_batch({"dataframe": copy.to_pandas()})
    report = batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": SAMPLE_ROWS})
    by_rule: dict[str, Any] = {
        config.meta["rule"]: result for result in report.results if (config := result.expectation_config) and config.meta
    }
    return [by_rule[rule.name] for rule in rules]


def _read(rule: Rule, result: Any, table: Table, frame: pl.DataFrame) -> CheckOutcome:
    crash = next(_exceptions(result.exception_info or {}), None)
    if crash is not None:
        return _outcome(rule, passed=None, rows=frame.height, crashed=crash)
    found = result.result
    sample = ""
    if not result.success and rule.counts_rows:
        sample = f"{found['observed_value']} rows; expected {_range(rule.kwargs)}"
    elif not result.success:
        sample = _sample(rule, table, frame, found["partial_unexpected_index_list"][:SAMPLE_ROWS])
    return _outcome(rule, passed=bool(result.success), rows=frame.height, failing_rows=int(found.get("unexpected_count", 0)), sample=sample)


def _sample(rule: Rule, table: Table, frame: pl.DataFrame, rows: list[int]) -> str:
    return _markdown(frame.select(list(dict.fromkeys([*table.key, *rule.columns])))[rows])


def _exceptions(info: Mapping[str, Any]) -> Iterator[str]:
    """Messages of what was raised: one flat record, or one per metric that the expectation needs."""
    records = [info] if "raised_exception" in info else [record for record in info.values() if isinstance(record, Mapping)]
    return (str(record.get("exception_message")) for record in records if record.get("raised_exception"))


def _outcome(rule: Rule, **found: Any) -> CheckOutcome:
    return CheckOutcome(rule.name, rule.description, rule.blocking, **found)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _range(kwargs: Mapping[str, Any]) -> str:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    return " and ".join(
        part for part in (f"at least {low}" if low is not None else "", f"at most {high}" if high is not None else "") if part
    )


def _markdown(rows: pl.DataFrame) -> str:
    """Rows as a Markdown table, values as a person would write them."""
    return "\n".join(markdown_table(rows.columns, ([_cell(value) for value in row] for row in rows.rows())))


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
