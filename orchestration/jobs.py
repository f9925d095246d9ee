"""Jobs: the selections that people and clocks launch.

Not here: when they are launched (schedules.py, sensors.py).
Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.declare import key
from assets.raw import DAY_TABLES, SERIES_TABLES
from assets.recordings import RECORDING_TABLES
from assets.replay import BACKTEST_TABLES, STANDING_TABLES
from bellwether.checks.operations import LOOKS

LAKE_CHECKS = dg.AssetSelection.checks(*(dg.AssetCheckKey(key(look.table), look.name) for look in LOOKS))
CLEAN_TABLES = ("clean/resolutions", "clean/markets", "clean/prices")


def _select(*names: str) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(key(name) for name in names))


#: The list of series, which belongs to no day.
SERIES = dg.define_asset_job("series", _select(*SERIES_TABLES), description="Pull the list of series.")
#: What the venue has moved to its historical endpoints: needed for days before the venue's cutoff.
ARCHIVE = dg.define_asset_job("archive", _select("raw/kalshi_archive"), description="Scan the venue's archive of settled markets.")
#: A day from the venue to its clean rows, with their checks.
DAYS = dg.define_asset_job(
    "days", _select(*DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS, description="Pull UTC days of all venues, clean and check them."
)
#: The checks that look at the whole lake: once a day, not once per day of a backfill.
OPERATIONS = dg.define_asset_job(
    "operations", LAKE_CHECKS, description="Is the lake fresh and complete, do markets have prices, what held the pulls up?"
)
#: A recording of a stream.
RECORDINGS = dg.define_asset_job(
    "recordings", _select(*RECORDING_TABLES), description="Take a recording into the lake, with its gap report."
)
#: The question set of a release.
QUESTIONS = dg.define_asset_job("questions", _select("benchmark/questions"), description="Build the question set of a release.")
#: One forecaster's scores, from the forecasts that there are: nobody is asked.
SCORE_TABLES = ("benchmark/scores", "benchmark/reliability")
SCORE = dg.define_asset_job("score", _select(*SCORE_TABLES), description="Score the forecasts of one forecaster on one release again.")
#: One forecaster on one release.
EVALUATE = dg.define_asset_job(
    "evaluate",
    _select("benchmark/forecasts", *SCORE_TABLES),
    description="Let one forecaster answer one release, and score it.",
)
#: The ranking of a release.
RANKING_TABLES = ("benchmark/leaderboard", "benchmark/comparisons")
RANK = dg.define_asset_job("rank", _select(*RANKING_TABLES), description="Compare and rank the forecasters of a release.")
#: What a release's questions are like.
ANALYSE = dg.define_asset_job("analyse", _select("benchmark/dataset_analysis"), description="Analyse the question set of a release.")
#: The files that people read and publish.
REPORT = dg.define_asset_job("report", _select("benchmark/report"), description="Write the report of a release: Markdown, JSON and plots.")
EXPORT = dg.define_asset_job("export", _select("benchmark/export"), description="Write a release as a dataset folder for Hugging Face.")
#: An episode of a recording.
EPISODES = dg.define_asset_job("episodes", _select("replay/episodes"), description="Make an episode of a recording, ready to be replayed.")
#: One agent in one episode.
BACKTEST = dg.define_asset_job("replay", _select(*BACKTEST_TABLES), description="Let one agent trade one episode.")
#: How agents compare.
STANDING = dg.define_asset_job("compare_agents", _select(*STANDING_TABLES), description="Compare the agents over their episodes.")
TRADING = dg.define_asset_job("trading_report", _select("replay/report"), description="Write the report of all backtests.")
#: The published DuckDB file.
PUBLISH = dg.define_asset_job("publish", dg.AssetSelection.assets(["summary", "warehouse"]), description="Publish the warehouse.")

_BENCHMARK = (QUESTIONS, EVALUATE, SCORE, RANK, ANALYSE, REPORT, EXPORT)
_REPLAY = (RECORDINGS, EPISODES, BACKTEST, STANDING, TRADING)
JOBS = (SERIES, ARCHIVE, DAYS, OPERATIONS, *_BENCHMARK, *_REPLAY, PUBLISH)
