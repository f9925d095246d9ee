"""The journal of model calls: a model is asked once per decision and paid for once, and whatever failed is a row with a reason.

The only mutable state of the platform, on SQLite or Postgres (docs/journal.md). Names are loaded when they are first used:
SQLAlchemy is slow to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bellwether.journal.budget import Budget, BudgetExceeded, Scope, Spending
    from bellwether.journal.claims import Attempt, Claim, LeaseLost
    from bellwether.journal.facts import Answered, Busy, CallStatus, CostSource, Failed, Outcome, Reply, State, Usage
    from bellwether.journal.journal import Journal
    from bellwether.journal.request import CallKey, Request
    from bellwether.journal.threads import in_thread

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
    **dict.fromkeys(("Budget", "BudgetExceeded", "Scope", "Spending"), "budget"),
    **dict.fromkeys(("Attempt", "Claim", "LeaseLost"), "claims"),
    **dict.fromkeys(("Answered", "Busy", "CallStatus", "CostSource", "Failed", "Outcome", "Reply", "State", "Usage"), "facts"),
    **dict.fromkeys(("CallKey", "Request"), "request"),
    "Journal": "journal",
    "in_thread": "threads",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
