"""Rankings of a lake: what they are computed from, and as they were known at an earlier time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import polars as pl

from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings.inputs import Inputs
from bellwether.arena.rankings.rankings import rankings
from bellwether.arena.results import Facts, results
from bellwether.lake import Lake
from bellwether.tables import table


def cutoffs(folder: Path | None = None) -> dict[str, datetime | None]:
    """When the knowledge of each model of the registry ends, by its name."""
    from bellwether.models.registry import models

    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def restated(lake: Lake, rules: Mapping[str, Methodology], known: Mapping[str, datetime | None], at: datetime) -> dict[str, pl.DataFrame]:
    """The tables of `rankings` from the facts that were known at an instant: later trades, evidence and marks do not count.

    rules: the methodologies by name. known: as `cutoffs` returns it.
    """
    facts = {name: lake.slice(table(f"arena/{name}"), missing="skip").read() for name in Facts.__dataclass_fields__}
    facts = {name: rows.filter(pl.col("at" if name == "prices" else "known_at") <= at) for name, rows in facts.items()}
    universe = lake.slice(table("arena/universe"), missing="skip").read().filter(pl.col("known_at") <= at)
    books = results(Facts(**facts), rules, known_at=at).frames
    own = {name: facts[name] for name in ("agents", "decisions", "trades", "prices")}
    folded = {name: books[f"arena/{name}"] for name in ("ledger", "positions", "portfolios", "scores")}
    return rankings(Inputs(**own, **folded, universe=universe, cutoffs=known))
