"""Journal of model calls, by which each call is sent and paid for once in all runs, and each failure is stored with its reason.

The only mutable state of the platform, on SQLite or Postgres (docs/models.md). Names are imported on first use:
SQLAlchemy is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.journal.export import Spending
    from bellwether.journal.journal import Attempt, BudgetExceeded, InFlight, Journal
    from bellwether.journal.tables import Budget, Scope
    from bellwether.journal.values import (
        Answered,
        Busy,
        CallKey,
        CallStatus,
        CostSource,
        Failed,
        Full,
        Outcome,
        Reply,
        Request,
        State,
        Usage,
    )

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
    "export": ("Spending",),
    "journal": ("Attempt", "BudgetExceeded", "InFlight", "Journal"),
    "tables": ("Budget", "Scope"),
    "values": (
        "Answered",
        "Busy",
        "CallKey",
        "CallStatus",
        "CostSource",
        "Failed",
        "Full",
        "Outcome",
        "Reply",
        "Request",
        "State",
        "Usage",
    ),
}

__getattr__ = lazy_names(__name__, _HOMES)
