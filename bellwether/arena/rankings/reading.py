"""Rankings of a lake: what they are computed from, and as they were known at an earlier time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import polars as pl

from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings.inputs import Inputs
from bellwether.arena.rankings.rankings import rankings
from bellwether.arena.weekly.reading import as_known
from bellwether.lake import Lake
from bellwether.tables import table

#: Tables of the arena that rankings are computed from.
TABLES = ("agents", "decisions", "universe", "trades", "prices", "ledger", "positions", "portfolios", "scores")


def cutoffs(folder: Path | None = None) -> dict[str, datetime | None]:
    """When the knowledge of each model of the registry ends, by its name."""
    from bellwether.models.registry import models

    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def restated(lake: Lake, rules: Mapping[str, Methodology], known: Mapping[str, datetime | None], at: datetime) -> dict[str, pl.DataFrame]:
    """The tables of `rankings` from the facts that were known at an instant: later trades, evidence and marks do not count.

    rules: the methodologies by name. known: as `cutoffs` returns it.
    """
    read = as_known(lake, rules, at)
    return rankings(Inputs(**{name: read(table(f"arena/{name}")) for name in TABLES}, cutoffs=known))
