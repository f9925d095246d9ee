"""The releases that cohorts used, family by family: what a page marks on the curve of a family when its model changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bellwether.arena.families import Family, families
from bellwether.arena.lineup import rule_of
from bellwether.tables.arena_lineups import RELEASES


def registered(folder: Path | None = None) -> Mapping[str, Family]:
    """The families of the registry by name."""
    from bellwether.models.registry import models

    return families(models(folder), folder)


def releases(agents: pl.DataFrame, known: Mapping[str, Family]) -> pl.DataFrame:
    """Rows of arena/releases from rows of arena/agents; rules have no releases. known: the families of the registry, which has titles and dates."""
    ruled = [name for name in agents["model"].unique() if rule_of(name) is not None]
    newest = pl.col("input_price", "output_price", "model_id").sort_by("week").last()
    used = (
        agents.filter(~pl.col("model").is_in(ruled))
        .group_by("reconstructed", "family", "model")
        .agg(newest, first_cohort=pl.col("week").min(), last_cohort=pl.col("week").max(), cohorts=pl.col("week").n_unique().cast(pl.Int32))
        .sort("reconstructed", "family", "first_cohort", "model")
    )
    named = pl.DataFrame(
        [(one.name, one.title, one.control) for one in known.values()], schema={"family": str, "title": str, "control": bool}, orient="row"
    )
    dated = pl.DataFrame(
        [(one.name, model, release.released) for one in known.values() for model, release in one.releases.items()],
        schema={"family": pl.String(), "model": pl.String(), "released": pl.Date()},
        orient="row",
    )
    rows = (
        used.join(named, on="family", how="left")
        .join(dated, on=["family", "model"], how="left")
        .sort("reconstructed", "family", "first_cohort", "model")
        .with_columns(
            title=pl.col("title").fill_null(pl.col("family")),
            control=pl.col("control").fill_null(value=False),
            previous=pl.col("model").shift().over("reconstructed", "family"),
        )
    )
    return RELEASES.validate(rows.select(*RELEASES.schema))
