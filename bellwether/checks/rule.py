"""Rules of tables, and checks that concern the whole lake.

A rule is an expectation, or a condition over several columns or some rows. Rows for which a condition is null are exempt. Rules that protect
rankings are blocking. Unknown values of venues only cause warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.domains import load_domains
from bellwether.errors import ConfigError
from bellwether.settings import World, settings
from bellwether.tables import table as declared
from bellwether.tables.schema import Table

if TYPE_CHECKING:
    from bellwether.lake import Lake, Slice


#: Why gaps of recordings are expected in the sandbox.
DEMO_GAP = "the demo drops the messages of 90 s of its last recording"


@dataclass(frozen=True, slots=True)
class Rule:
    """Condition that the rows of a table must meet, and what a failure means.

    Attributes:
        name: Name of the check: letters, digits and underscores.
        description: One sentence.
        expectation: Class name in Great Expectations; empty for a condition.
        columns: Columns that the rule reads, shown in samples of failing rows.
        kwargs: Arguments of the expectation.
        blocking: Whether a failure blocks everything derived from the table.
        condition: Boolean per row that must not be false; None for an expectation.
        fit: Function that adapts the rule to the lake and the checked rows; None for a constant rule.
        expected: Reason why the sandbox breaks the rule on purpose; its check reports the reason and does not fail. Empty for other rules.

    Raises `ConfigError` for an expectation without an implementation in Polars.
    """

    name: str
    description: str
    expectation: str
    columns: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    blocking: bool = False
    condition: pl.Expr | None = None
    fit: Callable[[Lake, Slice], Rule] | None = None
    expected: str = ""

    def __post_init__(self) -> None:
        if self.condition is None and not self.counts_rows and self.expectation not in _HOLDS:
            raise ConfigError(
                f"rule {self.name!r}: the expectation {self.expectation!r} is not implemented in Polars; declare it with `holds`"
            )

    @property
    def is_expected(self) -> bool:
        """True if a failure is expected: the current world is the sandbox, which breaks the rule on purpose."""
        return bool(self.expected) and settings().world is World.SANDBOX

    @property
    def counts_rows(self) -> bool:
        """True if the rule limits the number of rows, and so concerns no single row."""
        return self.expectation == "ExpectTableRowCountToBeBetween"

    @property
    def holds(self) -> pl.Expr:
        """Expression per row: true if the row meets the rule, null if the row is exempt. Undefined if the rule limits the number of rows."""
        return self.condition if self.condition is not None else _HOLDS[self.expectation](self.kwargs)


#: Expectations in Polars by their arguments. Missing values break only the first.
_HOLDS: dict[str, Callable[[Mapping[str, Any]], pl.Expr]] = {
    "ExpectColumnValuesToNotBeNull": lambda kwargs: pl.col(kwargs["column"]).is_not_null(),
    "ExpectColumnValuesToBeInSet": lambda kwargs: pl.col(kwargs["column"]).is_in(kwargs["value_set"]),
    "ExpectColumnValuesToBeBetween": lambda kwargs: _is_between(pl.col(kwargs["column"]), kwargs.get("min_value"), kwargs.get("max_value")),
    "ExpectColumnValuesToBeUnique": lambda kwargs: pl.col(kwargs["column"]).is_unique() | pl.col(kwargs["column"]).is_null(),
    "ExpectCompoundColumnsToBeUnique": lambda kwargs: pl.struct(kwargs["column_list"]).is_unique(),
}


def _is_between(column: pl.Expr, low: float | None, high: float | None) -> pl.Expr:
    if low is None or high is None:
        return column <= high if low is None else column >= low
    return column.is_between(low, high)


@dataclass(frozen=True, slots=True)
class Observation:
    """Result of a check of the whole lake. found: sentence about what the check found.

    subjects: names of failing weeks or markets; each raises one alarm.
    """

    passed: bool
    found: str
    numbers: Mapping[str, int | float | str] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LakeCheck:
    """Check of the whole lake. table: table whose asset shows the check in Dagster.

    evaluate(lake, now) returns its observation; `now` is timezone-aware UTC.
    """

    name: str
    table: str
    description: str
    evaluate: Callable[[Lake, datetime], Observation]


def unique(*columns: str) -> Rule:
    """Create a blocking rule: no two rows have the same values in all of these columns."""
    if len(columns) == 1:
        return Rule("unique_key", f"{columns[0]} identifies a row", "ExpectColumnValuesToBeUnique", columns, {"column": columns[0]}, True)
    return Rule(
        "unique_key",
        f"{', '.join(columns)} together identify a row",
        "ExpectCompoundColumnsToBeUnique",
        columns,
        {"column_list": list(columns)},
        True,
    )


def present(name: str, description: str, column: str, *, mostly: float = 1.0) -> Rule:
    """Create a rule: at least the share `mostly` of the values in the column is not null."""
    return Rule(name, description, "ExpectColumnValuesToNotBeNull", (column,), {"column": column, "mostly": mostly})


def words(name: str, description: str, column: str, *values: str, blocking: bool = False) -> Rule:
    """Create a rule: each value of the column is one of `values`, or null."""
    return Rule(name, description, "ExpectColumnValuesToBeInSet", (column,), {"column": column, "value_set": list(values)}, blocking)


def between(name: str, description: str, column: str, low: float | None, high: float | None, *, blocking: bool = False) -> Rule:
    """Create a rule: each value of the column is between `low` and `high`, both included, or null. None means no bound."""
    kwargs = {"column": column, "min_value": low, "max_value": high}
    return Rule(name, description, "ExpectColumnValuesToBeBetween", (column,), kwargs, blocking)


def holds(name: str, description: str, condition: pl.Expr, *, blocking: bool = False, expected: str = "") -> Rule:
    """Create a rule: `condition` is true or null in every row. expected: why the sandbox breaks the rule on purpose."""
    columns = tuple(dict.fromkeys(condition.meta.root_names()))
    return Rule(name, description, "", columns, {}, blocking, condition, expected=expected)


def row_count(name: str, description: str, low: int | None, high: int | None) -> Rule:
    """Create a rule: the number of rows is between `low` and `high`, both included. None means no bound."""
    return Rule(name, description, "ExpectTableRowCountToBeBetween", (), {"min_value": low, "max_value": high})


def prices(*columns: str) -> Rule:
    """Create a blocking rule: each value of the columns is between 0 and 1, or null."""
    within = pl.all_horizontal(pl.col(column).is_between(0, 1).fill_null(True) for column in columns)
    return holds("prices_between_0_and_1", "every price lies between 0 and 1 dollar", within, blocking=True)


def applies_to(rows: pl.Expr, condition: pl.Expr) -> pl.Expr:
    """Restrict a condition to `rows`: for other rows the result is null, which exempts them from the rule."""
    return pl.when(rows).then(condition)


def columns_read(table: Table, rules: Sequence[Rule]) -> list[str]:
    """Return the columns that `rules` read and those of the table's key, in stored order."""
    read = {*table.key}.union(*(rule.columns for rule in rules))
    return [name for name in table.names if name in read]


def rules_for(table: str) -> tuple[Rule, ...]:
    """Return the rules of the table with this name; () for a table without rules."""
    return rules_by_table().get(table, ())


def lake_checks() -> tuple[LakeCheck, ...]:
    """Return the checks of the whole lake that the domains declare."""
    return tuple(check for module in _modules() for check in getattr(module, "LAKE_CHECKS", ()))


@cache
def rules_by_table() -> dict[str, tuple[Rule, ...]]:
    """Return the rules that the domains declare, by table name."""
    by_table: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        for name, rules in module.RULES.items():
            if name in by_table:
                raise ConfigError(f"{module.__name__} declares rules of {name} like another domain; declare them once")
            by_table[declared(name).name] = tuple(rules)
    return by_table


def _modules() -> list[ModuleType]:
    """Return the modules in which the domains declare their rules."""
    return [module for domain in load_domains() if (module := domain.rules_module()) is not None]
