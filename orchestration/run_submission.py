"""Submission of a command's work to the UI of a fleet: one run, or one backfill that Dagster divides into runs.

Dagster's daemon launches, retries and cancels the runs. The command waits until they have ended.
Concept: https://docs.dagster.io/guides/operate/graphql
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import httpx
from sqlalchemy.exc import SQLAlchemyError

from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import settings
from orchestration.home import LOCATION, REPOSITORY
from resources.models import BACKFILL

_POLL_SECONDS = 0.5
#: Time for which a command waits for the fleet's UI or for its Postgres.
_OUTAGE_SECONDS = 120.0
#: Tags that Dagster adds: to a failed run, whether it will be retried; to a retry, the first run of its chain.
_WILL_RETRY, _ROOT = "dagster/will_retry", "dagster/root_run_id"
_REPOSITORY = {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY}
_RESULT = "__typename ... on Error { message } ... on RunConfigValidationInvalid { errors { message } }"
_LAUNCH_RUN = f"mutation($given: ExecutionParams!) {{ sent: launchRun(executionParams: $given) {{ {_RESULT} ... on LaunchRunSuccess {{ run {{ id }} }} }} }}"
_LAUNCH_BACKFILL = (
    "mutation($given: LaunchBackfillParams!) { sent: launchPartitionBackfill(backfillParams: $given) "
    "{ __typename ... on Error { message } ... on LaunchBackfillSuccess { backfillId } } }"
)
_CANCEL_RUN = "mutation($given: String!) { sent: terminateRun(runId: $given) { __typename ... on Error { message } } }"
_CANCEL_BACKFILL = "mutation($given: String!) { sent: cancelPartitionBackfill(backfillId: $given) { __typename ... on Error { message } } }"


@dataclass(frozen=True)
class Submission:
    """Run or backfill that a command has submitted. id: of the run or the backfill."""

    id: str
    is_backfill: bool

    @property
    def url(self) -> str:
        """Address of its page in the fleet's UI."""
        return f"{_ui()}/runs/{'b/' if self.is_backfill else ''}{self.id}"

    def __str__(self) -> str:
        return f"{'backfill' if self.is_backfill else 'run'} {self.id}"


def submit_run(instance: dg.DagsterInstance, job: str, tags: Mapping[str, str], config: Mapping[str, Any]) -> Submission:
    """Submit a run of a job. Raises as `submit_backfill` does."""
    given = {
        "selector": {**_REPOSITORY, "jobName": job},
        "runConfigData": dict(config),
        "executionMetadata": {"tags": _graphql_tags(tags)},
    }
    return _require_storage(instance, Submission(_send(_LAUNCH_RUN, given, f"submitting {job}")["run"]["id"], is_backfill=False))


def submit_backfill(
    instance: dg.DagsterInstance, job: str, partitions: Sequence[str], tags: Mapping[str, str], config: Mapping[str, Any]
) -> Submission:
    """Submit a backfill of partitions of a job, in Dagster's order. The job's backfill policy divides them into runs.

    Raises:
        BellwetherError: the UI refuses the work, or does not answer within two minutes.
        ConfigError: the UI uses another storage than this process.
    """
    given = {
        "selector": {"repositorySelector": _REPOSITORY, "partitionSetName": f"{job}_partition_set"},
        "partitionNames": list(partitions),
        "tags": _graphql_tags(tags),
        "runConfigData": dict(config),
    }
    return _require_storage(instance, Submission(_send(_LAUNCH_BACKFILL, given, f"submitting {job}")["backfillId"], is_backfill=True))


def cancel(instance: dg.DagsterInstance, submission: Submission) -> None:
    """Ask Dagster to cancel a run, or a backfill with all its runs. Raises `BellwetherError` if the UI refuses or does not answer."""
    if submission.is_backfill:
        _send(_CANCEL_BACKFILL, submission.id, f"canceling {submission}")
        return
    for run in _latest_runs(instance, submission):
        if not run.is_finished:
            _send(_CANCEL_RUN, run.run_id, f"canceling {submission}")


def follow(instance: dg.DagsterInstance, submission: Submission, say: Callable[[str], None]) -> list[dg.DagsterRun]:
    """Wait until all runs of a submission have ended. Returns them, each retried run as its last retry. say: shows how far they are.

    Short outages of the storage are waited for. Raises `BellwetherError` if Dagster could not divide a backfill, or the submission was deleted.
    """
    answered, told, failed = time.monotonic(), "", set[str]()
    while True:
        try:
            is_whole, runs = _is_divided(instance, submission), _latest_runs(instance, submission)
        except SQLAlchemyError:
            if time.monotonic() - answered > _OUTAGE_SECONDS:
                raise
        else:
            answered = time.monotonic()
            if is_whole and all(_has_ended(run, failed) for run in runs):
                return runs
            failed = {run.run_id for run in runs if run.status is dg.DagsterRunStatus.FAILURE}
            if (text := _describe_progress(runs)) != told:
                say(text)
                told = text
        time.sleep(_POLL_SECONDS)


def _is_divided(instance: dg.DagsterInstance, submission: Submission) -> bool:
    """Return True if all runs of a submission exist."""
    if not submission.is_backfill:
        return True
    backfill = instance.get_backfill(submission.id)
    if backfill is None:
        raise BellwetherError(f"{submission} was deleted while a command waited for it")
    if backfill.status.name in ("FAILING", "FAILED"):
        reason = backfill.error.message.strip() if backfill.error else "no reason recorded"
        raise BellwetherError(f"{submission} failed: {reason}. Its page is {submission.url}")
    return backfill.status.name not in ("REQUESTED", "CANCELING")


def _latest_runs(instance: dg.DagsterInstance, submission: Submission) -> list[dg.DagsterRun]:
    """Return the runs of a submission except those that have been retried, in the order of their creation."""
    tag = BACKFILL if submission.is_backfill else _ROOT
    runs = list(reversed(instance.get_runs(dg.RunsFilter(tags={tag: submission.id}))))
    if not submission.is_backfill:
        first = instance.get_run_by_id(submission.id)
        if first is None:
            raise BellwetherError(f"{submission} was deleted while a command waited for it")
        runs.insert(0, first)
    retried = {run.parent_run_id for run in runs}
    return [run for run in runs if run.run_id not in retried]


def _has_ended(run: dg.DagsterRun, failed: set[str]) -> bool:
    """Return True if a run has ended and will not be retried. failed: runs that had failed before, since Dagster adds its tag after the status."""
    if run.status is not dg.DagsterRunStatus.FAILURE:
        return run.is_finished
    return run.tags.get(_WILL_RETRY, "" if run.run_id in failed else "true") != "true"


def _describe_progress(runs: Sequence[dg.DagsterRun]) -> str:
    """Describe the runs of a submission, such as "2 of 5 runs ended, 2 started, 1 queued"."""
    if not runs:
        return "waiting for Dagster to create the runs"
    states = Counter(run.status.value.lower().replace("_", " ") for run in runs if not run.is_finished)
    ended = f"{len(runs) - states.total()} of {len(runs)} runs ended"
    return ", ".join([ended, *(f"{count} {state}" for state, count in sorted(states.items()))])


def _send(mutation: str, given: object, doing: str) -> dict[str, Any]:
    """Send a GraphQL mutation to the fleet's UI and return its result. While the UI restarts, repeat it for up to two minutes."""
    end = time.monotonic() + _OUTAGE_SECONDS
    where = f"the fleet's UI at {_ui()} (BELLWETHER_UI)"
    while True:
        try:
            response = httpx.post(f"{_ui()}/graphql", json={"query": mutation, "variables": {"given": given}}, timeout=60.0)
            if response.status_code not in (502, 503, 504):
                answer = response.raise_for_status().json()
                break
            problem = f"HTTP {response.status_code}"
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # nothing was sent
            problem = str(error) or type(error).__name__
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise BellwetherError(f"{doing} at {where}: {str(error) or type(error).__name__}; see {_ui()}/runs") from error
        if time.monotonic() > end:
            raise ConfigError(f"{doing}: {where} does not answer ({problem}), nothing was submitted")
        time.sleep(_POLL_SECONDS)
    result = (answer.get("data") or {}).get("sent") if isinstance(answer, dict) else None
    if not isinstance(result, dict) or "message" in result or "errors" in result:
        raise BellwetherError(f"{doing} at {where}: {_refusal(answer, result)}")
    return result


def _refusal(answer: object, result: object) -> str:
    """Return why Dagster refused a mutation, in one line."""
    source = result if isinstance(result, dict) else answer if isinstance(answer, dict) else {}
    texts = [source.get("message"), *(error.get("message") for error in source.get("errors") or ())]
    return " ".join(" ".join(text.split()) for text in texts if text) or "the answer is not Dagster's"


def _require_storage(instance: dg.DagsterInstance, submission: Submission) -> Submission:
    """Return a submission that this process can follow. Raises `ConfigError` if the UI uses another storage."""
    found = instance.get_backfill(submission.id) if submission.is_backfill else instance.get_run_by_id(submission.id)
    if found is None:
        raise ConfigError(
            f"the fleet's UI at {_ui()} (BELLWETHER_UI) uses another storage than this command, which cannot follow {submission}: set the same "
            "BELLWETHER_POSTGRES"
        )
    return submission


def _graphql_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]


def _ui() -> str:
    return settings().ui.rstrip("/")
