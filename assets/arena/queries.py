"""Access of commands to the arena: reading tables, and recording interventions of operators, such as a cancelled market. No model is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING

import polars as pl

from bellwether.arena.decision import DecisionState
from bellwether.arena.lineup import load_registered_families
from bellwether.arena.methodology import methodologies
from bellwether.errors import BellwetherError
from bellwether.lake import Lake
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.tables.arena import DECISIONS

if TYPE_CHECKING:
    from bellwether.arena.as_known import TableReader
    from bellwether.arena.weekly.context import WeekContext


@contextmanager
def open_arena(run: str = "reading") -> Iterator[WeekContext]:
    """Open the arena of the settings, with lake, journal, venues and models, until the context ends.

    run: name under which results are stored and calls are paid for.
    """
    from resources.arena import ArenaResource

    arena = ArenaResource.of(settings())
    try:
        yield arena.world(run)
    finally:
        arena.journal.journal.close()


def open_table_reader(known_at: datetime | None) -> TableReader:
    """Return a function that reads tables of the arena. known_at: as they were known at this instant; None: as they are stored."""
    from bellwether.arena.as_known import load_cutoffs, read_as_known, stored_tables

    lake, registry = open_lake(), settings().registry
    if known_at is None:
        return stored_tables(lake)
    cutoffs, families = load_cutoffs(registry), load_registered_families(registry)
    return read_as_known(lake, methodologies(registry), known_at, cutoffs=cutoffs, families=families)


def print_rankings(known_at: datetime | None = None) -> None:
    """Print the rankings of the arena. known_at: as in `open_table_reader`."""
    from bellwether.console import console
    from bellwether.pages.columns import text_table
    from bellwether.pages.model import PageTable
    from bellwether.site.arena_rankings import leaderboard, read_rankings

    read = open_table_reader(known_at)
    rankings = read_rankings(lambda name: read(table(name)))
    if not rankings:
        console().print("No cohort has started. `bellwether arena run` starts one.")
    for ranking in rankings:
        board = leaderboard(ranking)
        assert isinstance(board, PageTable)  # a ranking has families
        console().print(text_table(board))
        for note in ranking.notes():
            console().print(note, style="dim", markup=False, highlight=False)


def open_lake() -> Lake:
    """Open the lake of the settings."""
    return Lake.of(settings())


def require_answers(weeks: list[date]) -> None:
    """Raise `BellwetherError` if failed model calls or an exhausted budget keep decisions of these weeks from being made."""
    from bellwether.journal.journal import ADVICE  # SQLAlchemy: 0.2 s

    open_ones = (pl.col("state") == DecisionState.OPEN.value) & pl.col("reason").str.contains(ADVICE, literal=True)
    waiting = open_table_reader(None)(DECISIONS).filter(
        pl.col("week").is_in(weeks), (pl.col("state") == DecisionState.BLOCKED.value) | open_ones.fill_null(value=False)
    )
    if waiting.height:
        raise BellwetherError(
            f"running the arena: {waiting.height} decisions are not taken: {waiting.sort('week', 'place')['reason'][0]}. "
            "The same command continues them until their deadline"
        )
