"""The domain of the benchmark: questions, forecasts, scores and what is published of them."""

from __future__ import annotations

from bellwether.domains.domain import Domain
from bellwether.lazy_commands import LazyCommand, PlatformCommand

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
    commands=(
        LazyCommand("compat", "bellwether.kalshibench.commands:compat", "Recompute and correct published KalshiBench results."),
        PlatformCommand("evaluate", "assets.benchmark.evaluation:evaluate", "Let language models answer a release; score and rank them."),
        PlatformCommand("export", "bellwether.publish.commands:export", "Write a release as a Hugging Face dataset."),
        PlatformCommand("leaderboard", "bellwether.lake.commands:leaderboard", "Show the leaderboards of releases."),
        PlatformCommand("release", "assets.benchmark.releases:release", "Build releases, let forecasters answer them, score and rank."),
        PlatformCommand("report", "bellwether.report.commands:report", "Write the report of a release."),
        PlatformCommand("run", "assets.benchmark.commands:run", "Pull the last days, build releases, score and publish."),
        PlatformCommand("submit", "bellwether.submissions.commands:submit", "Submit forecasts in a file: accepted, or refused by line."),
        LazyCommand("score", "bellwether.scoring.commands:score", "Score forecasts in CSV, Parquet or JSON files."),
    ),
)
