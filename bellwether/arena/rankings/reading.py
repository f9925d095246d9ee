"""Rankings of a lake: what they are computed from, and as they were known at an earlier time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import polars as pl

from bellwether.arena.families import Family
from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings.inputs import Inputs
from bellwether.arena.rankings.rankings import rankings
from bellwether.arena.releases import releases
from bellwether.arena.weekly.reading import AS_KNOWN, Rows, as_known
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.tables.arena import AGENTS
from bellwether.tables.arena_lineups import RELEASES
from bellwether.tables.arena_rankings import INPUTS
from bellwether.tables.schema import Table


def cutoffs(folder: Path | None = None) -> dict[str, datetime | None]:
    """When the knowledge of each model of the registry ends, by its name."""
    from bellwether.models.registry import models

    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def restated(lake: Lake, rules: Mapping[str, Methodology], known: Mapping[str, datetime | None], at: datetime) -> dict[str, pl.DataFrame]:
    """The tables of `rankings` from the facts that were known at an instant: later trades, evidence and marks do not count.

    rules: the methodologies by name. known: as `cutoffs` returns it.
    """
    return rankings(inputs_of(as_known(lake, rules, at), known))


def every_table_as_known(
    lake: Lake, rules: Mapping[str, Methodology], known: Mapping[str, datetime | None], at: datetime, families: Mapping[str, Family]
) -> Rows:
    """Every table of the arena as it was known at an instant: `as_known`, and what is computed anew from it: the tables of `rankings`, and releases.

    rules, known: as in `restated`. families: of the registry by name, as it is now.
    """
    read = as_known(lake, rules, at)
    made: dict[str, pl.DataFrame] = {}

    def rows(declared: Table) -> pl.DataFrame:
        if "known_at" in declared.names or declared.name in AS_KNOWN:
            return read(declared)
        if not made:
            made.update(rankings(inputs_of(read, known)))
            made[RELEASES.name] = releases(read(AGENTS), families)
        return made[declared.name]

    return rows


def inputs_of(read: Rows, known: Mapping[str, datetime | None]) -> Inputs:
    """What rankings are computed from, of the tables that `read` gives. known: as `cutoffs` returns it."""
    return Inputs(**{name: read(table(f"arena/{name}")) for name in INPUTS}, cutoffs=known)
