"""Runs of the benchmark that commands launch: questions, forecasts, scores, ranking and report of a release, where they are out of date."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from assets.benchmark import jobs
from assets.benchmark.jobs import LEAK_TABLES, RANKING_TABLES, SCORE_TABLES
from assets.benchmark.partitions import FORECASTER, RELEASE
from assets.summary.runs import publish
from bellwether import forecasting
from bellwether.errors import BellwetherError, ConfigError
from bellwether.questions import ReleaseName
from bellwether.questions.versions import load_fixed, require_questions
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.partitions import to_key
from orchestration.run_session import require_success
from orchestration.runner import Runner

FORECASTS = table("benchmark/forecasts")
#: What follows from the scores of a release.
RANKED = (*RANKING_TABLES, *LEAK_TABLES, "benchmark/dataset_analysis", "benchmark/report")
#: Corpus of the sandbox's model with tools.
NEWS = "sandbox.jsonl"
#: The release of the demo; its first questions and forecasters for the model with tools, which is compared with the price.
DEMO, DEMO_WITH_TOOLS, WITH_TOOLS = "sandbox-2026", "sandbox-2026@60", ("sandbox-researcher", "market-24h", "always-half")


def forecast_releases(work: Runner, releases: Sequence[str], chosen: Sequence[str] = ()) -> dict[str, BellwetherError | None]:
    """Build the questions of releases, run the forecasters, and rank them. Returns the error, or None, by `forecaster on release`.

    chosen: forecasters; the automatic ones when left out. An error of one does not stop the others.
    """
    forecasters = list(chosen or forecasting.competitors())
    return {f"{name} on {release}": end for release in releases for name, end in evaluate_release(work, release, forecasters).items()}


def forecast_and_publish(work: Runner, releases: Sequence[str], chosen: Sequence[str] = ()) -> None:
    """Run forecasters on releases as `forecast_releases` does, and publish the warehouse. Raises the first forecaster's failure at the end."""
    ends = forecast_releases(work, releases, chosen)
    publish(work)
    require_success(ends)


def demo(work: Runner, days: int) -> dict[str, BellwetherError | None]:
    """Run the default forecasters on the sandbox's release, and the model with tools on its first questions.

    days: not used, since the release is fixed.
    """
    return forecast_releases(work, (DEMO,)) | research(work, DEMO_WITH_TOOLS)


def research(work: Runner, release: str) -> dict[str, BellwetherError | None]:
    """Generate the sandbox's news about the questions of a release, and run its model with tools on them."""
    from bellwether.sandbox.news import write_news

    config = settings()
    write_news(config.corpora_path / NEWS, config.sandbox_seed, build_questions(work, release)["market_id"].to_list())
    return forecast_releases(work, (release,), WITH_TOOLS)


def build_questions(work: Runner, release: str) -> pl.DataFrame:
    """Build the questions of a release unless they are stored. Returns rows of benchmark/questions. Raises `ConfigError` if it has none."""
    for name in dict.fromkeys((ReleaseName.parse(release).whole_name, release)):
        work.instance.add_dynamic_partitions(str(RELEASE.name), [name])
        if load_fixed(work.lake, name) is None:
            work.launch(jobs.QUESTIONS, f"questions of {name}", partitions=[name])
        else:
            work.stats.fresh += 1
    questions = work.lake.slice(table("benchmark/questions"), [(release,)]).read()
    require_questions(release, questions)
    return questions


def evaluate_release(
    work: Runner, release: str, forecasters: Sequence[str], *, repeated: Collection[str] = (), config: Mapping[str, Any] | None = None
) -> dict[str, BellwetherError | None]:
    """Build the questions of a release, run and score the given forecasters, rank all that have scores, and write the report.

    repeated: forecasters that run although they are up to date, such as models whose calls may have failed. config: of `benchmark/forecasts`, such
    as the budget. Returns for each forecaster its error, or None. An error of one does not stop the others.
    """
    build_questions(work, release)
    _resolve(work, release)
    pairs = {to_key(FORECASTS, (release, name)): name for name in forecasters}
    due = [pair for pair, name in pairs.items() if name in repeated or _is_due(work, release, name)]
    work.stats.fresh += len(pairs) - len(due)
    work.instance.add_dynamic_partitions(str(FORECASTER.name), [pairs[pair] for pair in due])
    options = {"ops": {"benchmark__forecasts": {"config": dict(config or {})}}}
    errors = work.run_partitions(jobs.EVALUATE, FORECASTS.name, due, "forecast", options)
    ends = {name: errors.get(pair) for pair, name in pairs.items()}
    if any(error is None for error in ends.values()):
        _rescore(work, release)
        work.run_if_due(jobs.RANK, RANKED, f"leaderboard and report of {release}", (release,))
    return ends


def _resolve(work: Runner, release: str) -> None:
    """Look up the outcomes as known now, if they are out of date or a later version exists, which staleness does not consider."""
    named = ReleaseName.parse(release)
    if load_fixed(work.lake, str(ReleaseName(named.base, named.number + 1))) is None:
        work.run_if_due(jobs.RESOLVE, ("benchmark/resolutions",), f"resolutions of {release}", (release,))
    else:
        work.launch(jobs.RESOLVE, f"resolutions of {release}", partitions=[release])


def audit_release(work: Runner, release: str, corpus: str | None = None) -> None:
    """Find the leaks of a release if they are out of date, and publish them. corpus: file of another corpus; the leaks are then always recomputed.

    Raises `ConfigError` for a release that was not built.
    """
    if load_fixed(work.lake, release) is None:
        raise ConfigError(f"auditing release {release}: it was not built yet; `bellwether release {release}` builds it")
    if corpus is None:
        work.run_if_due(jobs.AUDIT, LEAK_TABLES, f"audit of {release}", (release,))
    else:
        work.launch(jobs.AUDIT, f"audit of {release}", partitions=[release], config={"ops": {"leak_audit": {"config": {"corpus": corpus}}}})
    publish(work)


def _is_due(work: Runner, release: str, name: str) -> bool:
    """Return True if a forecaster must run: its forecasts are out of date, or stem from another version or knowledge cutoff than the registered
    ones. name: the forecaster.
    """
    if work.due((FORECASTS.name,), [(release, name)]):
        return True
    entry = forecasting.forecaster(name)
    rows = work.lake.slice(FORECASTS, [(release, name)], missing="skip").scan()
    return not set(rows.select("rules", "knowledge_cutoff").unique().collect().rows()) <= {(entry.version, entry.knowledge_cutoff)}


def _rescore(work: Runner, release: str) -> None:
    """Update the outdated scores of all forecasters of a release. Raises the first error."""
    answered = [pair for pair in work.lake.manifests(FORECASTS) if pair[0] == release]
    due = [to_key(FORECASTS, pair) for pair in work.due(SCORE_TABLES, answered)]
    for error in work.run_partitions(jobs.SCORE, FORECASTS.name, due, "score").values():
        if error:
            raise error
