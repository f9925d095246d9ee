"""Replay as Dagster runs it."""
