"""The compiled replay engine: books, queues, orders and money of one episode, advanced from decision to decision."""

from bellwether.replay.engine.outcome import Outcome, bound_by, bounded
from bellwether.replay.engine.session import Session
from bellwether.replay.engine.settings import Settings

__all__ = ["Outcome", "Session", "Settings", "bound_by", "bounded"]
