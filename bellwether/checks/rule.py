"""Rules of tables, and checks of the whole lake.

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
    """Rule of a table.

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
        """True if the current world breaks the rule on purpose."""
        return bool(self.expected) and settings().world is World.SANDBOX

    @property
    def counts_rows(self) -> bool:
        """True if the rule is about the number of rows."""
        return self.expectation == "ExpectTableRowCountToBeBetween"

    @property
    def holds(self) -> pl.Expr:
        """Boolean expression: true for rows that meet the rule, null for exempt rows. Undefined for rules that count rows."""
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
    """Result of a check of the whole lake. found: sentence that describes it.

    subjects: names of failing weeks or markets; each raises one alarm.
    """

    passed: bool
    found: str
    numbers: Mapping[str, int | float | str] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LakeCheck:
    """Check of the whole lake. table: table of the asset at which it is shown.

    evaluate(lake, now) returns its observation; `now` is timezone-aware UTC.
    """

    name: str
    table: str
    description: str
    evaluate: Callable[[Lake, datetime], Observation]


def unique(*columns: str) -> Rule:
    """Create a blocking rule: the columns together identify a row."""
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
    """Create a rule: at least the share `mostly` of the rows has a value in the column."""
    return Rule(name, description, "ExpectColumnValuesToNotBeNull", (column,), {"column": column, "mostly": mostly})


def words(name: str, description: str, column: str, *values: str, blocking: bool = False) -> Rule:
    """Create a rule: the column is null or one of `values`."""
    return Rule(name, description, "ExpectColumnValuesToBeInSet", (column,), {"column": column, "value_set": list(values)}, blocking)


def between(name: str, description: str, column: str, low: float | None, high: float | None, *, blocking: bool = False) -> Rule:
    """Create a rule: the column is null or between `low` and `high`, inclusive. None means no bound."""
    kwargs = {"column": column, "min_value": low, "max_value": high}
    return Rule(name, description, "ExpectColumnValuesToBeBetween", (column,), kwargs, blocking)


def holds(name: str, description: str, condition: pl.Expr, *, blocking: bool = False, expected: str = "") -> Rule:
    """Create a rule: the condition is true or null in every row. expected: as in `Rule`."""
    columns = tuple(dict.fromkeys(condition.meta.root_names()))
    return Rule(name, description, "", columns, {}, blocking, condition, expected=expected)


def row_count(name: str, description: str, low: int | None, high: int | None) -> Rule:
    """Create a rule: the number of rows is between `low` and `high`, inclusive. None means no bound."""
    return Rule(name, description, "ExpectTableRowCountToBeBetween", (), {"min_value": low, "max_value": high})


def prices(*columns: str) -> Rule:
    """Create a blocking rule: the columns are null or between 0 and 1."""
    within = pl.all_horizontal(pl.col(column).is_between(0, 1).fill_null(True) for column in columns)
    return holds("prices_between_0_and_1", "every price lies between 0 and 1 dollar", within, blocking=True)


def applies_to(rows: pl.Expr, condition: pl.Expr) -> pl.Expr:
    """Restrict a condition to `rows`. It is null, and so not checked, for other rows."""
    return pl.when(rows).then(condition)


def columns_read(table: Table, rules: Sequence[Rule]) -> list[str]:
    """Return the columns of `rules` and of the key, in stored order."""
    read = {*table.key}.union(*(rule.columns for rule in rules))
    return [name for name in table.names if name in read]


def rules_for(table: str) -> tuple[Rule, ...]:
    """Return the rules of `table`; () if it has none."""
    return rules_by_table().get(table, ())


def lake_checks() -> tuple[LakeCheck, ...]:
    """Return the checks of the whole lake of all domains."""
    return tuple(check for module in _modules() for check in getattr(module, "LAKE_CHECKS", ()))


@cache
def rules_by_table() -> dict[str, tuple[Rule, ...]]:
    """Return the rules of all domains by table."""
    by_table: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        for name, rules in module.RULES.items():
            if name in by_table:
                raise ConfigError(f"{module.__name__} declares rules of {name} like another domain; declare them once")
            by_table[declared(name).name] = tuple(rules)
    return by_table


def _modules() -> list[ModuleType]:
    return [module for domain in load_domains() if (module := domain.rules_module()) is not None]
