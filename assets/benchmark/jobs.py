"""Jobs of the benchmark: selections of assets that users and schedules launch together.

Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.benchmark import assets
from bellwether.settings import Settings
from orchestration.asset_declarations import select

#: The question set of a release.
QUESTIONS = dg.define_asset_job("questions", select("benchmark/questions"), description="Build the question set of a release.")
#: Outcomes of a release as known now.
RESOLVE = dg.define_asset_job("resolve", select("benchmark/resolutions"), description="Look up the outcomes of a release as known now.")
#: Scores of one forecaster from its stored forecasts; no request is sent.
SCORE_TABLES = ("benchmark/scores", "benchmark/reliability")
SCORE = dg.define_asset_job("score", select(*SCORE_TABLES), description="Score stored forecasts of one forecaster on one release.")
#: One forecaster on one release.
EVALUATE = dg.define_asset_job(
    "evaluate",
    select("benchmark/forecasts", *SCORE_TABLES),
    description="Make and score the forecasts of one forecaster on one release.",
)
#: Leaks of a release, and scores without them.
LEAK_TABLES = ("benchmark/leaks", "benchmark/leak_scores")
AUDIT = dg.define_asset_job(
    "audit", select(*LEAK_TABLES), description="Find the leaks of a release, and score its forecasters without them."
)
#: The ranking of a release.
RANKING_TABLES = ("benchmark/leaderboard", "benchmark/comparisons", "benchmark/ensembles")
RANK = dg.define_asset_job(
    "rank",
    select(*RANKING_TABLES, *LEAK_TABLES, "benchmark/dataset_analysis", "benchmark/report"),
    description="Compare and rank the forecasters of a release, find its leaks, analyse its questions and write its report.",
)
#: Statistics of the questions of a release.
ANALYSE = dg.define_asset_job("analyse", select("benchmark/dataset_analysis"), description="Analyse the question set of a release.")
#: Report and dataset of a release.
REPORT = dg.define_asset_job("report", select("benchmark/report"), description="Write the report of a release: Markdown, JSON and plots.")
EXPORT = dg.define_asset_job("export", select("benchmark/export"), description="Write a release as a dataset folder for Hugging Face.")

JOBS = (QUESTIONS, RESOLVE, EVALUATE, SCORE, RANK, AUDIT, ANALYSE, REPORT, EXPORT)


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets and jobs of the benchmark."""
    return dg.Definitions(assets=dg.load_assets_from_modules([assets]), jobs=JOBS)
