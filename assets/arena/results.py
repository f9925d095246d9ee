"""Results of the arena that commands print after a run."""

from __future__ import annotations

from typing import Any

from bellwether.arena.text_tables import render_leaderboard
from bellwether.console import console
from bellwether.lake.warehouse import query
from bellwether.settings import settings


def demo(as_json: bool) -> dict[str, Any]:
    """Return the demo's leaderboard of the arena, and print it unless `as_json`."""
    rows = query(settings().warehouse_uri, "FROM arena.leaderboard ORDER BY methodology, reconstructed, rank NULLS LAST, family")
    if not as_json:
        for part in render_leaderboard(rows):
            console().print(part)
    return {"arena": rows.to_dicts()}
