"""Submission of a command's runs to a UI, and the progress of such runs.

The UI is that of the fleet (BELLWETHER_UI), or of the command's home. The latter writes port and digest of its settings into its lock; a command with
other settings or keys executes its runs itself.
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

    of_fleet: an interrupted command leaves its runs in progress. Otherwise it cancels them.
    """

    url: str
    of_fleet: bool = False

    def __str__(self) -> str:
        return f"the fleet's UI at {self.url} (BELLWETHER_UI)" if self.of_fleet else f"the UI at {self.url}"

    @property
    def client(self) -> DagsterGraphQLClient:
        """Dagster's client of this UI."""
        return _client(self.url)

    def require(self) -> None:
        """Raise `ConfigError` if Dagster does not answer."""
        try:
            httpx.get(f"{self.url}/server_info", timeout=5.0).raise_for_status().json()["dagster_webserver_version"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self} does not answer, nothing was submitted: {str(error) or type(error).__name__}") from error


class Terminated(KeyboardInterrupt):
    """Interruption by SIGTERM, which ends the command at once."""


@dataclass
class Submission:
    """Run to submit and follow; with `run_id`, a submitted run to follow. say: shows a line of a step. end: receives the finished run."""

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
    """Write into the lock of the UI that its daemon accepts runs. dagster: process number of `dagster dev`."""
    process.write(json.dumps({"port": port, "settings": _digest(), "ui": os.getpid(), "dagster": dagster}))


def describe_ui(instance: dg.DagsterInstance) -> str:
    """Describe address and process of the UI of this home, and how to stop it; empty until it is ready."""
    found = json.loads(ui_note(instance) or "{}")
    if "ui" not in found:
        return ""
    stop = f"kill {found['ui']}" if is_running(found["ui"]) else f"kill -- -{found['dagster']}"
    return f" at http://{HOST}:{found['port']}; to stop it: {stop}"


def find_endpoint(instance: dg.DagsterInstance) -> Endpoint | None:
    """Return the UI that executes the runs of this process: that of the fleet, or of this home with the same settings. None without one."""
    if settings().fleet is not None:
        return Endpoint(settings().ui.rstrip("/"), of_fleet=True)
    note = ui_note(instance)
    found = json.loads(note) if note else {}
    return Endpoint(f"http://{HOST}:{found['port']}") if found.get("settings") == _digest() and is_listening(found["port"]) else None


def is_listening(port: int) -> bool:
    """Return whether a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def execute(instance: dg.DagsterInstance, ui: Endpoint, runs: Sequence[Submission]) -> None:
    """Submit runs and wait for all of them, passing on their log and their ends.

    Raises:
        BellwetherError: Dagster refuses a run or does not answer; the UI was stopped, and its runs continue at its next start; or a run was deleted.
        ConfigError: the UI uses another storage than this process.
        KeyboardInterrupt: a signal interrupted the command; the runs are canceled, or left in progress in a fleet.
    """
    token, pending = {SUBMISSION: secrets.token_hex(8)}, list(runs)
    try:
        for one in runs:
            if not one.run_id:
                one.run_id = _submit(instance, ui, one, token)
        _follow(instance, ui, pending)
    except KeyboardInterrupt as signal:
        known = {one.run_id for one in pending if one.run_id}
        end = time.monotonic() + (0 if ui.of_fleet else _CREATION_SECONDS)
        while not (created := instance.get_runs(dg.RunsFilter(tags=token))) and not known and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        left = known | {run.run_id for run in created if not run.is_finished}
        _handle_interrupt(instance, ui, sorted(left), choice=not isinstance(signal, Terminated))
        raise
    except BellwetherError as error:
        if others := [one.run_id for one in pending if ui.of_fleet and one.run_id]:
            raise type(error)(f"{error}. In progress: {', '.join(others)}, see {ui.url}/runs") from error
        raise


def _submit(instance: dg.DagsterInstance, ui: Endpoint, one: Submission, token: Mapping[str, str]) -> str:
    """Queue a run, and return its id."""
    try:
        run_id = str(
            ui.client.submit_job_execution(
                one.job,
                repository_location_name=LOCATION,
                repository_name=REPOSITORY,
                run_config=dict(one.config),
                tags={**one.tags, **token},
            )
        )
    except DagsterGraphQLClientError as error:
        raise BellwetherError(f"submitting {one.job} to {ui}: {error.__cause__ or error}") from error
    if instance.get_run_by_id(run_id) is None:
        raise ConfigError(
            f"{ui} uses another storage than this command, which cannot follow run {run_id}: set the same BELLWETHER_POSTGRES"
        )
    return run_id


def _follow(instance: dg.DagsterInstance, ui: Endpoint, pending: list[Submission]) -> None:
    """Wait for submitted runs and remove them from the list when they end. The storage of a fleet may be unavailable for a while."""
    answered = time.monotonic()
    while pending:
        is_served = ui.of_fleet or ui_note(instance) is not None
        try:
            for one in list(pending):
                if _has_ended(instance, one, retries=ui.of_fleet):
                    pending.remove(one)
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


def _has_ended(instance: dg.DagsterInstance, one: Submission, *, retries: bool) -> bool:
    """Pass on new entries of a run; return whether it has ended. retries: follow a retry of the run."""
    run = instance.get_run_by_id(one.run_id)
    page = instance.get_records_for_run(one.run_id, one.cursor)
    one.cursor = page.cursor
    for record in page.records:
        entry = record.event_log_entry
        if not entry.is_dagster_event and int(entry.level) >= logging.INFO:
            one.say(entry.user_message)
    if run is None:
        raise BellwetherError(f"run {one.run_id} was deleted while a command waited for it")
    if run.status is dg.DagsterRunStatus.QUEUED and not one.is_waiting:
        one.is_waiting = True
        one.say("waiting in the queue")
    if not run.is_finished:
        return False
    if retries and run.status is dg.DagsterRunStatus.FAILURE:
        one.failures += 1
        if run.tags.get(_WILL_RETRY) == "true" or (_WILL_RETRY not in run.tags and one.failures == 1):  # the tag is added after the status
            if retry := run.tags.get(_RETRY):
                one.say("its worker was lost; another one repeats it")
                one.run_id, one.cursor, one.failures = retry, None, 0
            return False
    one.end(run)
    return True


def _handle_interrupt(instance: dg.DagsterInstance, ui: Endpoint, runs: Sequence[str], *, choice: bool = False) -> None:
    """Cancel runs of an interrupted command. In a fleet they continue unless the user interrupts again. choice: wait for that."""
    if ui.of_fleet and runs:
        again = f" Ctrl-C again within {_CHOICE_SECONDS:.0f} seconds cancels them." if choice else ""
        sys.stderr.write(
            f"\n{'These runs continue' if runs[1:] else 'This run continues'} in the fleet: {', '.join(runs)}. Follow or cancel at {ui.url}/runs, "
            f"or follow by the same command.{again}\n"
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
    """Cancel submitted runs and wait for their end. If the UI of this home has ended, they are queued again."""
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
    """Compute a digest of the version, settings and keys of this process."""
    values = {name: _text(value) for name, value in settings()}
    keys = {name: value for name, value in os.environ.items() if _CREDENTIAL.search(name)}
    return sha256(json.dumps([__version__, values, keys], sort_keys=True).encode()).hexdigest()


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
