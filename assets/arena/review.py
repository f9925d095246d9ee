"""Weekly review of lineups (which model represents each family): lists later releases of these models. Only operators change the registry."""

from collections import Counter

import dagster as dg
import polars as pl

from bellwether.arena.review import ReviewState, render_advice
from bellwether.errors import BellwetherError
from orchestration.asset_declarations import select, table_asset
from orchestration.run_priority import AUTOMATIC
from resources.arena import ArenaResource


@dg.asset(**table_asset("arena/review", "python"))
def review(context: dg.AssetExecutionContext, arena: ArenaResource) -> dg.Output[pl.DataFrame]:
    """List the later releases of families in the price map, as of now."""
    from bellwether.arena.weekly.interventions import build_review_rows, review_registry

    try:
        world = arena.world(context.run_id)
        reviews = review_registry(world)
        rows = build_review_rows(reviews, world.now())
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    counts = Counter(str(review.state) for review in reviews)
    proposed = "\n".join(render_advice(review) for review in reviews if review.state is ReviewState.UPGRADE)
    advice = {"to adopt": dg.MetadataValue.md(f"```toml\n{proposed}```")} if proposed else {}
    return dg.Output(rows, metadata={**{state: counts[state] for state in map(str, ReviewState)}, **advice})


#: Reads the catalogue; changes no lineup.
REVIEW = dg.define_asset_job("arena_review", select("arena/review"), description="Review the lineups: which families have a later release?")

weekly_review = dg.ScheduleDefinition(
    name="weekly_review",
    job=REVIEW,
    cron_schedule="0 9 * * 1",
    execution_timezone="UTC",
    tags=AUTOMATIC,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Monday 09:00 UTC: which families of the arena have a later release in the price map? It changes no lineup.",
)
