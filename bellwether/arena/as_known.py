"""Readers of the arena's tables: as stored in the lake, or as known at an earlier instant, with rankings and releases computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import polars as pl

from bellwether.arena.lineup import Family, build_release_rows
from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.results import Facts, compute_results
from bellwether.lake import Lake
from bellwether.models.model import models
from bellwether.tables import table
from bellwether.tables.arena import AGENTS
from bellwether.tables.arena_rankings import INPUTS, RELEASES
from bellwether.tables.schema import Table

#: Function that reads the rows of a table.
TableReader = Callable[[Table], pl.DataFrame]


def stored_tables(lake: Lake) -> TableReader:
    """Return a function that reads any table as stored in the lake."""
    return lambda declared: lake.slice(declared, missing="skip").read()


def read_as_known(
    lake: Lake,
    rules: Mapping[str, Methodology],
    at: datetime,
    *,
    cutoffs: Mapping[str, datetime | None] | None = None,
    families: Mapping[str, Family] | None = None,
) -> TableReader:
    """Return a function that reads any table of the arena as known at an instant: the facts known by then, and what follows from them.

    rules: methodologies by name. cutoffs: from `load_cutoffs`. families: current families of the registry by name.
    """
    facts = Facts.load(lake).as_known(at)
    known: dict[str, pl.DataFrame] = {f"arena/{name}": getattr(facts, name) for name in Facts.__dataclass_fields__}
    known.update(compute_results(facts, rules, known_at=at).frames)
    ranked: dict[str, pl.DataFrame] = {}

    def read(declared: Table) -> pl.DataFrame:
        if declared.name in known:
            return known[declared.name]
        if "known_at" in declared.names:
            return lake.slice(declared, missing="skip").read().filter(pl.col("known_at") <= at)
        if not ranked:
            ranked.update(compute_rankings(load_inputs(read, cutoffs or {})))
            ranked[RELEASES.name] = build_release_rows(read(AGENTS), families or {})
        return ranked[declared.name]

    return read


def load_cutoffs(folder: Path | None = None) -> dict[str, datetime | None]:
    """Load the knowledge cutoffs of the registry's models by name."""
    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def load_inputs(read: TableReader, cutoffs: Mapping[str, datetime | None]) -> RankingInputs:
    """Load the inputs of rankings. read: function that returns the rows of a table. cutoffs: from `load_cutoffs`."""
    return RankingInputs(**{name: read(table(f"arena/{name}")) for name in INPUTS}, cutoffs=cutoffs)
