"""Compiled replay engine: books, queues, orders and money of one episode.

Submodules are imported lazily, because the process of an agent needs the codes but not the compiled code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.engine.session import ReplayOutcome, Session

_HOMES = {"session": ("ReplayOutcome", "Session")}

__all__ = ["ReplayOutcome", "Session"]

__getattr__ = lazy_names(__name__, _HOMES)
