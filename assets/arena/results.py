"""Results of the arena that commands print after a run."""

from __future__ import annotations

from bellwether.arena.methodology import methodologies
from bellwether.arena.text_tables import render_standings
from bellwether.console import console
from bellwether.lake.warehouse import query
from bellwether.settings import settings


def print_rankings() -> None:
    """Print the published rankings of the arena."""
    config = settings()
    rankings = query(config.warehouse_uri, "FROM arena.rankings")
    primary = {name: rules.primary for name, rules in methodologies(config.registry).items()}
    for part in render_standings(rankings, primary):
        console().print(part)
