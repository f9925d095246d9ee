"""The domain of the benchmark: questions, forecasts, scores and what is published of them."""

from __future__ import annotations

from bellwether.domains.domain import Domain

BENCHMARK = Domain(
    "benchmark",
    groups={
        "benchmark": "releases of questions; forecasts, scores and a leaderboard. Begin with `benchmark/leaderboard`: its figure is in the "
        "latest materialization. To ask a model, materialize a partition of `benchmark/forecasts` (a release and a forecaster); "
        "`bellwether models` lists which have a key"
    },
    tables=("bellwether.tables.benchmark",),
    rules="bellwether.checks.benchmark",
    definitions="assets.benchmark.definitions",
    partitions={"release": "bellwether.questions:releases_here", "forecaster": "bellwether.forecasting:available"},
    waiting="bellwether.forecasting:without_key",
    demo="assets.benchmark.runs:demo",
    results="assets.benchmark.results:demo",
)
