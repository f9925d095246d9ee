"""`bellwether arena rankings`: how the families compare, with intervals. It reads; no run is started."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import click

from assets.arena.options import KNOWN_AT
from assets.arena.reading import arena_lake, rows_known
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
@KNOWN_AT
@AS_JSON
def rankings(imputation: str, known_at: datetime | None, *, with_pairs: bool, as_json: bool) -> None:
    """Show how the families compare, with intervals over events: live, reconstructed and contaminated cohorts apart."""
    from bellwether.arena.rankings.show import standings

    found = rankings_at(known_at)
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
    from bellwether.tables import table

    config = settings()
    lake = arena_lake()
    if known_at is None:
        return {name: lake.slice(table(name), missing="skip").read() for name in ("arena/rankings", "arena/pairs")}
    return restated(lake, methodologies(config.registry), cutoffs(config.registry), known_at)


@click.command()
@click.option(
    "--range",
    "span",
    type=click.Choice(["10M", "1H", "1D", "1W", "1M", "3M", "ALL"]),
    default="ALL",
    show_default=True,
    help="How far back from the newest portfolio.",
)
@KNOWN_AT
@AS_JSON
def equity(span: str, known_at: datetime | None, as_json: bool) -> None:
    """Show the mean portfolio of each family over a range: a point per ten minutes, hour, six hours, day or week that changed one."""
    from bellwether.arena.rankings.reading import cutoffs, inputs_of
    from bellwether.arena.rankings.windows import WINDOWS, equity_in
    from bellwether.arena.show import yes

    inputs = inputs_of(rows_known(known_at), cutoffs(settings().registry))
    rows = equity_in(inputs, WINDOWS[span])
    if as_json:
        emit({"equity": rows.to_dicts()})
        return
    import polars as pl

    if (rows["at"] == rows["at"].dt.truncate("1d")).all():
        rows = rows.with_columns(pl.col("at").dt.date())
    shown = rows.with_columns(yes("reconstructed"), yes("contaminated"), pl.col("total").round(2))
    console().print(grid(shown, title=f"Mean portfolio, {span}", most=200) if rows.height else "No portfolio has changed yet.")
