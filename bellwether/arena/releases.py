"""The releases that cohorts used, family by family: what a page marks on the curve of a family when its model changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bellwether.arena.families import Family, families
from bellwether.arena.lineup import RULE
from bellwether.lake.sql import run_sql
from bellwether.tables.arena_lineups import RELEASES


def registered(folder: Path | None = None) -> Mapping[str, Family]:
    """The families of the registry by name."""
    from bellwether.models.registry import models

    return families(models(folder), folder)


def releases(agents: pl.DataFrame, known: Mapping[str, Family]) -> pl.DataFrame:
    """Rows of arena/releases from rows of arena/agents; rules have no releases. known: the families of the registry, which has titles and dates."""
    named = pl.DataFrame(
        [(one.name, one.title, one.control) for one in known.values()], schema={"family": str, "title": str, "control": bool}, orient="row"
    )
    dated = pl.DataFrame(
        [(one.name, model, release.released) for one in known.values() for model, release in one.releases.items()],
        schema={"family": pl.String(), "model": pl.String(), "released": pl.Date()},
        orient="row",
    )
    return run_sql(RELEASES, {"agents": agents, "families": named, "dated": dated}, {"rule": RULE})
