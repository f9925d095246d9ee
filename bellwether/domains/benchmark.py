"""Benchmark domain: questions, models' forecasts and their scores, and publication of these."""

from __future__ import annotations

from bellwether.domains.domain import Domain

BENCHMARK = Domain(
    "benchmark",
    groups={
        "benchmark": "question sets, forecasts, scores and a leaderboard. Start with `benchmark/leaderboard`, whose figure is in its "
        "latest materialization. To evaluate a model, materialize a partition of `benchmark/forecasts` (release and forecaster); "
        "`bellwether models` lists models with a key"
    },
    tables=("bellwether.tables.benchmark",),
    rules="bellwether.checks.benchmark",
    definitions="assets.benchmark.definitions",
    partitions={"release": "bellwether.questions:releases_here", "forecaster": "assets.benchmark.partitions:forecasters"},
    waiting="bellwether.forecasting:without_key",
    demo="assets.benchmark.runs:demo",
    results="assets.benchmark.results:demo",
)
