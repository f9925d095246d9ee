"""The domain of replay: episodes made from recordings, and what agents earn in them."""

from __future__ import annotations

from bellwether.domains.domain import Domain
from bellwether.lazy_commands import LazyCommand

REPLAY = Domain(
    "replay",
    groups={"replay": "recorded episodes, what agents earn in them, and how they compare (`replay/summary`)"},
    tables=("bellwether.tables.replay",),
    rules="bellwether.checks.replay",
    definitions="assets.replay.definitions",
    partitions={"agent": "bellwether.replay.registry:agents"},
    demo="assets.replay.runs:demo",
    results="assets.replay.results:demo",
    commands=(
        LazyCommand("agents", "bellwether.replay.agent_commands:agents", "List the agents that can trade; write a new one."),
        LazyCommand(
            "backtest", "bellwether.replay.backtest_commands:backtest", "Let agents trade recorded episodes; show what they earned."
        ),
        LazyCommand("episode", "bellwether.replay.episode_commands:episode", "Make, import, list and check episodes."),
        LazyCommand("trading", "bellwether.report.trading_commands:trading", "Show the tables of all backtests; write their report."),
    ),
)
