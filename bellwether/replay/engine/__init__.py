"""The compiled replay engine: books, queues, orders and money of one episode, advanced from decision to decision.

Nothing is compiled or loaded before it is asked for: an agent's own process needs the codes and not the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.extras import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.engine.outcome import Outcome, rerun_band
    from bellwether.replay.engine.session import Session
    from bellwether.replay.engine.settings import Settings

_HOMES = {"outcome": ("Outcome", "rerun_band"), "session": ("Session",), "settings": ("Settings",)}

__all__ = ["Outcome", "Session", "Settings", "rerun_band"]

__getattr__ = lazy_names(__name__, _HOMES)
