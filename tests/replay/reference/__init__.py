"""A plain replay engine: lists, dicts and integers, one event after the other, for comparison with the compiled one. Nothing here is fast."""

from tests.replay.reference.engine import Reference

__all__ = ["Reference"]
