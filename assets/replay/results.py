"""Replay results that the demo prints."""

from __future__ import annotations

from bellwether.lake.warehouse import query
from bellwether.replay.results.text_tables import comparison_table, print_table
from bellwether.report.trading_inputs import agent_titles
from bellwether.settings import settings


def print_comparison() -> None:
    """Print the published comparison of all agents."""
    print_table(comparison_table(query(settings().warehouse_uri, "FROM replay.summary"), agent_titles()))
