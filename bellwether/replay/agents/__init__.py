"""Agents: base classes, the context through which an agent observes and trades, records of events, and built-in strategies."""
