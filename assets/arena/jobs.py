"""Jobs of the arena: selections of assets that users and schedules launch together.

Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.arena.assets import BOOK_TABLES, DECIDED_TABLES
from assets.arena.rankings import RANKING_TABLES
from orchestration.asset_declarations import select

#: A week: universe, cohort, decisions, trades and evidence.
WEEKS = dg.define_asset_job(
    "arena_week", select("arena/universe", *DECIDED_TABLES), description="Run a week of the arena. Stored decisions are kept."
)
#: Evidence about markets with open bets.
EVIDENCE = dg.define_asset_job("arena_evidence", select("arena/evidence"), description="Poll the markets with open bets of the arena.")
#: Agents of a cohort, after an operator closed one of them.
AGENTS = dg.define_asset_job("arena_agents", select("arena/agents"), description="Update the agents of a cohort after an intervention.")
#: Marks of past days.
MARKS = dg.define_asset_job(
    "arena_marks", select("arena/prices"), description="Reconstruct the marks of past days, and check observed ones."
)
#: All results computed from the facts.
BOOKS = dg.define_asset_job(
    "arena_books",
    select(*BOOK_TABLES, "arena/submissions", *RANKING_TABLES),
    description="Compute ledger, scores, portfolios and leaderboard; compare families and submitted forecasts.",
)

JOBS = (WEEKS, EVIDENCE, AGENTS, MARKS, BOOKS)
