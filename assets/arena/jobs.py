"""Jobs of the arena: asset selections that users and schedules launch.

Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.arena.assets import BOOK_TABLES, DECIDED_TABLES
from assets.arena.rankings import RANKING_TABLES
from orchestration.asset_declarations import select

#: A week: universe, cohort, decisions, trades, evidence.
WEEKS = dg.define_asset_job(
    "arena_week", select("arena/universe", *DECIDED_TABLES), description="Run a week of the arena: what is done stays."
)
#: Looks at the markets that bets wait for.
EVIDENCE = dg.define_asset_job(
    "arena_evidence", select("arena/evidence"), description="Look at the markets that the arena's bets wait for."
)
#: Agents of a cohort, after an operator closed one.
AGENTS = dg.define_asset_job("arena_agents", select("arena/agents"), description="List the agents of a cohort, closed ones as closed.")
#: Marks of past days.
MARKS = dg.define_asset_job(
    "arena_marks", select("arena/prices"), description="Reconstruct the marks of past days, and check those that were seen."
)
#: Everything that follows from the facts.
BOOKS = dg.define_asset_job(
    "arena_books",
    select(*BOOK_TABLES, "arena/submissions", *RANKING_TABLES),
    description="Fold the arena's facts: ledger, scores, portfolios, leaderboard; compare the families and submitted forecasts.",
)

JOBS = (WEEKS, EVIDENCE, AGENTS, MARKS, BOOKS)
