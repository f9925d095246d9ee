"""Arena domain: weekly decisions on open markets, and the portfolios that follow from them, in paper money."""

from __future__ import annotations

from bellwether.domains.domain import Domain

ARENA = Domain(
    "arena",
    groups={
        "arena": "weekly cohorts of agents that bet paper money on open markets: decisions, trades, ledger, marks, scores (`arena/leaderboard`)"
    },
    tables=(
        "bellwether.tables.arena",
        "bellwether.tables.arena_messages",
        "bellwether.tables.arena_rankings",
        "bellwether.tables.arena_lineups",
    ),
    rules="bellwether.arena.checks",
    definitions="assets.arena.definitions",
    demo="assets.arena.runs:demo",
    results="assets.arena.results:demo",
)
