"""Submission of a command's runs to a running UI, whose daemon executes them.

The UI is that of the fleet (BELLWETHER_UI), or of the command's home. A UI of a home writes its port and a digest of its settings into its lock; a
command with other settings or keys executes its runs itself.
Concept: https://docs.dagster.io/guides/operate/graphql/graphql-client
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import httpx
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError
from pydantic import SecretStr

from bellwether import __version__
from bellwether.errors import BellwetherError, ConfigError
from bellwether.journal.holders import is_running
from bellwether.settings import settings
from orchestration.home import LOCATION, REPOSITORY
from orchestration.orphaned_runs import ProcessLock, ui_note

HOST = "127.0.0.1"
_POLL_SECONDS = 0.5
#: Tag of a submission, by which its run is found after an interruption.
SUBMISSION = "bellwether/submission"
#: Time in which Dagster creates a submitted run.
_CREATION_SECONDS = 15.0
#: Time for a run to end after its command was interrupted.
_PATIENCE_SECONDS = 60.0
#: Time in which a fleet's storage may be unreachable while a command follows its runs.
_OUTAGE_SECONDS = 120.0
#: Time in which a second Ctrl-C cancels runs of a fleet.
_CHOICE_SECONDS = 5.0
#: Tags that Dagster adds to a failed run: whether it will be retried, and the id of the retry.
_WILL_RETRY, _RETRY = "dagster/will_retry", "dagster/auto_retry_run_id"
#: Environment variables of runs besides settings: keys and addresses of model providers and venues.
_CREDENTIAL = re.compile(r"_(KEY|KEY_ID|TOKEN|SECRET|BASE|URL)$")


@dataclass(frozen=True)
class Endpoint:
    """UI that executes the runs of commands.

    of_fleet: UI of a fleet, whose runs continue when the command is interrupted. Otherwise they are canceled.
    """

    url: str
    of_fleet: bool = False

    def __str__(self) -> str:
        return f"the fleet's UI at {self.url} (BELLWETHER_UI)" if self.of_fleet else f"the UI at {self.url}"

    @property
    def client(self) -> DagsterGraphQLClient:
        """Dagster's GraphQL client for this UI."""
        return _client(self.url)

    def require(self) -> None:
        """Raise `ConfigError` if no Dagster UI answers at this address."""
        try:
            httpx.get(f"{self.url}/server_info", timeout=5.0).raise_for_status().json()["dagster_webserver_version"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self} does not answer, nothing was submitted: {str(error) or type(error).__name__}") from error


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM to end the command at once."""


@dataclass
class Submission:
    """Run that a command submits to a UI and follows until its end.

    say: shows a line of a step. end: receives the finished run. run_id: of a run that was submitted earlier and is only followed.
    """

    job: str
    tags: Mapping[str, str]
    config: Mapping[str, Any]
    say: Callable[[str], None]
    end: Callable[[dg.DagsterRun], None]
    run_id: str = ""
    cursor: str | None = None
    is_waiting: bool = False
    failures: int = 0


def announce_ui(process: ProcessLock, port: int, dagster: int) -> None:
    """Write into the UI's lock that the UI accepts runs of commands. dagster: process id of `dagster dev`."""
    process.write(json.dumps({"port": port, "settings": _digest(), "ui": os.getpid(), "dagster": dagster}))


def describe_ui(instance: dg.DagsterInstance) -> str:
    """Describe the address of this home's UI and how to stop it; empty if no UI is ready."""
    note = json.loads(ui_note(instance) or "{}")
    if "ui" not in note:
        return ""
    stop = f"kill {note['ui']}" if is_running(note["ui"]) else f"kill -- -{note['dagster']}"
    return f" at http://{HOST}:{note['port']}; to stop it: {stop}"


def find_endpoint(instance: dg.DagsterInstance) -> Endpoint | None:
    """Return the UI that executes this command's runs: the fleet's, or this home's if its settings are the same. None without such a UI."""
    if settings().fleet is not None:
        return Endpoint(settings().ui.rstrip("/"), of_fleet=True)
    note = json.loads(ui_note(instance) or "{}")
    return Endpoint(f"http://{HOST}:{note['port']}") if note.get("settings") == _digest() and is_listening(note["port"]) else None


def is_listening(port: int) -> bool:
    """Return True if a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def execute(instance: dg.DagsterInstance, ui: Endpoint, runs: Sequence[Submission]) -> None:
    """Submit runs to a UI and wait until all have ended. The functions `say` and `end` of each submission receive log lines and the finished run.

    Raises:
        BellwetherError: Dagster refuses a run or does not answer; the UI was stopped, and its runs continue at its next start; or a run was deleted.
        ConfigError: the UI uses another storage than this process.
        KeyboardInterrupt: a signal interrupted the command; the runs are canceled, or left in progress in a fleet.
    """
    token, pending = {SUBMISSION: secrets.token_hex(8)}, list(runs)
    try:
        for submission in runs:
            if not submission.run_id:
                submission.run_id = _submit(instance, ui, submission, token)
        _follow(instance, ui, pending)
    except KeyboardInterrupt as signal:
        submitted = {submission.run_id for submission in pending if submission.run_id}
        end = time.monotonic() + (0 if ui.of_fleet else _CREATION_SECONDS)
        while not (created := instance.get_runs(dg.RunsFilter(tags=token))) and not submitted and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        unfinished = submitted | {run.run_id for run in created if not run.is_finished}
        _handle_interrupt(instance, ui, sorted(unfinished), choice=not isinstance(signal, Terminated))
        raise
    except BellwetherError as error:
        if others := [submission.run_id for submission in pending if ui.of_fleet and submission.run_id]:
            raise type(error)(f"{error}. In progress: {', '.join(others)}, see {ui.url}/runs") from error
        raise


def _submit(instance: dg.DagsterInstance, ui: Endpoint, submission: Submission, token: Mapping[str, str]) -> str:
    """Submit a run to the UI. Returns the run id. token: tag that identifies this command's submissions."""
    try:
        run_id = str(
            ui.client.submit_job_execution(
                submission.job,
                repository_location_name=LOCATION,
                repository_name=REPOSITORY,
                run_config=dict(submission.config),
                tags={**submission.tags, **token},
            )
        )
    except DagsterGraphQLClientError as error:
        raise BellwetherError(f"submitting {submission.job} to {ui}: {error.__cause__ or error}") from error
    if instance.get_run_by_id(run_id) is None:
        raise ConfigError(
            f"{ui} uses another storage than this command, which cannot follow run {run_id}: set the same BELLWETHER_POSTGRES"
        )
    return run_id


def _follow(instance: dg.DagsterInstance, ui: Endpoint, pending: list[Submission]) -> None:
    """Wait until all submitted runs have ended; each is removed from `pending` when it ends. Short outages of a fleet's storage are tolerated."""
    answered = time.monotonic()
    while pending:
        is_served = ui.of_fleet or ui_note(instance) is not None
        try:
            for submission in list(pending):
                if _has_ended(instance, submission, retries=ui.of_fleet):
                    pending.remove(submission)
            answered = time.monotonic()
        except BellwetherError:
            raise
        except Exception:  # of the database's driver
            if not ui.of_fleet or time.monotonic() - answered > _OUTAGE_SECONDS:
                raise
        if pending and not is_served:
            raise BellwetherError(
                f"the UI that executes run {pending[0].run_id} was stopped; the run continues at its next start (bellwether ui)"
            )
        if pending:
            time.sleep(_POLL_SECONDS)


def _has_ended(instance: dg.DagsterInstance, submission: Submission, *, retries: bool) -> bool:
    """Report a run's new log lines. Returns True if the run has ended, after calling the submission's `end`. retries: follow the retry of a failed
    run.
    """
    run = instance.get_run_by_id(submission.run_id)
    page = instance.get_records_for_run(submission.run_id, submission.cursor)
    submission.cursor = page.cursor
    for record in page.records:
        entry = record.event_log_entry
        if not entry.is_dagster_event and int(entry.level) >= logging.INFO:
            submission.say(entry.user_message)
    if run is None:
        raise BellwetherError(f"run {submission.run_id} was deleted while a command waited for it")
    if run.status is dg.DagsterRunStatus.QUEUED and not submission.is_waiting:
        submission.is_waiting = True
        submission.say("waiting in the queue")
    if not run.is_finished:
        return False
    if retries and run.status is dg.DagsterRunStatus.FAILURE:
        submission.failures += 1
        if run.tags.get(_WILL_RETRY) == "true" or (
            _WILL_RETRY not in run.tags and submission.failures == 1
        ):  # the tag is added after the status
            if retry := run.tags.get(_RETRY):
                submission.say("its worker was lost; another one repeats it")
                submission.run_id, submission.cursor, submission.failures = retry, None, 0
            return False
    submission.end(run)
    return True


def _handle_interrupt(instance: dg.DagsterInstance, ui: Endpoint, runs: Sequence[str], *, choice: bool = False) -> None:
    """After an interrupt, cancel the command's runs; in a fleet, let them continue and say so.

    choice: give the user some seconds to cancel runs of a fleet by a second Ctrl-C.
    """
    if ui.of_fleet and runs:
        hint = f" Ctrl-C again within {_CHOICE_SECONDS:.0f} seconds cancels them." if choice else ""
        sys.stderr.write(
            f"\n{'These runs continue' if runs[1:] else 'This run continues'} in the fleet: {', '.join(runs)}. Follow or cancel at {ui.url}/runs, "
            f"or follow by the same command.{hint}\n"
        )
        try:
            time.sleep(_CHOICE_SECONDS if choice else 0)
        except Terminated:
            return
        except KeyboardInterrupt:
            sys.stderr.write("Canceling.\n")
        else:
            return
    _cancel(instance, ui, runs)


def _cancel(instance: dg.DagsterInstance, ui: Endpoint, runs: Sequence[str]) -> None:
    """Cancel submitted runs and wait until they have ended. Stops waiting if this home's UI ends, which queues the runs for its next start."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        begun = [run for run in map(instance.get_run_by_id, runs) if run is not None and not run.is_finished]
        for run in begun:
            if run.status is not dg.DagsterRunStatus.CANCELING:
                with suppress(DagsterGraphQLClientError):  # a run that is being created cannot be canceled yet
                    ui.client.terminate_run(run.run_id)
        if not begun or not (ui.of_fleet or ui_note(instance) is not None):
            return
        time.sleep(_POLL_SECONDS)


@cache
def _client(url: str) -> DagsterGraphQLClient:
    parts = urlsplit(url)
    return DagsterGraphQLClient(parts.netloc, use_https=parts.scheme == "https", path_prefix=parts.path)


def _digest() -> str:
    """Return a digest of this process's version, settings and keys, which a UI must have too in order to execute its runs."""
    values = {name: _text(value) for name, value in settings()}
    keys = {name: value for name, value in os.environ.items() if _CREDENTIAL.search(name)}
    return sha256(json.dumps([__version__, values, keys], sort_keys=True).encode()).hexdigest()


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
