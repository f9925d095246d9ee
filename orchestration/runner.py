"""Execution of runs for the command line: in a fleet, by the daemon of a running UI, or in this process.

Not here: the order of jobs (assets/<domain>/runs.py) and outdated partitions (bellwether/lake/staleness.py).
Concept: https://docs.dagster.io/guides/build/jobs/job-execution
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from bellwether.console import output_to_stderr
from bellwether.errors import BellwetherError
from bellwether.lake.staleness import Staleness
from bellwether.progress import Progress, Silent
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.asset_declarations import key
from orchestration.automation import asset_recipe
from orchestration.home import LOCATION, REPOSITORY, STORAGE_ADVICE, is_storage_message
from orchestration.orphaned_runs import STOPPED, UNFINISHED, ProcessLock, end_orphans
from orchestration.partitions import PARTITION, RANGE_END, RANGE_START, group_keys, keys_from_tags, to_key
from orchestration.progress import listener
from orchestration.run_priority import COMMAND, LAUNCHED_BY
from orchestration.run_submission import Endpoint, Submission, execute, find_endpoint
from orchestration.sensors import registered_partitions
from orchestration.steps import causes, failure_reason, failure_reasons
from resources import LakeResource, ModelsResource
from resources.models import PAID_BY, payer
from resources.venues import STOPPED as BY_SIGNAL
from resources.venues import resume_requests

if TYPE_CHECKING:
    from bellwether.journal import Journal
    from bellwether.lake import Lake
    from bellwether.lake.partitions import Partition

_POLL_SECONDS = 1.0
#: Configuration that sends lines of steps to the listener instead of the console.
QUIET: dict[str, Any] = {"loggers": {"progress": {}}}
#: Tags of runs; the first makes the UI show a run under its job.
TAGS = {".dagster/repository": f"{REPOSITORY}@{LOCATION}", LAUNCHED_BY: COMMAND}
#: Tags outside a fleet, where lost runs are not retried.
NO_RETRIES = {"dagster/max_retries": "0"}


class RunFailed(BellwetherError):
    """Error of a run that did not succeed.

    partitions: reasons of failed partitions by key, if the others were finished.
    """

    def __init__(self, message: str, partitions: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.partitions = dict(partitions or {})


@dataclass(frozen=True)
class Launch:
    """Run of a job that is to be launched.

    partitions: all keys of the run's range. run_id: id of a run in progress, which is followed instead of launching one. paid_by: name of the
    budget that pays for the run's model calls.
    """

    label: str
    partitions: Sequence[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = ""
    paid_by: str = ""

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the run that state its partitions and its budget."""
        paid = {PAID_BY: self.paid_by} if self.paid_by else {}
        if len(self.partitions) > 1:
            return {RANGE_START: self.partitions[0], RANGE_END: self.partitions[-1], **paid}
        return {PARTITION: self.partitions[0], **paid} if any(self.partitions) else paid


#: Receives the number of a launch, its finished run and the failures in it.
End = Callable[[int, dg.DagsterRun, Sequence[dg.DagsterEvent]], None]


@dataclass
class RunStats:
    """Statistics of a command. runs: that ended. fresh: partitions that were up to date. seconds: spent in runs. by_job: seconds by job."""

    runs: int = 0
    fresh: int = 0
    seconds: float = 0.0
    by_job: dict[str, float] = field(default_factory=dict)


class Runner:
    """Launches runs of jobs for a command, and waits until they have ended."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, progress: Progress | None = None) -> None:
        self._defs = defs
        self.instance = instance
        self.progress = progress or Silent()
        self.doing = "the start"
        self.stats = RunStats()
        self.process = ProcessLock(instance)
        end_orphans(instance)
        for request in registered_partitions(instance):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))

    def close(self) -> None:
        """Release the lock that marks this command as running."""
        self.process.close()

    def launch(self, job: Any, label: str, *, partitions: Sequence[str] = (), config: dict[str, Any] | None = None) -> None:
        """Run a job once, and wait for the end. partitions: all keys of the run's range.

        Raises:
            RunFailed: it did not succeed.
            KeyboardInterrupt: a signal interrupted the command; outside a fleet the run is recorded as canceled.
        """
        (error,) = self.launch_all(job, [Launch(label, partitions, config or {})])
        if error:
            raise error

    def launch_all(self, job: Any, launches: Sequence[Launch], advance: Callable[[int], None] = lambda _: None) -> list[RunFailed | None]:
        """Run a job once for each launch, in a fleet concurrently. Returns for each launch, in order, its error or None.

        advance: receives the number of partitions of each finished run. Raises `KeyboardInterrupt` like `launch`.
        """
        resume_requests()
        ui, ends, clock = find_endpoint(self.instance), dict[int, RunFailed | None](), time.perf_counter()

        def end(number: int, run: dg.DagsterRun, events: Sequence[dg.DagsterEvent]) -> None:
            nonlocal clock
            seconds, clock = time.perf_counter() - clock, time.perf_counter()
            self._count(job.name, seconds)
            ends[number] = _run_error(launches[number].label, run, events, ui)
            advance(len(launches[number].partitions))

        if ui is not None and ui.of_fleet and launches:
            self._say(f"{launches[0].label}{f' and {len(launches) - 1} more' if launches[1:] else ''}")
            self._submit(ui, job.name, dict(enumerate(launches)), end)
            return [ends[number] for number in range(len(launches))]
        for number, launch in enumerate(launches):
            self._say(launch.label)
            if ui is not None:
                self._submit(ui, job.name, {number: launch}, end)
            else:
                end(number, *self._execute(job.name, launch))
        return [ends[number] for number in range(len(launches))]

    def _say(self, doing: str) -> None:
        self.doing = doing
        self.progress.say(doing)

    def _count(self, job: str, seconds: float) -> None:
        self.stats.runs += 1
        self.stats.seconds += seconds
        self.stats.by_job[job] = self.stats.by_job.get(job, 0.0) + seconds

    def _line_printer(self, label: str) -> Callable[[str], None]:
        """Return a function that shows a line as progress, after `label`."""
        return lambda line: self.progress.say(f"{label}: {line}")

    def _submit(self, ui: Endpoint, job: str, launches: Mapping[int, Launch], end: End) -> None:
        """Submit runs to a UI and wait until they have ended. launches: by number. end: receives the number and the finished run."""
        extra = {} if ui.of_fleet else NO_RETRIES

        def submission(number: int, launch: Launch) -> Submission:
            def ended(run: dg.DagsterRun) -> None:
                entries = self.instance.all_logs(run.run_id, of_type={dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE})
                end(number, run, [entry.get_dagster_event() for entry in entries])

            return Submission(job, {**TAGS, **extra, **launch.tags}, launch.config, self._line_printer(launch.label), ended, launch.run_id)

        execute(self.instance, ui, [submission(number, launch) for number, launch in launches.items()])

    def _execute(self, job: str, launch: Launch) -> tuple[dg.DagsterRun, list[dg.DagsterEvent]]:
        """Execute a run in this process. Returns the run and its failure events. Raises `KeyboardInterrupt` if a signal ended the run."""
        definition = self._defs.resolve_job_def(job)
        self._wait_for_pools(definition, self._line_printer(launch.label))
        token = listener.set(self._line_printer(launch.label))
        with output_to_stderr():
            result = definition.execute_in_process(
                instance=self.instance,
                partition_key=launch.tags.get(PARTITION),
                tags={**self.process.tags, **TAGS, **NO_RETRIES, **launch.tags},
                run_config={**QUIET, **launch.config},
                raise_on_error=False,
            )
        listener.reset(token)
        run = self.instance.get_run_by_id(result.run_id) or result.dagster_run
        events = [event for event in result.all_events if event.is_step_failure or event.is_job_failure]
        if _was_interrupted(events):
            if run.status is not dg.DagsterRunStatus.CANCELED:
                self.instance.report_run_canceled(run, message=STOPPED)
            raise KeyboardInterrupt
        return run, events

    def _wait_for_pools(self, job: dg.JobDefinition, say: Callable[[str], None]) -> None:
        """Wait until each concurrency pool of a job has a free slot. Dagster would wait too, but without reacting to Ctrl-C."""
        pools = sorted({node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition) and node.pool})
        is_reported = False
        while True:
            states = [self.instance.event_log_storage.get_concurrency_info(pool) for pool in pools]
            full = [state.concurrency_key for state in states if state.slot_count and state.active_slot_count >= state.slot_count]
            if not full:
                return
            if not is_reported:
                say(f"waiting for another run, which uses {' and '.join(full)}")
                is_reported = True
            time.sleep(_POLL_SECONDS)
            end_orphans(self.instance)

    def run_due(
        self, job: Any, names: Sequence[str], wanted: Iterable[Partition], label: str, *, go_on: bool = False
    ) -> dict[str, BellwetherError | None]:
        """Run a job for those of the `wanted` partitions that are outdated in one of the tables `names`, in as few runs as possible.

        Returns for each wanted partition its error or None. go_on: return failures instead of raising the first.
        """
        wanted = list(wanted)
        due = self.due(names, wanted)
        self.stats.fresh += len(wanted) - len(due)
        declared = table(names[0])
        ends: dict[str, BellwetherError | None] = {to_key(declared, partition): None for partition in wanted}
        ends |= self.run_partitions(job, names[0], [to_key(declared, partition) for partition in due], label)
        first = next((error for error in ends.values() if error), None)
        if first and not go_on:
            raise first
        return ends

    def run_partitions(
        self, job: Any, name: str, partitions: Sequence[str], label: str, config: dict[str, Any] | None = None
    ) -> dict[str, BellwetherError | None]:
        """Run a job for partitions of the table `name`, one run per range. Returns for each partition its error or None."""
        ends: dict[str, BellwetherError | None] = dict.fromkeys(partitions)
        launches = self.launches(job, name, partitions, label, config)
        with self.progress.stage(f"{label}s", len(partitions)) as advance:
            for launch, error in zip(launches, self.launch_all(job, launches, advance), strict=True):
                if error:
                    failed = {part: RunFailed(f"{label} {part}: {text}") for part, text in error.partitions.items() if part in ends}
                    ends |= failed or dict.fromkeys(launch.partitions, error)
        return ends

    def launches(self, job: Any, name: str, partitions: Sequence[str], label: str, config: Mapping[str, Any] | None = None) -> list[Launch]:
        """Plan the runs of a job for partitions of a table; all runs share one budget. In a fleet, unfinished runs of an interrupted command are
        followed.
        """
        definition = self._defs.resolve_asset_graph().get(key(name)).partitions_def
        rest, followed, paid_by = dict.fromkeys(partitions), list[Launch](), ""

        def launch(group: Sequence[str], run_id: str = "") -> Launch:
            return Launch(_format_range(label, group), group, config or {}, run_id, paid_by)

        for run in self._fleet_runs(job.name):
            covered = [part for part in keys_from_tags(definition, run.tags, self.instance) if part in rest]
            if covered and run.run_config == (config or {}):
                followed.append(launch(covered, run.run_id))
                rest, paid_by = {part: None for part in rest if part not in covered}, paid_by or payer(run)
        groups = group_keys(definition, rest, self.instance)
        paid_by = paid_by or (secrets.token_hex(8) if groups[1:] else "")
        return [*followed, *map(launch, groups)]

    def _fleet_runs(self, job: str) -> Sequence[dg.DagsterRun]:
        """Return the unfinished runs of a job that commands have submitted to the fleet; none outside a fleet."""
        if settings().fleet is None:
            return ()
        return self.instance.get_runs(dg.RunsFilter(job_name=job, statuses=UNFINISHED, tags={LAUNCHED_BY: COMMAND}))

    def reference(self, job: Any, name: str, *others: str, most_age: timedelta, refresh: bool = False) -> None:
        """Run the job that makes the unpartitioned table `name`, unless the table is up to date and younger than `most_age`.

        others: further tables of the same job. refresh: run in any case, without stored pages.
        """
        manifest = self.lake.readable_manifests(table(name)).get(())
        if not refresh and manifest is not None and datetime.now(UTC) - manifest.written_at < most_age and not self.due((name, *others)):
            self.stats.fresh += 1
            return
        self.launch(job, name, config={"ops": {name.replace("/", "__"): {"config": {"refresh": refresh or manifest is not None}}}})

    def state(self) -> Staleness:
        """Return the present staleness of the lake, which tells which partitions are up to date."""
        return Staleness(self.lake, settings().now().date())

    def due(self, names: Iterable[str], wanted: Iterable[Partition] = ((),), state: Staleness | None = None) -> list[Partition]:
        """Return those of the `wanted` partitions that are missing, damaged or outdated in one of the tables `names`. state: from the method
        `state` (default: read now).
        """
        state, graph, wanted = state or self.state(), self._defs.resolve_asset_graph(), list(wanted)
        outdated = {part for name in names for part in state.find_outdated(asset_recipe(graph, key(name)), wanted, sound=True)}
        return [partition for partition in wanted if partition in outdated]

    def run_if_due(self, job: Any, names: Sequence[str], label: str, partition: Partition = ()) -> None:
        """Run a job for one partition if this partition is out of date in one of the tables `names`."""
        if self.due(names, [partition]):
            self.launch(job, label, partitions=partition)
        else:
            self.stats.fresh += 1

    @property
    def journal(self) -> Journal:
        """Journal of model calls of this world."""
        return self.models.journal.journal

    @property
    def models(self) -> ModelsResource:
        """Dagster resource of the language models."""
        resource: ModelsResource = self.resource("models")
        return resource

    @property
    def lake(self) -> Lake:
        """Lake of this world."""
        resource: LakeResource = self.resource("lake")
        return resource.lake

    def resource(self, name: str) -> Any:
        """Return the Dagster resource called `name`."""
        return (self._defs.resources or {})[name]


def _format_range(kind: str, group: Sequence[str]) -> str:
    """Format a range of partition keys for users, such as "days 2026-01-01 to 2026-01-31"."""
    first = f"{kind} {' in '.join(group[0].split('|'))}"
    if len(group) == 1:
        return first
    return f"{first} and {len(group) - 1} more" if "|" in group[0] else f"{kind}s {group[0]} to {group[-1]}"


def _was_interrupted(failures: Sequence[dg.DagsterEvent]) -> bool:
    """Return True if a signal ended a run. Dagster records this as a failure of the run or of a step."""
    errors = [getattr(event.event_specific_data, "error", None) for event in failures]
    texts = [error.to_string() for error in errors if error is not None]
    return any("DagsterExecutionInterruptedError" in text or f"Failure: {BY_SIGNAL}" in text for text in texts)


def _run_error(label: str, run: dg.DagsterRun, events: Sequence[dg.DagsterEvent], ui: Endpoint | None) -> RunFailed | None:
    """Return the error of a run; None if the run succeeded. ui: the UI that executed the run, if one did."""
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return None
    advice = f" {STORAGE_ADVICE}." if _is_storage_failure(events) else ""
    history = f"at {ui.url}/runs/{run.run_id}" if ui else "in the UI (make ui)"
    return RunFailed(
        f"{label}: run {run.run_id} {_describe_failure(run, events)}.{advice} Its history is {history}", _failed_partitions(events)
    )


def _describe_failure(run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent]) -> str:
    """Describe the first failure of a run in one line."""
    if run.status is dg.DagsterRunStatus.CANCELED:
        return "was canceled in the UI"
    for event in failures:
        if event.is_step_failure:
            text = failure_reason(event).removeprefix("bellwether.errors.") or "no reason recorded"
            return f"failed: step {event.step_key}: {text[:600]}"
    message = " ".join(event.message or "" for event in failures)
    return f"failed: {' '.join(message.split())[:600] or 'its log names the cause'}"


def _failed_partitions(failures: Sequence[dg.DagsterEvent]) -> dict[str, str]:
    """Return why partitions failed, by key; empty if any failed step does not name partitions."""
    steps = [failure_reasons(event) for event in failures if event.is_step_failure]
    keys = dict.fromkeys(name for reasons in steps for name in reasons)
    return {name: "; ".join(reasons[name] for reasons in steps if name in reasons) for name in keys} if all(steps) else {}


def _is_storage_failure(failures: Sequence[dg.DagsterEvent]) -> bool:
    """Return True if a step of the run failed because a disk is full or read-only."""
    return any(is_storage_message(text) for event in failures if event.is_step_failure for text in causes(event))
