"""Results of the arena that commands print after a run."""

from __future__ import annotations

from typing import Any

from bellwether.arena.methodology import methodologies
from bellwether.arena.text_tables import render_standings
from bellwether.console import console
from bellwether.lake.warehouse import query
from bellwether.settings import settings


def demo(as_json: bool) -> dict[str, Any]:
    """Return the rankings and totals of the arena, and print the rankings unless `as_json`."""
    config = settings()
    rows = query(config.warehouse_uri, "FROM arena.leaderboard ORDER BY methodology, reconstructed, family")
    rankings = query(config.warehouse_uri, "FROM arena.rankings")
    if not as_json:
        primary = {name: rules.primary for name, rules in methodologies(config.registry).items()}
        for part in render_standings(rankings, primary):
            console().print(part)
    return {"arena": rows.to_dicts(), "rankings": rankings.to_dicts()}
