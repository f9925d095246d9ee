"""Journal of model calls, by which each call is sent and paid for once in all runs, and each failure is stored with its reason.

The only mutable state of the platform, on SQLite or Postgres (docs/models.md). Names are imported on first use:
SQLAlchemy is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.journal.budget import Budget, BudgetExceeded, Scope, Spending
    from bellwether.journal.claims import Attempt, Claim, LeaseLost
    from bellwether.journal.journal import Journal
    from bellwether.journal.request import CallKey, Request
    from bellwether.journal.values import Answered, Busy, CallStatus, CostSource, Failed, Outcome, Reply, State, Usage
    from bellwether.journal.writer import in_thread

__all__ = [
    "Answered",
    "Attempt",
    "Budget",
    "BudgetExceeded",
    "Busy",
    "CallKey",
    "CallStatus",
    "Claim",
    "CostSource",
    "Failed",
    "Journal",
    "LeaseLost",
    "Outcome",
    "Reply",
    "Request",
    "Scope",
    "Spending",
    "State",
    "Usage",
    "in_thread",
]

_HOMES = {
    "budget": ("Budget", "BudgetExceeded", "Scope", "Spending"),
    "claims": ("Attempt", "Claim", "LeaseLost"),
    "values": ("Answered", "Busy", "CallStatus", "CostSource", "Failed", "Outcome", "Reply", "State", "Usage"),
    "request": ("CallKey", "Request"),
    "journal": ("Journal",),
    "writer": ("in_thread",),
}

__getattr__ = lazy_names(__name__, _HOMES)
