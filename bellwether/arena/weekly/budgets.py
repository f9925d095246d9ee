"""What the models of a week may cost: all of them together, and each. Hard stops of the journal, over all cohorts, runs and processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_FLOOR, Decimal

from bellwether.arena.units import MICROS
from bellwether.journal import Budget, Journal, Scope

#: What the journal calls the calls that ask for decisions.
PURPOSE = "arena/decisions"


@dataclass(frozen=True)
class WeekBudgets:
    """Dollars of a week: of all models, and of each. None is no limit."""

    week: Decimal | None = None
    model: Decimal | None = None

    def of(self, week: date, model: str) -> tuple[Budget, ...]:
        """The budgets that a call of the model (the journal's name of it) must fit into, the week's first."""
        limits = ((self.week, scope_of(week)), (self.model, scope_of(week, model)))
        return tuple(Budget(_micros(limit), scope) for limit, scope in limits if limit is not None)


UNLIMITED = WeekBudgets()


@dataclass(frozen=True)
class Spent:
    """What a week, or a model in it, has cost. spent, reserved: dollars: known costs, and what calls without a known cost may have cost at most.
    left: of the budget; None without one."""

    spent: float
    reserved: float
    left: float | None


def scope_of(week: date, model: str | None = None) -> Scope:
    """The calls for decisions of a week, of all cohorts: their scope is the decision, cohort/family/week."""
    return Scope(purpose=PURPOSE, model=model, scope_end=f"/{week.isoformat()}")


def spending_of(journal: Journal, week: date, budgets: WeekBudgets) -> tuple[Spent, dict[str, Spent]]:
    """The cost of a week, and of each model that was asked in it, by the journal's name."""
    used = journal.usage("model", of=scope_of(week))
    names = sorted(used["model"])
    return _spent(journal, scope_of(week), budgets.week), {name: _spent(journal, scope_of(week, name), budgets.model) for name in names}


def _spent(journal: Journal, scope: Scope, limit: Decimal | None) -> Spent:
    found = journal.spent(scope)
    left = None if limit is None else max(_micros(limit) - found.committed, 0) / MICROS
    return Spent(found.spent / MICROS, found.reserved / MICROS, left)


def _micros(dollars: Decimal) -> int:
    return int((dollars * MICROS).to_integral_value(ROUND_FLOOR))
