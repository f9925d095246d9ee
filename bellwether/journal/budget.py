"""Budgets of model calls: upper limits on the cost of attempts (requests to a provider). An attempt that could exceed a budget is not begun."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from bellwether.database import Transaction
from bellwether.errors import BellwetherError
from bellwether.journal.request import require_natural
from bellwether.journal.schema import attempts
from bellwether.journal.values import format_dollars

#: Time for which an attempt without a known cost stays reserved; its charge is on the provider's account by then.
RESERVED_FOR = timedelta(hours=24)
#: End of the message about an exceeded budget, by which it is recognised.
ADVICE = "raise the budget to go on"

_END = "scope_end"
_FILTERS = ("purpose", "model", "scope", "run", _END)
#: Signs with a meaning in LIKE.
_WILD = re.compile(r"[%_\\]")


@dataclass(frozen=True, slots=True)
class Scope:
    """Filter that selects the attempts of a budget: those equal in every field that is set.
    scope_end: end of the `scope` column, for several scopes at once.
    """

    purpose: str | None = None
    model: str | None = None
    scope: str | None = None
    run: str | None = None
    scope_end: str | None = None

    @property
    def filters(self) -> dict[str, str]:
        """The fields that are set, by name."""
        return {name: value for name in _FILTERS if (value := getattr(self, name)) is not None}

    @property
    def parameters(self) -> dict[str, str]:
        """Bound parameters for `conditions`, by name."""
        filters = self.filters
        return filters if _END not in filters else {**filters, _END: "%" + _WILD.sub(r"\\\g<0>", filters[_END])}

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions that select these attempts, for a WHERE clause over the table `attempts`."""
        return [
            attempts.c.scope.like(sa.bindparam(_END), escape="\\") if name == _END else attempts.c[name] == sa.bindparam(name)
            for name in self.filters
        ]

    def __str__(self) -> str:
        values = (f"scope …{value}" if name == _END else f"{name} {value}" for name, value in self.filters.items())
        return ", ".join(values) or "everything"


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit in integer micro-dollars on the cost of the attempts selected by `of`.
    It applies only to callers that pass this budget to `Journal.begin`.

    Raises `ConfigError` unless the limit is a whole number from 0.
    """

    limit: int
    of: Scope = EVERYTHING

    def __post_init__(self) -> None:
        require_natural(self.limit if self.limit is not None else -1, f"budget of {self.of}")


@dataclass(frozen=True, slots=True)
class Spending:
    """Costs of the attempts in a scope, in integer micro-dollars.

    Attributes:
        spent: sum of the known costs.
        reserved: estimates of attempts without a known cost, in progress or ended, that began less than `RESERVED_FOR` ago.
        unknown: number of ended attempts without a known cost.
        uncounted: number of attempts with neither a cost nor an estimate, which no budget counts.
        in_flight: number of attempts in progress, whose cost may turn out lower than what they reserve.
    """

    spent: int
    reserved: int
    unknown: int
    uncounted: int
    in_flight: int

    @property
    def committed(self) -> int:
        """Micro-dollars that count against a budget: known costs, and estimates for attempts without a known cost."""
        return self.spent + self.reserved


class BudgetExceeded(BellwetherError):
    """A new attempt could cost more than is left of a budget. It was not begun, and nothing was spent."""

    def __init__(self, budget: Budget, spending: Spending, estimate: int) -> None:
        self.budget, self.spending, self.estimate = budget, spending, estimate
        unknown = f" ({spending.unknown} attempts ended without a known cost and count for 24 hours)" if spending.unknown else ""
        super().__init__(
            f"beginning a model call of about {format_dollars(estimate)}: the budget of {budget.of} is {format_dollars(budget.limit)}, of which "
            f"{format_dollars(spending.spent)} are spent and {format_dollars(spending.reserved)} reserved{unknown}; {ADVICE}"
        )

    @property
    def may_pass(self) -> bool:
        """True if the attempt may fit once the attempts in flight have ended, because only their estimates stand in its way."""
        return self.spending.in_flight > 0 and self.spending.spent + self.estimate <= self.budget.limit


def spending_columns() -> dict[str, sa.ColumnElement[int]]:
    """Return SQL expressions that sum `attempts` into the fields of `Spending`. Bind the parameters of `spending_parameters`."""
    cost, estimate = attempts.c.cost_microdollars, attempts.c.estimate_microdollars
    reserved = sa.and_(cost.is_(None), estimate.is_not(None), attempts.c.started_at > sa.bindparam("reserved_since"))
    unknown = sa.and_(cost.is_(None), attempts.c.outcome.is_not(None))
    return {
        "spent": sum_column(cost),
        "reserved": sum_column(sa.case((reserved, estimate))),
        "unknown": sum_column(sa.case((unknown, 1))),
        "uncounted": sum_column(sa.case((sa.and_(cost.is_(None), estimate.is_(None)), 1))),
        "in_flight": sum_column(sa.case((sa.and_(attempts.c.outcome.is_(None), attempts.c.leased_until > sa.bindparam("now")), 1))),
    }


def spending_parameters(transaction: Transaction) -> dict[str, Any]:
    """Return the values of the parameters in `spending_columns` at the current time."""
    now = transaction.now()
    return {"reserved_since": now - RESERVED_FOR, "now": now}


def sum_column(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Return the SQL sum of a column as an integer; NULLs are ignored."""
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)


def read_spending(transaction: Transaction, of: Scope) -> Spending:
    """Return the known costs and the reserved estimates of the attempts in a scope."""
    row = transaction.row(_select_spending(_name_filters(of)), of.parameters | spending_parameters(transaction))
    return Spending(**row._mapping)


def _name_filters(of: Scope) -> Scope:
    """Return a scope with the same filters but no values, the key of its cached statements."""
    return Scope(**dict.fromkeys(of.filters, ""))


@lru_cache(maxsize=16)
def _select_spending(scope: Scope) -> sa.Executable:
    return sa.select(*(column.label(name) for name, column in spending_columns().items())).where(*scope.conditions())


def require_budgets(transaction: Transaction, budgets: tuple[Budget, ...], estimate: int) -> None:
    """Raise `BudgetExceeded` unless an attempt that costs `estimate` fits all budgets. Requires the lock under which attempts begin."""
    for budget in budgets:
        if _read_committed(transaction, budget.of) + estimate > budget.limit:
            raise BudgetExceeded(budget, read_spending(transaction, budget.of), estimate)


def _read_committed(transaction: Transaction, of: Scope) -> int:
    """Return what is committed of a scope, in one sum, because every attempt sums up all attempts of its budgets."""
    committed: int = transaction.row(_select_committed(_name_filters(of)), of.parameters | spending_parameters(transaction))[0]
    return committed


@lru_cache(maxsize=16)
def _select_committed(scope: Scope) -> sa.Executable:
    cost, estimate = attempts.c.cost_microdollars, attempts.c.estimate_microdollars
    committed = sa.case((cost.is_not(None), cost), (attempts.c.started_at > sa.bindparam("reserved_since"), estimate))
    return sa.select(sum_column(committed)).where(*scope.conditions())
