"""`bellwether arena rankings`: how the families compare, with intervals. It reads; no run is started."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bellwether.console import AS_JSON, console, emit, grid
from bellwether.settings import settings

if TYPE_CHECKING:
    import polars as pl


@click.command()
@click.option(
    "--imputation",
    type=click.Choice(["none", "price", "half"]),
    default="none",
    show_default=True,
    help="What stands for a missing forecast: nothing, the market's price, or one half.",
)
@click.option("--pairs", "with_pairs", is_flag=True, help="Show the paired tests too.")
@click.option(
    "--known-at",
    type=click.DateTime(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    help="As it was known at this time (UTC): later trades, evidence and marks do not count.",
)
@AS_JSON
def rankings(imputation: str, known_at: datetime | None, *, with_pairs: bool, as_json: bool) -> None:
    """Show how the families compare, with intervals over events: live, reconstructed and contaminated cohorts apart."""
    from bellwether.arena.rankings.show import standings

    found = rankings_at(known_at and known_at.replace(tzinfo=UTC))
    rows, pairs = found["arena/rankings"], found["arena/pairs"]
    if as_json:
        shown = rows.filter(imputation=imputation).to_dicts()
        emit({"rankings": shown, **({"pairs": pairs.to_dicts()} if with_pairs else {})})
        return
    if rows.is_empty():
        console().print("No cohort has started. `bellwether arena run` starts one.")
    for part in standings(rows, imputation):
        console().print(part)
    if with_pairs and not pairs.is_empty():
        shown_columns = ("metric", "family", "other", "n", "difference", "lower", "upper", "p_holm", "reason")
        console().print(grid(pairs.select(shown_columns), title="Paired differences by cohort-week", most=200))


def rankings_at(known_at: datetime | None) -> Mapping[str, pl.DataFrame]:
    """Rows of arena/rankings and arena/pairs by table, as the lake has them, or as they were known at an instant."""
    from bellwether.arena.methodology import methodologies
    from bellwether.arena.rankings.reading import cutoffs, restated
    from bellwether.lake import Lake
    from bellwether.tables import table

    config = settings()
    lake = Lake(config.lake_uri)
    if known_at is None:
        return {name: lake.slice(table(name), missing="skip").read() for name in ("arena/rankings", "arena/pairs")}
    return restated(lake, methodologies(config.registry), cutoffs(config.registry), known_at)
