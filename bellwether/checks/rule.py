"""Rules of tables, and checks that concern the whole lake.

Rows for which the condition of a rule is null are exempt. Rules that protect rankings are blocking. Unknown values of venues only cause warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import polars as pl

from bellwether.domains import DOMAINS
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
        condition: Boolean per row that must not be false; None for a rule that only requires a row.
        columns: Columns shown in samples of failing rows, by default those that the condition reads.
        blocking: Whether a failure blocks everything derived from the table.
        mostly: Share of the rows that must meet the rule.
        fit: Function that adapts the rule to the lake and the checked rows; None for a constant rule.
        expected: Reason why the sandbox breaks the rule on purpose; its check reports the reason and does not fail. Empty for other rules.
    """

    name: str
    description: str
    condition: pl.Expr | None
    columns: tuple[str, ...] = ()
    blocking: bool = False
    mostly: float = 1.0
    fit: Callable[[Lake, Slice], Rule] | None = None
    expected: str = ""

    @property
    def is_expected(self) -> bool:
        """True if a failure is expected: the current world is the sandbox, which breaks the rule on purpose."""
        return bool(self.expected) and settings().world is World.SANDBOX


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
    identify = f"{columns[0]} identifies" if len(columns) == 1 else f"{', '.join(columns)} together identify"
    return holds("unique_key", f"{identify} a row", pl.struct(columns).is_unique(), blocking=True)


def present(name: str, description: str, column: str) -> Rule:
    """Create a rule: no value of the column is null."""
    return holds(name, description, pl.col(column).is_not_null())


def words(name: str, description: str, column: str, *values: str, blocking: bool = False) -> Rule:
    """Create a rule: each value of the column is one of `values`, or null."""
    return holds(name, description, pl.col(column).is_in(values), blocking=blocking)


def holds(name: str, description: str, condition: pl.Expr, *, blocking: bool = False, mostly: float = 1.0, expected: str = "") -> Rule:
    """Create a rule: `condition` is true or null in every row, or in the share `mostly`. expected: why the sandbox breaks the rule on purpose."""
    columns = tuple(dict.fromkeys(condition.meta.root_names()))
    return Rule(name, description, condition, columns, blocking, mostly, expected=expected)


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
    return {declared(name).name: rules for module in _modules() for name, rules in module.RULES.items()}


def _modules() -> list[ModuleType]:
    """Return the modules in which the domains declare their rules."""
    return [module for domain in DOMAINS if (module := domain.rules_module()) is not None]
