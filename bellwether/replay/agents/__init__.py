"""Agents: base classes, context, records and built-in strategies."""
