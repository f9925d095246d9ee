"""What commands need that read the arena, or record what an operator says: its world, in which no model is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import click

from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.arena.weekly.means import World
    from bellwether.arena.weekly.reading import Rows
    from bellwether.lake import Lake

BY = click.option("--by", required=True, metavar="NAME", help="Who intervenes.")
REASON = click.option("--reason", required=True, metavar="TEXT", help="Why, in one line.")


@contextmanager
def reading(lineup: str | None = None, methodology: str | None = None, run: str = "reading") -> Iterator[World]:
    """The arena's world; no model is asked in it. lineup, methodology: of new cohorts; those of the settings when left out. run: names what it writes."""
    from resources.arena import ArenaResource

    arena = ArenaResource.of(settings())
    try:
        yield arena.world(run, lineup=lineup, methodology=methodology)
    finally:
        arena.journal.journal.close()


def rows_known(known_at: datetime | None) -> Rows:
    """The tables as the lake has them, or as they were known at an instant."""
    from bellwether.arena.methodology import methodologies
    from bellwether.arena.weekly.reading import as_known, stored

    lake = arena_lake()
    return stored(lake) if known_at is None else as_known(lake, methodologies(settings().registry), known_at)


def arena_lake() -> Lake:
    """The lake of the settings, in which this version reads what an older one stored."""
    from bellwether.lake import Lake
    from bellwether.lake.renewing import renew

    lake = Lake(settings().lake_uri)
    renew(lake)
    return lake
