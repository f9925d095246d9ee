"""A plain replay engine of lists, dicts and integers that processes one event at a time, to compare with the compiled engine."""

from tests.reference.replay.engine import Reference

__all__ = ["Reference"]
