"""What commands need that read the arena, or record what an operator says: its world, in which no model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING

import polars as pl

from bellwether.arena.decision import DecisionState
from bellwether.arena.lineup import registered
from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings.reading import cutoffs, every_table_as_known, restated
from bellwether.arena.weekly.reading import as_known, between, stored
from bellwether.errors import BellwetherError
from bellwether.journal.budget import ADVICE
from bellwether.lake import Lake
from bellwether.lake.renewing import renew
from bellwether.settings import settings
from bellwether.tables import Table, table
from bellwether.tables.arena import DECISIONS
from bellwether.tables.outgoing import redacted

if TYPE_CHECKING:
    from bellwether.arena.weekly.means import World
    from bellwether.arena.weekly.reading import Rows


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
    lake = arena_lake()
    return stored(lake) if known_at is None else as_known(lake, methodologies(settings().registry), known_at)


def arena_lake() -> Lake:
    """The lake of the settings, in which this version reads what an older one stored."""
    lake = Lake(settings().lake_uri)
    renew(lake)
    return lake


def rankings_at(known_at: datetime | None) -> Mapping[str, pl.DataFrame]:
    """Rows of arena/rankings and arena/pairs by table, as the lake has them, or as they were known at an instant."""
    config, lake = settings(), arena_lake()
    if known_at is None:
        return {name: lake.slice(table(name), missing="skip").read() for name in ("arena/rankings", "arena/pairs")}
    return restated(lake, methodologies(config.registry), cutoffs(config.registry), known_at)


def table_rows(declared: Table, known_at: datetime | None, first: date | None, last: date | None) -> pl.DataFrame:
    """Rows of a table of the arena without credentials, as the lake has them or as known at an instant. first, last: UTC days."""
    lake, registry = arena_lake(), settings().registry
    if known_at is None:
        read = stored(lake)
    else:
        read = every_table_as_known(lake, methodologies(registry), cutoffs(registry), known_at, registered(registry))
    rows = redacted(declared.name, read(declared))
    return between(declared, rows, first, last) if first or last else rows


def require_answers(weeks: list[date]) -> None:
    """Raise `BellwetherError` where decisions of the weeks wait because no call of a model could succeed, or a budget is used up."""
    open_ones = (pl.col("state") == DecisionState.OPEN.value) & pl.col("reason").str.contains(ADVICE, literal=True)
    waiting = rows_known(None)(DECISIONS).filter(
        pl.col("week").is_in(weeks), (pl.col("state") == DecisionState.BLOCKED.value) | open_ones.fill_null(value=False)
    )
    if waiting.height:
        raise BellwetherError(
            f"running the arena: {waiting.height} decisions are not taken: {waiting.sort('week', 'place')['reason'][0]}. "
            "The same command goes on with them until they are due"
        )
