"""Replay results that the demo prints."""

from __future__ import annotations

from typing import Any

from bellwether.lake.warehouse import query
from bellwether.replay.results.text_tables import comparison_table, print_table
from bellwether.report.trading_inputs import agent_titles
from bellwether.settings import settings


def demo(as_json: bool) -> dict[str, Any]:
    """Print the results of all backtests unless `as_json`. Returns an empty mapping, since `--json` shows none."""
    if not as_json:
        print_table(comparison_table(query(settings().warehouse_uri, "FROM replay.summary"), agent_titles()))
    return {}
