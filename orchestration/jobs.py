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


#: Lists that belong to no day: series and the venue's archive.
REFERENCE = dg.define_asset_job(
    "reference", _select("raw/kalshi_series", "raw/kalshi_archive"), description="Pull the series list and scan the venue's archive."
)
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

JOBS = (REFERENCE, DAYS, QUESTIONS, EVALUATE, RANK, PUBLISH)
