"""Runs whose process was killed: Dagster would call them started for ever, and their pool slots would block every later run.

A process that executes runs holds a lock on a file of its own for as long as it lives; the lock of a killed process is free.
Not here: runs that fail by themselves, which Dagster records.
Concept: https://docs.dagster.io/guides/operate/managing-concurrency
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

import dagster as dg
from dagster._core.events import DagsterEvent

from bellwether.files import try_lock

#: Run tag that names the lock of the process that executes the run. Runs without it belong to the UI's daemon.
TAG = "bellwether/process"
UI = "ui"
#: What the log of a run says that a person has stopped.
STOPPED = "Stopped. What it had stored is kept: run again, it goes on from there."
_UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


class Process:
    """This process's lock; given up when the process ends, however it ends.

    instance: its storage says which runs there are and where the locks lie. name: of the lock, a new one when left out.
    """

    def __init__(self, instance: dg.DagsterInstance, name: str | None = None) -> None:
        self.name = name or f"{os.getpid()}-{secrets.token_hex(4)}"
        self._path = _folder(instance) / self.name
        self._file, self.held = _locked(self._path, wait=name is None)

    @property
    def tags(self) -> dict[str, str]:
        """Tags for the runs that this process executes."""
        return {TAG: self.name}

    @property
    def file(self) -> int:
        """Descriptor of the lock's file: a program that inherits it holds the lock as well."""
        return self._file

    def close(self) -> None:
        """Give the lock up and remove its file; the file of another process that holds it stays."""
        if self.held:
            self._path.unlink(missing_ok=True)
        os.close(self._file)


def end_orphans(instance: dg.DagsterInstance, is_orphan: Callable[[dg.DagsterRun], bool]) -> list[str]:
    """Report every unfinished run that `is_orphan` as failed and free its pool slots. Returns the run ids."""
    ended = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED)):
        run = record.dagster_run
        if is_orphan(run):
            instance.report_run_failed(run, "The process that executed this run was killed; nothing stored is lost.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            ended.append(run.run_id)
    return ended


def put_back(instance: dg.DagsterInstance, chosen: Callable[[dg.DagsterRun], bool]) -> list[str]:
    """Queue every unfinished run that is `chosen` again, whose process was ended on purpose, and free its pool slots. Returns the run ids.

    The daemon launches it when it runs the next time. One that a person was cancelling is canceled.
    """
    queued = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED)):
        run = record.dagster_run
        if not chosen(run):
            continue
        if run.status is dg.DagsterRunStatus.CANCELING or run.remote_job_origin is None:
            instance.report_run_canceled(run, message=STOPPED)
        else:
            instance.report_dagster_event(DagsterEvent.job_enqueue(run), run_id=run.run_id)
            queued.append(run.run_id)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return queued


def of_killed_processes(instance: dg.DagsterInstance) -> Callable[[dg.DagsterRun], bool]:
    """Runs of command-line processes that are gone."""
    folder = _folder(instance)
    return lambda run: TAG in run.tags and _is_free(folder / run.tags[TAG])


def commands_at_work(instance: dg.DagsterInstance) -> bool:
    """Whether a command executes runs, or is between two of them."""
    folder = Path(instance.root_directory) / "processes"
    return folder.is_dir() and any(path.name != UI and not _is_free(path) for path in folder.iterdir())


def of_the_ui(run: dg.DagsterRun) -> bool:
    """Runs that a UI launched: orphans when no UI is running."""
    return TAG not in run.tags


def remove_stale_locks(instance: dg.DagsterInstance) -> None:
    """Remove the files of processes that were killed."""
    for path in _folder(instance).iterdir():
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue
        if try_lock(file):
            path.unlink(missing_ok=True)
        os.close(file)


def end_with_the_run(_registered: object) -> None:
    """In a step's process: kill it when the process of its run is gone, so that no step ends after its run was called failed."""
    run = multiprocessing.parent_process()
    if run is not None:
        threading.Thread(target=_end_after, args=(run.sentinel,), name="end-with-the-run", daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


def _folder(instance: dg.DagsterInstance) -> Path:
    folder = Path(instance.root_directory) / "processes"
    folder.mkdir(exist_ok=True)
    return folder


def _locked(path: Path, *, wait: bool) -> tuple[int, bool]:
    """(the file at `path`, whether this process has its lock); again where the file was removed before it could be locked.

    wait: nobody else wants the lock, but somebody may look for a moment whether it is free.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        held = try_lock(file)
        if (not held and not wait) or (held and path.exists() and path.stat().st_ino == os.fstat(file).st_ino):
            return file, held
        os.close(file)


def _is_free(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        return try_lock(file)
    finally:
        os.close(file)
