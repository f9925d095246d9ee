"""Journal of model calls, by which each call is sent and paid for once in all runs, and each failure is stored with its reason.

The only mutable state of the platform, on SQLite or Postgres (docs/models.md). Names are imported on first use:
SQLAlchemy is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.journal.attempts import Attempt, InFlight
    from bellwether.journal.budget import Budget, BudgetExceeded, Scope, Spending
    from bellwether.journal.journal import Journal
    from bellwether.journal.request import CallKey, Request
    from bellwether.journal.values import Answered, Busy, CallStatus, CostSource, Failed, Full, Outcome, Reply, State, Usage

__all__ = [
    "Answered",
    "Attempt",
    "Budget",
    "BudgetExceeded",
    "Busy",
    "CallKey",
    "CallStatus",
    "CostSource",
    "Failed",
    "Full",
    "InFlight",
    "Journal",
    "Outcome",
    "Reply",
    "Request",
    "Scope",
    "Spending",
    "State",
    "Usage",
]

_HOMES = {
    "attempts": ("Attempt", "InFlight"),
    "budget": ("Budget", "BudgetExceeded", "Scope", "Spending"),
    "values": ("Answered", "Busy", "CallStatus", "CostSource", "Failed", "Full", "Outcome", "Reply", "State", "Usage"),
    "request": ("CallKey", "Request"),
    "journal": ("Journal",),
}

__getattr__ = lazy_names(__name__, _HOMES)
