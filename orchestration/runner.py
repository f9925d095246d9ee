"""Runs the graph from the command line: the same jobs as the UI's, in this process, recorded in the same DAGSTER_HOME.

Not here: what a domain launches in which order (assets/<domain>/runs.py) or when a partition is out of date (bellwether/lake/staleness.py).
Concept: https://docs.dagster.io/guides/build/jobs/job-execution
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from bellwether.errors import BellwetherError
from bellwether.lake.staleness import Staleness
from bellwether.progress import Progress, Silent
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.automation import recipe
from orchestration.declare import key
from orchestration.home import LOCATION, REPOSITORY, STORAGE_ADVICE, tells_of_storage
from orchestration.orphans import STOPPED, Process, end_orphans, of_killed_processes
from orchestration.partitions import to_key
from orchestration.progress import listener
from orchestration.sensors import registered_partitions
from orchestration.step_errors import causes, partitions_of, reason
from resources import LakeResource, ModelsResource
from resources.venues import STOPPED as BY_SIGNAL
from resources.venues import go_on

if TYPE_CHECKING:
    from bellwether.journal import Journal
    from bellwether.lake import Lake
    from bellwether.lake.partitions import Partition

#: What steps say goes to the listener; Dagster's own log stays in its storage.
QUIET: dict[str, Any] = {"loggers": {"progress": {}}}
#: The UI shows a run under its job where this tag names the code location of `workspace.yaml`. Whether it is tried again is for who gave the command.
TAGS = {".dagster/repository": f"{REPOSITORY}@{LOCATION}", "dagster/max_retries": "0"}


class RunFailed(BellwetherError):
    """A run ended without success; its history is in Dagster.

    partitions: why each partition failed, by its key, where the others of the run were finished.
    """

    def __init__(self, message: str, partitions: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.partitions = dict(partitions or {})


@dataclass
class RunStats:
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
        self.instance = instance
        self.progress = progress or Silent()
        self.doing = "the start"
        self.stats = RunStats()
        self._process = Process(instance)
        end_orphans(instance, of_killed_processes(instance))
        for request in registered_partitions(instance):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))

    def close(self) -> None:
        """Say that this process executes no more runs."""
        self._process.close()

    def launch(
        self,
        job: Any,
        label: str,
        *,
        partition: str | None = None,
        tags: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        """Run a job and wait for it.

        Raises:
            RunFailed: it did not succeed.
            KeyboardInterrupt: a signal ended it; it is recorded as canceled.
        """
        self.doing = label
        self.progress.say(label)
        go_on()
        token = listener.set(lambda line: self.progress.say(f"{label}: {line}"))
        started = time.perf_counter()
        result = self._defs.resolve_job_def(job.name).execute_in_process(
            instance=self.instance,
            partition_key=partition,
            tags={**self._process.tags, **TAGS, **(tags or {})},
            run_config={**QUIET, **(config or {})},
            raise_on_error=False,
        )
        listener.reset(token)
        seconds = time.perf_counter() - started
        self.stats.runs += 1
        self.stats.seconds += seconds
        self.stats.by_job[job.name] = self.stats.by_job.get(job.name, 0.0) + seconds
        if _was_interrupted(result):
            self.stats.interrupted += 1
            run = self.instance.get_run_by_id(result.run_id)
            if run is not None and run.status is not dg.DagsterRunStatus.CANCELED:
                self.instance.report_run_canceled(run, message=STOPPED)
            raise KeyboardInterrupt
        if not result.success:
            advice = f" {STORAGE_ADVICE}." if _met_storage(result) else ""
            raise RunFailed(
                f"{label}: run {result.run_id} failed: {_failure(result)}.{advice} Its history is in the UI (make ui)",
                _failed_partitions(result),
            )

    def run_due(
        self, job: Any, names: Sequence[str], wanted: Iterable[Partition], label: str, *, go_on: bool = False
    ) -> dict[str, BellwetherError | None]:
        """Run a job for each partition that is out of date. go_on: a failure does not stop the others."""
        wanted = list(wanted)
        due = self.due(names, wanted)
        self.stats.fresh += len(wanted) - len(due)
        ends: dict[str, BellwetherError | None] = {to_key(table(names[0]), partition): None for partition in wanted}
        with self.progress.stage(f"{label}s", len(due)) as advance:
            for partition in due:
                name = to_key(table(names[0]), partition)
                try:
                    self.launch(job, f"{label} {' in '.join(name.split('|'))}", partition=name)
                except RunFailed as error:
                    if not go_on:
                        raise
                    ends[name] = error
                advance(1)
        return ends

    def reference(self, job: Any, name: str, *others: str, most_age: timedelta) -> None:
        """Run the job of an unpartitioned table and those made with it, unless that was done less than `most_age` ago.

        The venue is queried again where it was before.
        """
        made = self.lake.legible(table(name)).get(())
        if made is not None and datetime.now(UTC) - made.written_at < most_age and not self.due((name, *others)):
            self.stats.fresh += 1
            return
        self.launch(job, name, config={"ops": {name.replace("/", "__"): {"config": {"refresh": made is not None}}}})

    def state(self) -> Staleness:
        """The lake as of now."""
        return Staleness(self.lake, settings().now().date())

    def due(self, names: Iterable[str], wanted: Iterable[Partition] = ((),), state: Staleness | None = None) -> list[Partition]:
        """The partitions among `wanted` of which one of some tables is missing, damaged or out of date."""
        state, graph, wanted = state or self.state(), self._defs.resolve_asset_graph(), list(wanted)
        found = {partition for name in names for partition in state.due(recipe(graph, key(name)), wanted, sound=True)}
        return [partition for partition in wanted if partition in found]

    def run_if_due(self, job: Any, names: Sequence[str], label: str, partition: Partition = ()) -> None:
        """Run a job for one partition if one of its tables is out of date."""
        if self.due(names, [partition]):
            self.launch(job, label, partition="|".join(partition) or None)
        else:
            self.stats.fresh += 1

    @property
    def journal(self) -> Journal:
        """The journal of model calls of this world."""
        return self.models.journal.journal

    @property
    def models(self) -> ModelsResource:
        """Language models as the graph asks them."""
        found: ModelsResource = self.resource("models")
        return found

    @property
    def lake(self) -> Lake:
        """The lake of this world."""
        resource: LakeResource = self.resource("lake")
        return resource.lake

    def resource(self, name: str) -> Any:
        """The resource of that name, as steps get it."""
        return (self._defs.resources or {})[name]


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a signal ended the run: Dagster takes it for a failure of the run or of the step that was under way."""
    failures = [event.event_specific_data for event in result.all_events if event.is_step_failure or event.is_job_failure]
    errors = [getattr(failure, "error", None) for failure in failures]
    texts = [error.to_string() for error in errors if error is not None]
    return any("DagsterExecutionInterruptedError" in text or f"Failure: {BY_SIGNAL}" in text for text in texts)


def _failure(result: dg.ExecuteInProcessResult) -> str:
    """The first failure of a run, in one line."""
    for event in result.all_events:
        if event.is_step_failure:
            text = reason(event).removeprefix("bellwether.errors.") or "no reason recorded"
            return f"step {event.step_key}: {text[:600]}"
    return "no step failed; a run-level error is in its log"


def _failed_partitions(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Why each partition failed, by its key, where every step that failed tells; empty otherwise."""
    told = [partitions_of(event) for event in result.all_events if event.is_step_failure]
    return {day: "; ".join(found[day] for found in told if day in found) for found in told for day in found} if all(told) else {}


def _met_storage(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a step failed of a full or read-only disk."""
    return any(tells_of_storage(text) for event in result.all_events if event.is_step_failure for text in causes(event))
