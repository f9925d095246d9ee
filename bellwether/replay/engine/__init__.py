"""The compiled replay engine: books, queues, orders and money of one episode, advanced from decision to decision.

Nothing is compiled or loaded before it is asked for: an agent's own process needs the codes and not the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bellwether.replay.engine.outcome import Outcome, bound_by, bounded
    from bellwether.replay.engine.session import Session
    from bellwether.replay.engine.settings import Settings

_HOME = {"Outcome": "outcome", "Session": "session", "Settings": "settings", "bound_by": "outcome", "bounded": "outcome"}

__all__ = ["Outcome", "Session", "Settings", "bound_by", "bounded"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
