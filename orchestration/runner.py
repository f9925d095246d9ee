"""Execution of a command's runs: in this process, or in a fleet by its workers.

Not here: the order of jobs (assets/<group>/runs.py) and outdated partitions (bellwether/lake/staleness.py).
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

from bellwether.console import Progress, Silent, output_to_stderr
from bellwether.errors import BellwetherError
from bellwether.lake.staleness import Staleness
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.asset_declarations import key
from orchestration.automation import asset_recipe, registered_partitions
from orchestration.home import LOCATION, REPOSITORY, STORAGE_ADVICE, is_storage_message
from orchestration.orphaned_runs import STOPPED, ProcessLock, end_orphans
from orchestration.partitions import PARTITION, group_keys, keys_from_tags, range_tags, to_key
from orchestration.run_priority import COMMAND, LAUNCHED_BY
from orchestration.run_submission import Submission, cancel, follow, submit_backfill, submit_run
from orchestration.steps import causes, failure_reason, failure_reasons, listener
from resources import LakeResource, ModelsResource
from resources.models import PAID_BY
from resources.venues import STOPPED as BY_SIGNAL
from resources.venues import resume_requests

if TYPE_CHECKING:
    from bellwether.journal.journal import Journal
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


#: Partitions of a finished run, and its error.
RunEnd = tuple[list[str], RunFailed | None]


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

    def launch(self, job: Any, label: str, *, partitions: Sequence[str] = (), config: Mapping[str, Any] | None = None) -> None:
        """Run a job once, and wait for the end. partitions: all keys of the run's range.

        Raises:
            RunFailed: it did not succeed.
            KeyboardInterrupt: a signal interrupted the command; the run is canceled.
        """
        resume_requests()
        if error := self._run(job.name, label, partitions, config or {}):
            raise error

    def _run(self, job: str, label: str, partitions: Sequence[str], config: Mapping[str, Any], paid_by: str = "") -> RunFailed | None:
        """Run a job once. Returns the error of the run. paid_by: name of the budget that pays for the run's model calls."""
        self._say(label)
        tags, begun = {**range_tags(partitions), **({PAID_BY: paid_by} if paid_by else {})}, time.perf_counter()
        if settings().fleet is None:
            run, events = self._execute(job, tags, config, label)
            history = "in the UI (make ui)"
        else:
            submission = submit_run(self.instance, job, {**TAGS, **tags}, config)
            (run,) = self._follow(submission, label)
            events, history = self._failures(run), f"at {submission.url}"
        self._count(job, 1, time.perf_counter() - begun)
        return _run_error(label, run, events, history)

    def run_ranges(
        self, job: Any, name: str, partitions: Sequence[str], label: str, config: Mapping[str, Any] | None = None
    ) -> list[RunEnd]:
        """Run a job for partitions of the table `name`. Returns partitions and error of each run. Raises `KeyboardInterrupt` as `launch` does.

        On one machine each range of neighbours is a run, and all share one budget. In a fleet, partitions that need several runs are a backfill.
        """
        resume_requests()
        node, config = self._defs.resolve_asset_graph().get(key(name)), config or {}
        groups = group_keys(node.partitions_def, dict.fromkeys(partitions), self.instance, node.backfill_policy)
        if settings().fleet is not None and len(groups) > 1:
            return self._backfill(job.name, node.partitions_def, [part for group in groups for part in group], label, config)
        paid_by, ends = secrets.token_hex(8) if len(groups) > 1 else "", list[RunEnd]()
        with self.progress.stage(f"{label}s", len(partitions)) as advance:
            for group in groups:
                ends.append((group, self._run(job.name, _format_range(label, group), group, config, paid_by)))
                advance(len(group))
        return ends

    def _backfill(
        self, job: str, definition: dg.PartitionsDefinition[Any] | None, partitions: Sequence[str], label: str, config: Mapping[str, Any]
    ) -> list[RunEnd]:
        """Let the fleet run a job for partitions. Returns partitions and error of each run; partitions without a run are those of a canceled
        backfill.
        """
        self._say(_format_range(label, partitions))
        begun, submission = time.perf_counter(), submit_backfill(self.instance, job, partitions, TAGS, config)
        ends, left = list[RunEnd](), dict.fromkeys(partitions)
        for run in self._follow(submission, self.doing):
            group = keys_from_tags(definition, run.tags, self.instance)
            ends.append((group, _run_error(_format_range(label, group), run, self._failures(run), f"at {submission.url}")))
            left = {part: None for part in left if part not in group}
        self._count(job, len(ends), time.perf_counter() - begun)
        if left:
            ends.append((list(left), RunFailed(f"{_format_range(label, list(left))}: {submission} was canceled, see {submission.url}")))
        return ends

    def _follow(self, submission: Submission, label: str) -> list[dg.DagsterRun]:
        """Wait for the runs of a submission. If a signal interrupts the command, they are canceled."""
        try:
            return follow(self.instance, submission, self._line_printer(label))
        except KeyboardInterrupt:
            self._say(f"canceling {submission}, see {submission.url}")
            cancel(self.instance, submission)
            raise

    def _failures(self, run: dg.DagsterRun) -> list[dg.DagsterEvent]:
        """Return the failures in a run of a fleet."""
        entries = self.instance.all_logs(run.run_id, of_type={dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE})
        return [entry.get_dagster_event() for entry in entries]

    def _say(self, doing: str) -> None:
        self.doing = doing
        self.progress.say(doing)

    def _count(self, job: str, runs: int, seconds: float) -> None:
        self.stats.runs += runs
        self.stats.seconds += seconds
        self.stats.by_job[job] = self.stats.by_job.get(job, 0.0) + seconds

    def _line_printer(self, label: str) -> Callable[[str], None]:
        """Return a function that shows a line as progress, after `label`."""
        return lambda line: self.progress.say(f"{label}: {line}")

    def _execute(
        self, job: str, tags: Mapping[str, str], config: Mapping[str, Any], label: str
    ) -> tuple[dg.DagsterRun, list[dg.DagsterEvent]]:
        """Execute a run in this process. Returns the run and its failure events. Raises `KeyboardInterrupt` if a signal ended the run."""
        definition = self._defs.resolve_job_def(job)
        self._wait_for_pools(definition, self._line_printer(label))
        token = listener.set(self._line_printer(label))
        with output_to_stderr():
            result = definition.execute_in_process(
                instance=self.instance,
                partition_key=tags.get(PARTITION),
                tags={**self.process.tags, **TAGS, **NO_RETRIES, **tags},
                run_config={**QUIET, **config},
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
        self, job: Any, name: str, partitions: Sequence[str], label: str, config: Mapping[str, Any] | None = None
    ) -> dict[str, BellwetherError | None]:
        """Run a job for partitions of the table `name`, as `run_ranges` does. Returns for each partition its error or None."""
        ends: dict[str, BellwetherError | None] = dict.fromkeys(partitions)
        for group, error in self.run_ranges(job, name, partitions, label, config):
            if error:
                failed = {part: RunFailed(f"{label} {part}: {text}") for part, text in error.partitions.items() if part in ends}
                ends |= failed or dict.fromkeys(group, error)
        return ends

    def reference(self, job: Any, name: str, *others: str, most_age: timedelta, refresh: bool = False) -> None:
        """Run the job that makes the unpartitioned table `name`, unless the table is up to date and younger than `most_age`.

        others: further tables of the same job. refresh: run in any case, without stored pages.
        """
        manifest = self.lake.manifest(table(name), ())
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


def _run_error(label: str, run: dg.DagsterRun, events: Sequence[dg.DagsterEvent], history: str) -> RunFailed | None:
    """Return the error of a run; None if the run succeeded. history: where users find its history."""
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return None
    advice = f" {STORAGE_ADVICE}." if _is_storage_failure(events) else ""
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
