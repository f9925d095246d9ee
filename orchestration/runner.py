"""Runs the graph from the command line: the same jobs as the UI's, in this process, recorded in the same DAGSTER_HOME.

Not here: what the jobs select (jobs.py) or when a partition is out of date (freshness.py).
Concept: https://docs.dagster.io/guides/build/jobs/job-execution
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl

from assets.declare import key
from assets.raw import DAY_TABLES
from assets.recordings import RECORDING_TABLES
from assets.replay import BACKTEST_TABLES, STANDING_TABLES
from bellwether.errors import BellwetherError
from bellwether.progress import Progress, Silent
from bellwether.tables import table
from orchestration import jobs
from orchestration.checks import RANGE_END, RANGE_START
from orchestration.freshness import Record, spans, stale
from orchestration.history import compress
from orchestration.home import LOCATION
from orchestration.jobs import CLEAN_TABLES, RANKING_TABLES, SCORE_TABLES
from orchestration.orphans import STOPPED, Process, end_orphans, of_killed_processes
from orchestration.partitions import AGENT, EPISODE, FORECASTER, RECORDING, RELEASE
from orchestration.progress import listener
from orchestration.sensors import registered_partitions
from resources import LakeResource, ModelsResource
from resources.recordings import RecordingsResource
from resources.venues import STOPPED as BY_SIGNAL
from resources.venues import go_on

if TYPE_CHECKING:
    from bellwether.journal import Journal
    from bellwether.lake import Lake

#: What steps say goes to the listener; Dagster's own log stays in its storage.
QUIET: dict[str, Any] = {"loggers": {"progress": {}}}
#: The UI shows a run under its job, and on the start page, where this tag names the code location of `workspace.yaml`.
SHOWN_UNDER_ITS_JOB = {".dagster/repository": f"__repository__@{LOCATION}"}
WAREHOUSE = dg.AssetKey(["summary", "warehouse"])


class RunFailed(BellwetherError):
    """A run ended without success; its history is in Dagster."""


@dataclass
class Tally:
    """What a call did: runs launched, partitions found fresh, runs that were interrupted, seconds spent in runs."""

    runs: int = 0
    fresh: int = 0
    interrupted: int = 0
    seconds: float = 0.0
    by_job: dict[str, float] = field(default_factory=dict)


class Runner:
    """Launches runs in this process and waits for them."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, progress: Progress | None = None) -> None:
        self._defs = defs
        self._instance = instance
        self.progress = progress or Silent()
        self.doing = "the start"
        self.tally = Tally()
        self._process = Process(instance)
        end_orphans(instance, of_killed_processes(instance))
        for request in registered_partitions(instance):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))

    def close(self) -> None:
        """Say that this process executes no more runs."""
        self._process.close()

    def series(self, *, most_age: timedelta = timedelta(days=1)) -> None:
        """Pull the list of series, unless that was done less than `most_age` ago."""
        self._reference(jobs.SERIES, "raw/kalshi_series", most_age)

    def archive(self, *, most_age: timedelta = timedelta(days=7)) -> None:
        """Scan the venue's archive, unless that was done less than `most_age` ago."""
        self._reference(jobs.ARCHIVE, "raw/kalshi_archive", most_age)

    def days(self, first: date, last: date, *, refresh: bool = False) -> None:
        """Pull, clean and check the UTC close days from `first` to `last`; with `refresh` also those that are up to date."""
        wanted = [(first + timedelta(days=offset)).isoformat() for offset in range((last - first).days + 1)]
        due = wanted if refresh else self._stale_days(wanted)
        self.tally.fresh += len(wanted) - len(due)
        config = {"ops": {f"{venue}_day": {"config": {"refresh": True}} for venue in ("kalshi", "polymarket")}} if refresh else {}
        with self.progress.stage("days", len(due)) as advance:
            for start, end in spans(due):
                self._launch(jobs.DAYS, f"days {start} to {end}", tags={RANGE_START: start, RANGE_END: end}, config=config)
                advance((date.fromisoformat(end) - date.fromisoformat(start)).days + 1)

    def questions(self, release: str) -> pl.DataFrame:
        """The questions of a release, built where they were not fixed yet: those that are stay as they are. Rows of benchmark/questions."""
        from bellwether.questions import ReleaseName
        from bellwether.questions.versions import frozen

        for name in dict.fromkeys((ReleaseName.parse(release).whole_name, release)):
            self._instance.add_dynamic_partitions(str(RELEASE.name), [name])
            if frozen(self.lake, name) is None:
                self._launch(jobs.QUESTIONS, f"questions of {name}", partition=name)
            else:
                self.tally.fresh += 1
        return self.lake.slice(table("benchmark/questions"), [(release,)]).read()

    def release(
        self, release: str, forecasters: Sequence[str], *, again: Collection[str] = (), asking: Mapping[str, Any] | None = None
    ) -> dict[str, BellwetherError | None]:
        """Build the questions of a release, let the forecasters answer and score them, rank all that have been scored, and report.

        again: forecasters that are run though nothing they depend on has changed: models, of which calls may have failed the last time.
        asking: configuration of `benchmark/forecasts`, such as the budget. Returns by forecaster how its evaluation ended: None, or why it
        failed; one that fails stops no other.
        """
        self.questions(release)
        ends = {}
        with self.progress.stage(f"forecasters on {release}", len(forecasters)) as advance:
            for name in forecasters:
                ends[name] = self._forecaster(release, name, asking or {}, always=name in again)
                advance(1)
        if any(error is None for error in ends.values()):
            self._follow(release)
        return ends

    def _forecaster(self, release: str, name: str, asking: Mapping[str, Any], *, always: bool) -> BellwetherError | None:
        record = self._record()
        questions = record.partitions(key("benchmark/questions")).get(release, 0)
        made = [record.partitions(key(output)) for output in ("benchmark/forecasts", *SCORE_TABLES)]
        pair = str(dg.MultiPartitionKey({"release": release, "forecaster": name}))
        if not always and not stale([pair], made, [{pair: questions}]) and self._is_as_registered(release, name):
            self.tally.fresh += 1
            return None
        self._instance.add_dynamic_partitions(str(FORECASTER.name), [name])
        config = {"ops": {"benchmark__forecasts": {"config": dict(asking)}}}
        try:
            self._launch(jobs.EVALUATE, f"{name} on {release}", partition=pair, config=config)
        except RunFailed as error:
            return error
        return None

    def _is_as_registered(self, release: str, name: str) -> bool:
        """Whether the forecasts were made by the forecaster as the registry has it now, with the same knowledge cutoff."""
        from bellwether.forecasting import forecaster

        entry = forecaster(name)
        made = self.lake.slice(table("benchmark/forecasts"), [(release, name)], missing="skip").scan()
        return set(made.select("rules", "knowledge_cutoff").unique().collect().rows()) <= {(entry.version, entry.knowledge_cutoff)}

    def _follow(self, release: str) -> None:
        """Make what is derived from all forecasters of a release, where it is out of date."""
        self._rescore(release)
        for job, names, label, sources in (
            (jobs.RANK, RANKING_TABLES, "leaderboard", ("benchmark/scores",)),
            (jobs.ANALYSE, ("benchmark/dataset_analysis",), "analysis", ("benchmark/questions",)),
            (jobs.REPORT, ("benchmark/report",), "report", ("benchmark/scores", *RANKING_TABLES, "benchmark/dataset_analysis")),
        ):
            record = self._record()
            newest = max(
                (found for source in sources for found in _of_release(record.partitions(key(source)), release).values()), default=0
            )
            if stale([release], [record.partitions(key(name)) for name in names], [{release: newest}]):
                self._launch(job, f"{label} of {release}", partition=release)
            else:
                self.tally.fresh += 1

    def _rescore(self, release: str) -> None:
        """Score again whoever was not run now, and whose scores are of earlier questions or forecasts: all are ranked on the same questions."""
        record = self._record()
        forecasts = _of_release(record.partitions(key("benchmark/forecasts")), release)
        questions = record.partitions(key("benchmark/questions")).get(release, 0)
        scored = [record.partitions(key(name)) for name in SCORE_TABLES]
        due = stale(forecasts, scored, [forecasts, dict.fromkeys(forecasts, questions)])
        with self.progress.stage(f"scores on {release}", len(due)) as advance:
            for pair in due:
                self._launch(jobs.SCORE, f"scores of {pair.partition('|')[0]} on {release}", partition=pair)
                advance(1)

    def replay(self, agents: Sequence[str]) -> dict[str, BellwetherError | None]:
        """Take finished recordings into the lake, make their episodes, let the agents trade each, and compare them.

        Returns by agent and episode how a backtest ended: None, or why it failed; one that fails stops no other.
        """
        held = self._recordings.episodes()
        names = sorted({found.name for found, _ in held.values()})
        self._instance.add_dynamic_partitions(str(RECORDING.name), names)
        self._instance.add_dynamic_partitions(str(EPISODE.name), list(held))
        self._instance.add_dynamic_partitions(str(AGENT.name), list(agents))
        self._partitions(jobs.RECORDINGS, RECORDING_TABLES, names, "recording", {})
        recorded = self._record().partitions(key("raw/recordings"))
        of_episode = {name: recorded.get(found.name, 0) for name, (found, _) in held.items()}
        self._partitions(jobs.EPISODES, ("replay/episodes",), list(held), "episode", of_episode)
        made = self._record().partitions(key("replay/episodes"))
        pairs = {str(dg.MultiPartitionKey({"episode": name, "agent": agent})): made.get(name, 0) for name in held for agent in agents}
        ends = self._partitions(jobs.BACKTEST, BACKTEST_TABLES, list(pairs), "backtest", pairs, go_on=True)
        self._compare_agents()
        return ends

    def _partitions(
        self, job: Any, names: Sequence[str], wanted: Sequence[str], label: str, sources: Mapping[str, int], *, go_on: bool = False
    ) -> dict[str, BellwetherError | None]:
        """Run a job for each partition that is out of date. go_on: a failure does not stop the others."""
        record = self._record()
        due = stale(wanted, [record.partitions(key(name)) for name in names], [sources])
        self.tally.fresh += len(wanted) - len(due)
        ends: dict[str, BellwetherError | None] = dict.fromkeys(wanted)
        with self.progress.stage(f"{label}s", len(due)) as advance:
            for partition in due:
                try:
                    self._launch(job, f"{label} {' in '.join(partition.split('|'))}", partition=partition)
                except RunFailed as error:
                    if not go_on:
                        raise
                    ends[partition] = error
                advance(1)
        return ends

    def _compare_agents(self) -> None:
        """Make what is derived from all backtests, where it is out of date."""
        for job, names, sources in (
            (jobs.STANDING, STANDING_TABLES, BACKTEST_TABLES[:1]),
            (jobs.TRADING, ("replay/report",), (*BACKTEST_TABLES, *STANDING_TABLES)),
        ):
            record = self._record()
            newest = max((record.whole(key(name)) or 0 for name in sources), default=0)
            if newest > min(record.whole(key(name)) or 0 for name in names):
                self._launch(job, job.name.replace("_", " "))
            else:
                self.tally.fresh += 1

    @property
    def _recordings(self) -> RecordingsResource:
        found: RecordingsResource = self._resource("recordings")
        return found

    @property
    def journal(self) -> Journal:
        """The journal of model calls of this world."""
        return self.models.journal.journal

    @property
    def models(self) -> ModelsResource:
        """Language models as the graph asks them."""
        found: ModelsResource = self._resource("models")
        return found

    @property
    def lake(self) -> Lake:
        """The lake of this world."""
        resource: LakeResource = self._resource("lake")
        return resource.lake

    def _resource(self, name: str) -> Any:
        return (self._defs.resources or {})[name]

    def publish(self) -> None:
        """Publish the warehouse, unless nothing has changed since it was published."""
        record = self._record()
        published = record.whole(WAREHOUSE)
        newest = max(
            (record.whole(asset) or 0 for asset in self._defs.resolve_asset_graph().get_all_asset_keys() if asset != WAREHOUSE), default=0
        )
        if published is None or newest > published:
            self._launch(jobs.PUBLISH, "warehouse")
        else:
            self.tally.fresh += 1

    def _record(self) -> Record:
        return Record(self._instance, self._defs, self.lake)

    def _reference(self, job: Any, name: str, most_age: timedelta) -> None:
        event = self._instance.get_latest_materialization_event(key(name))
        if event is not None and time.time() - event.timestamp < most_age.total_seconds() and self._record().whole(key(name)):
            self.tally.fresh += 1
            return
        again = event is not None
        self._launch(job, name, config={"ops": {name.replace("/", "__"): {"config": {"refresh": again}}}})

    def _stale_days(self, wanted: list[str]) -> list[str]:
        record = self._record()
        made = {name: record.partitions(key(name)) for name in (*DAY_TABLES, *CLEAN_TABLES)}
        due = set(stale(wanted, list(made.values()), []))
        for name in CLEAN_TABLES:
            sources = [made[source] for source in self._sources(name) if source in made]
            due.update(stale(wanted, [made[name]], sources))
        return sorted(due)

    def _sources(self, name: str) -> list[str]:
        """The tables that a table is made from."""
        return ["/".join(parent.path) for parent in self._defs.resolve_asset_graph().get(key(name)).parent_keys]

    def _launch(
        self,
        job: Any,
        label: str,
        *,
        partition: str | None = None,
        tags: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.doing = label
        self.progress.say(label)
        go_on()
        token = listener.set(lambda line: self.progress.say(f"{label}: {line}"))
        started = time.perf_counter()
        result = self._defs.resolve_job_def(job.name).execute_in_process(
            instance=self._instance,
            partition_key=partition,
            tags={**self._process.tags, **SHOWN_UNDER_ITS_JOB, **(tags or {})},
            run_config={**QUIET, **(config or {})},
            raise_on_error=False,
        )
        listener.reset(token)
        seconds = time.perf_counter() - started
        self.tally.runs += 1
        self.tally.seconds += seconds
        self.tally.by_job[job.name] = self.tally.by_job.get(job.name, 0.0) + seconds
        compress(self._instance, [result.run_id])
        if _was_interrupted(result):
            self.tally.interrupted += 1
            run = self._instance.get_run_by_id(result.run_id)
            if run is not None and run.status is not dg.DagsterRunStatus.CANCELED:
                self._instance.report_run_canceled(run, message=STOPPED)
            raise KeyboardInterrupt
        if not result.success:
            raise RunFailed(f"{label}: run {result.run_id} failed: {_reason(result)}. Its history is in the UI (make ui)")


def _of_release(partitions: Mapping[str, int], release: str) -> dict[str, int]:
    """The partitions of a release; where it is one of two dimensions, Dagster writes it last."""
    return {pair: found for pair, found in partitions.items() if pair.rpartition("|")[2] == release}


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a signal ended the run: Dagster takes it for a failure of the run or of the step that was under way."""
    failures = [event.event_specific_data for event in result.all_events if event.is_step_failure or event.is_job_failure]
    errors = [getattr(failure, "error", None) for failure in failures]
    texts = [error.to_string() for error in errors if error is not None]
    return any("DagsterExecutionInterruptedError" in text or f"Failure: {BY_SIGNAL}" in text for text in texts)


def _reason(result: dg.ExecuteInProcessResult) -> str:
    """The first failure of a run in one line: the innermost cause, or the checks that blocked."""
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            text = error.message.removeprefix("bellwether.errors.") if error else "no reason recorded"
            return f"step {event.step_key}: {' '.join(text.split())[:600]}"
    return "no step failed; a run-level error is in its log"
