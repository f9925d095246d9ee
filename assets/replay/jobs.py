"""Jobs of replay: selections of assets that users and schedules launch together.

Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.replay.assets import BACKTEST_TABLES
from orchestration.asset_declarations import select

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
STANDING = dg.define_asset_job(
    "compare_agents",
    select("replay/summary", "replay/report"),
    description="Compare the agents over their episodes, and write the report of all backtests.",
)
TRADING = dg.define_asset_job("trading_report", select("replay/report"), description="Write the report of all backtests.")

JOBS = (EPISODES, BOOKS, BACKTEST, STANDING, TRADING)
