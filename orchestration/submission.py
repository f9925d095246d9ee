"""Submission of a command's runs to the daemon of a running `bellwether ui`, and the progress of such a run.

The UI writes its port into its lock, with a digest of its settings: a command with other settings or keys executes its runs itself.
Concept: https://docs.dagster.io/guides/operate/graphql/graphql-client
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError
from pydantic import SecretStr

from bellwether import __version__
from bellwether.errors import BellwetherError
from bellwether.journal.holders import is_running
from bellwether.settings import settings
from orchestration.home import LOCATION, REPOSITORY
from orchestration.orphans import Process, ui_note
from orchestration.partitions import PARTITION

HOST = "127.0.0.1"
_POLL_SECONDS = 0.5
#: Tag that names a submission, so that its run is found when the submitting command is interrupted.
SUBMISSION = "bellwether/submission"
#: Time in which Dagster creates a run, after which an interrupted submission is taken for one that never arrived.
_CREATION_SECONDS = 15.0
#: Time for a run to end after its command was interrupted.
_PATIENCE_SECONDS = 60.0
#: Variables of the environment that a run may need and that are not settings: keys and addresses of model providers and venues.
_CREDENTIAL = re.compile(r"_(KEY|KEY_ID|TOKEN|SECRET|BASE|URL)$")


def announce(process: Process, port: int, dagster: int) -> None:
    """Note in the lock of the UI that its daemon takes runs. dagster: process number of `dagster dev`."""
    process.write(json.dumps({"port": port, "settings": _digest(), "ui": os.getpid(), "dagster": dagster}))


def serving(instance: dg.DagsterInstance) -> str:
    """Address and process of the UI that serves this home, and how to stop it; "" until it is ready."""
    found = json.loads(ui_note(instance) or "{}")
    if "ui" not in found:
        return ""
    stop = f"kill {found['ui']}" if is_running(found["ui"]) else f"kill -- -{found['dagster']}"
    return f" at http://{HOST}:{found['port']}; to stop it: {stop}"


def daemon_port(instance: dg.DagsterInstance) -> int | None:
    """Port of the UI that serves this home with the settings of this process; None where no such UI runs."""
    note = ui_note(instance)
    found = json.loads(note) if note else {}
    return int(found["port"]) if found.get("settings") == _digest() and answers(found["port"]) else None


def answers(port: int) -> bool:
    """Whether a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def submit(
    instance: dg.DagsterInstance, port: int, job: str, *, partition: str | None, tags: Mapping[str, str], config: Mapping[str, Any]
) -> str:
    """Queue a run of a job, and return its id.

    Raises:
        BellwetherError: Dagster refuses it or does not answer.
        KeyboardInterrupt: a signal interrupted the command; a run that was created is canceled.
    """
    submission = {SUBMISSION: secrets.token_hex(8)}
    try:
        run_id = _client(port).submit_job_execution(
            job,
            repository_location_name=LOCATION,
            repository_name=REPOSITORY,
            run_config=dict(config),
            tags={**tags, **submission, **({PARTITION: partition} if partition else {})},
        )
    except KeyboardInterrupt:
        end = time.monotonic() + _CREATION_SECONDS
        while not (created := instance.get_runs(dg.RunsFilter(tags=submission))) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        for run in created:
            _cancel(instance, run.run_id, port)
        raise
    except DagsterGraphQLClientError as error:
        raise BellwetherError(f"submitting {job} to the UI on port {port}: {error.__cause__ or error}") from error
    return str(run_id)


def follow(instance: dg.DagsterInstance, run_id: str, port: int, say: Callable[[str], None]) -> dg.DagsterRun:
    """Wait for a submitted run and pass on what its steps log. Returns the finished run.

    Raises:
        BellwetherError: the UI was stopped; the run continues at its next start.
        KeyboardInterrupt: a signal interrupted the command; the run is canceled.
    """
    cursor: str | None = None
    is_waiting = False
    try:
        while True:
            is_served, run = ui_note(instance) is not None, instance.get_run_by_id(run_id)
            page = instance.get_records_for_run(run_id, cursor)
            cursor = page.cursor
            for record in page.records:
                entry = record.event_log_entry
                if not entry.is_dagster_event and int(entry.level) >= logging.INFO:
                    say(entry.user_message)
            if run is None or run.is_finished:
                return _existing(run, run_id)
            if not is_served:
                raise BellwetherError(f"the UI that executes run {run_id} was stopped; the run continues at its next start (bellwether ui)")
            if run.status is dg.DagsterRunStatus.QUEUED and not is_waiting:
                is_waiting = True
                say("waiting in the queue of the UI")
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        _cancel(instance, run_id, port)
        raise


def _existing(run: dg.DagsterRun | None, run_id: str) -> dg.DagsterRun:
    if run is None:
        raise BellwetherError(f"run {run_id} was deleted while a command waited for it")
    return run


def _cancel(instance: dg.DagsterInstance, run_id: str, port: int) -> None:
    """Cancel a submitted run and wait until it has ended. Where the UI has ended too, the run is queued again."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end and (run := instance.get_run_by_id(run_id)) is not None and not run.is_finished:
        if run.status is not dg.DagsterRunStatus.CANCELING:
            with suppress(DagsterGraphQLClientError):  # a run that is being created cannot be canceled yet
                _client(port).terminate_run(run_id)
        if ui_note(instance) is None:
            return
        time.sleep(_POLL_SECONDS)


@cache
def _client(port: int) -> DagsterGraphQLClient:
    return DagsterGraphQLClient(HOST, port_number=port)


def _digest() -> str:
    """Digest of the version, settings and keys of this process."""
    values = {name: _text(value) for name, value in settings()}
    keys = {name: value for name, value in os.environ.items() if _CREDENTIAL.search(name)}
    return sha256(json.dumps([__version__, values, keys], sort_keys=True).encode()).hexdigest()


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
