"""Jobs that build episodes and backtest agents, and the sensor that requests episodes.

Concept: https://docs.dagster.io/guides/automate
"""

from __future__ import annotations

import dagster as dg

from assets.replay import assets
from assets.replay.assets import BACKTEST_TABLES, EPISODE
from bellwether.settings import Settings
from orchestration.asset_declarations import select
from orchestration.automation import find_missing
from orchestration.run_priority import AUTOMATIC
from resources import LakeResource
from resources.recordings import EpisodesResource, RecordingsResource

#: An episode of a recording.
EPISODES = dg.define_asset_job(
    "episodes",
    select("replay/episodes", "replay/books"),
    description="Build an episode of a recording, and sample its books over time.",
)
#: Books of an existing episode over time.
BOOKS = dg.define_asset_job("episode_books", select("replay/books"), description="Sample the books of an episode over time.")
#: One agent in one episode.
BACKTEST = dg.define_asset_job("replay", select(*BACKTEST_TABLES), description="Backtest one agent on one episode.")
#: Comparison of agents.
STANDING = dg.define_asset_job("compare_agents", select("replay/summary"), description="Compare the agents over their episodes.")

JOBS = (EPISODES, BOOKS, BACKTEST, STANDING)


@dg.sensor(
    job=EPISODES,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Builds the episodes of every recording in the lake, and rebuilds those without a result when the lake has new data.",
)
def build_episodes(
    context: dg.SensorEvaluationContext, recordings: RecordingsResource, lake: LakeResource
) -> dg.SensorResult | dg.SkipReason:
    """Add a partition for each episode of finished recordings, and request a run for each outdated episode."""
    from bellwether.replay.episode_builder.sources import outdated_episodes

    due = outdated_episodes(lake.lake, {name: recording.name for name, (recording, _) in recordings.episodes().items()})
    new = find_missing(due, context.instance.get_dynamic_partitions(str(EPISODE.name)))
    if not due:
        return dg.SkipReason("every episode of the recordings in the lake is up to date")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=f"{name}@{sources}", partition_key=name, tags=AUTOMATIC) for name, sources in due.items()],
        dynamic_partitions_requests=[EPISODE.build_add_request(new)] if new else [],
    )


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, the sensor and the store of episodes of a world."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=JOBS,
        sensors=(build_episodes,),
        resources={"store": EpisodesResource(path=str(config.episodes_path))},
    )
