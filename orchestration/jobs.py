"""Jobs: the selections that people and clocks launch.

Not here: when they are launched (schedules.py, sensors.py).
Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.declare import key
from assets.raw import DAY_TABLES


def _select(*names: str) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(key(name) for name in names))


#: The list of series, which belongs to no day.
SERIES = dg.define_asset_job("series", _select("raw/kalshi_series"), description="Pull the list of series.")
#: What the venue has moved to its historical endpoints: needed for days before the venue's cutoff.
ARCHIVE = dg.define_asset_job("archive", _select("raw/kalshi_archive"), description="Scan the venue's archive of settled markets.")
#: A day from the venue to its clean rows, with their checks.
DAYS = dg.define_asset_job(
    "days", _select(*DAY_TABLES, "clean/markets", "clean/prices"), description="Pull UTC close days, clean and check them."
)
#: The question set of a release.
QUESTIONS = dg.define_asset_job("questions", _select("benchmark/questions"), description="Build the question set of a release.")
#: One forecaster on one release.
EVALUATE = dg.define_asset_job(
    "evaluate",
    _select("benchmark/forecasts", "benchmark/scores", "benchmark/reliability"),
    description="Let one forecaster answer one release, and score it.",
)
#: The ranking of a release.
RANK = dg.define_asset_job("rank", _select("benchmark/leaderboard"), description="Rank the forecasters of a release.")
#: The published DuckDB file.
PUBLISH = dg.define_asset_job("publish", dg.AssetSelection.assets(["summary", "warehouse"]), description="Publish the warehouse.")

JOBS = (SERIES, ARCHIVE, DAYS, QUESTIONS, EVALUATE, RANK, PUBLISH)
