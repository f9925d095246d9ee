"""Declaration of a rule of a table: an expectation or a condition, and whether a failure blocks what follows.

A rule blocks where bad rows would reach a ranking. Words of the venues are open sets: a new one is worth a look and
stops nothing. A rule that concerns several columns, or only some rows, is a condition over the columns; a row for which
the condition is null is not concerned.
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
    """One rule of one table.

    Attributes:
        name: of the check; letters, digits and underscores.
        description: one sentence.
        expectation: class name in Great Expectations; empty for a condition.
        columns: the rule reads these; a sample of failing rows shows them.
        kwargs: arguments of the expectation.
        blocking: True when a failure stops everything made from the table.
        condition: boolean per row that must not be false; None for an expectation.
        fit: adapts the rule to the lake and to the rows being checked, under the same name; None where it is the same for all.
        expected: why the sandbox breaks the rule on purpose; there the check reports it and does not fail. Empty for other rules.

    Raises `ConfigError` for an expectation that has no form in Polars; declare it as a condition.
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
            raise ConfigError(f"rule {self.name!r}: the expectation {self.expectation!r} has no form in Polars; declare it with `holds`")

    @property
    def is_expected(self) -> bool:
        """True if this world breaks the rule on purpose."""
        return bool(self.expected) and settings().world is World.SANDBOX

    @property
    def counts_rows(self) -> bool:
        """True for a rule about the number of rows, which an empty table can break."""
        return self.expectation == "ExpectTableRowCountToBeBetween"

    @property
    def holds(self) -> pl.Expr:
        """Boolean per row: whether it meets the rule; null where the rule does not apply. Not for a rule that counts rows."""
        return self.condition if self.condition is not None else _HOLDS[self.expectation](self.kwargs)


#: Expectations about columns in Polars, from their arguments. Missing values break only the first.
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
    """Result of such a check: passed or not, one sentence, and the numbers behind it.

    subjects: what is not well, by name (a week, a market): each is an incident of its own, which alarms once.
    """

    passed: bool
    found: str
    numbers: Mapping[str, int | float | str] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LakeCheck:
    """One question about the lake.

    name: of the check. table: whose check it is. description: one sentence that states the rule. evaluate(lake, now): the answer; `now` is the
    present of the world, aware, UTC.
    """

    name: str
    table: str
    description: str
    evaluate: Callable[[Lake, datetime], Observation]


def unique(*columns: str) -> Rule:
    """The columns together identify a row; blocks."""
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
    """The column has a value, in a share of at least `mostly` of the rows."""
    return Rule(name, description, "ExpectColumnValuesToNotBeNull", (column,), {"column": column, "mostly": mostly})


def words(name: str, description: str, column: str, *words: str, blocking: bool = False) -> Rule:
    """The column, where it has a value, holds one of the words."""
    return Rule(name, description, "ExpectColumnValuesToBeInSet", (column,), {"column": column, "value_set": list(words)}, blocking)


def between(name: str, description: str, column: str, low: float | None, high: float | None, *, blocking: bool = False) -> Rule:
    """The column, where it has a value, lies between two numbers, both included; None is no bound."""
    kwargs = {"column": column, "min_value": low, "max_value": high}
    return Rule(name, description, "ExpectColumnValuesToBeBetween", (column,), kwargs, blocking)


def holds(name: str, description: str, condition: pl.Expr, *, blocking: bool = False, expected: str = "") -> Rule:
    """The condition is not false in any row; null means that a row is not concerned."""
    columns = tuple(dict.fromkeys(condition.meta.root_names()))
    return Rule(name, description, "", columns, {}, blocking, condition, expected=expected)


def row_count(name: str, description: str, low: int | None, high: int | None) -> Rule:
    """The number of rows lies between two bounds, both included; None is no bound."""
    return Rule(name, description, "ExpectTableRowCountToBeBetween", (), {"min_value": low, "max_value": high})


def prices(*columns: str) -> Rule:
    """The columns, where they have a value, lie between 0 and 1; blocks."""
    within = pl.all_horizontal(pl.col(column).is_between(0, 1).fill_null(True) for column in columns)
    return holds("prices_between_0_and_1", "every price lies between 0 and 1 dollar", within, blocking=True)


def applies_to(rows: pl.Expr, condition: pl.Expr) -> pl.Expr:
    """The condition, where `rows` is true; else null."""
    return pl.when(rows).then(condition)


def columns_read(table: Table, rules: Sequence[Rule]) -> list[str]:
    """The columns that `rules` look at and the key that names a failing row, in stored order; verbatim bodies stay on disk."""
    read = {*table.key}.union(*(rule.columns for rule in rules))
    return [name for name in table.names if name in read]


def rules_for(table: str) -> tuple[Rule, ...]:
    """The rules of `table`; () where none are declared."""
    return rules_by_table().get(table, ())


def lake_checks() -> tuple[LakeCheck, ...]:
    """The checks of the whole lake, of all domains."""
    return tuple(check for module in _modules() for check in getattr(module, "LAKE_CHECKS", ()))


@cache
def rules_by_table() -> dict[str, tuple[Rule, ...]]:
    """The rules of every table, as the domains declare them."""
    found: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        for name, rules in module.RULES.items():
            if name in found:
                raise ConfigError(f"{module.__name__} declares rules of {name}, which another domain does; declare them in one place")
            found[declared(name).name] = tuple(rules)
    return found


def _modules() -> list[ModuleType]:
    return [module for domain in load_domains() if (module := domain.rules_module()) is not None]
