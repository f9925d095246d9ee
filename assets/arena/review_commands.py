"""`bellwether arena review` and `dismiss`: later releases of the arena's families. No run is started, and no lineup changed."""

from __future__ import annotations

import click

from assets.arena.reading import BY, REASON, reading
from bellwether.console import AS_JSON, console, emit, grid
from bellwether.text_tables import visible


@click.command()
@click.option("--lineup", help="Lineup that is reviewed; BELLWETHER_LINEUP when left out.")
@AS_JSON
def review(lineup: str | None, as_json: bool) -> None:
    """Show which families have a later release in LiteLLM's price map or the registry, and what to add to adopt it. Changes nothing."""
    import polars as pl

    from bellwether.arena.review import State, advice
    from bellwether.arena.weekly.reviewing import review_rows, reviewed

    with reading(lineup) as world:
        found = reviewed(world)
        rows = review_rows(found, world.now())
    adopt = {one.family.name: advice(one) for one in found if one.state is State.UPGRADE}
    if as_json:
        emit({"review": rows.to_dicts(), "adopt": adopt})
        return
    shown = rows.select("family", "competes", "model_id", "state", pl.col("offers").list.join(", "), "input_price", "output_price")
    console().print(grid(shown, most=200) if rows.height else "No family says how its later releases are recognised.")
    for text in adopt.values():
        console().print(f"\n{text}", markup=False, soft_wrap=True, end="")


@click.command()
@click.argument("family")
@click.argument("model")
@BY
@REASON
@AS_JSON
def dismiss(family: str, model: str, by: str, reason: str, as_json: bool) -> None:
    """Dismiss MODEL (its id, provider/id) as a release of FAMILY: reviews propose it no more. It stands."""
    from dataclasses import asdict

    from bellwether.arena.weekly.operators import dismiss_release

    with reading() as world:
        done = dismiss_release(world, family, model, by, reason)
    if as_json:
        emit({"intervention": asdict(done)})
    else:
        console().print(f"dismissed {visible(done.subject)}: by {visible(done.author)}", markup=False)
