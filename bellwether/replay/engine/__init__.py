"""The compiled replay engine: books, queues, orders and money of one episode, advanced from decision to decision."""

from bellwether.replay.engine.settings import Settings

__all__ = ["Settings"]
