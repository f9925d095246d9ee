"""End of runs whose process was killed: Dagster would show them as started and keep their pool slots for ever.

A command that executes runs has one lock, which is free again when its process ends, however it ends. Its runs carry a tag with the name of the lock;
runs without the tag belong to the daemon of `bellwether ui`. All of this applies to runs of a database that only this machine uses. In a fleet, and on a
shared database, no run is ended here and commands take no locks: the run launcher's health check decides.
Not here: runs that fail by themselves, which Dagster records.
Concept: https://docs.dagster.io/guides/operate/managing-concurrency
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path

import dagster as dg

from bellwether.files import try_lock
from bellwether.journal.holders import is_running
from bellwether.settings import settings
from orchestration.run_priority import COMMAND, LAUNCHED_BY

#: Run tag: lock of the command that executes the run.
TAG = "bellwether/process"
UI = "ui"
#: Message of a run that a user has stopped.
STOPPED = "Stopped. What it had stored is kept: run again, it goes on from there."
#: A lock that another process only tests is free again after this time.
_PATIENCE_SECONDS = 0.5
_BEGUN = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
#: Statuses of runs that have not ended.
UNFINISHED = [dg.DagsterRunStatus.QUEUED, *_BEGUN]


class ProcessLock:
    """The lock of a process, given up when the process ends.

    name: of the lock, a new one when left out. `held` is false where another process has the lock, or where runs are not only this machine's.
    """

    def __init__(self, instance: dg.DagsterInstance, name: str | None = None) -> None:
        self.name = name or f"{os.getpid()}-{secrets.token_hex(4)}"
        self.tags: dict[str, str] = {}
        self._file, self.held = -1, False
        if name is None and not has_local_runs(instance):
            return
        self._path = _folder(instance) / self.name
        self._file, self.held = _lock_file(self._path, wait=name is None)
        if name is None:
            self.tags = {TAG: self.name}
            self.write(shlex.join(["bellwether", *sys.argv[1:]]))

    def write(self, note: str) -> None:
        """Store a note in the lock's file, for processes that find it taken."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, note.encode(), 0)

    @property
    def file(self) -> int:
        """Descriptor of the lock's file: a program that inherits it holds the lock as well."""
        return self._file

    def close(self) -> None:
        """Give the lock up and remove its file; the file of another process that holds it stays."""
        if self.held:
            self._path.unlink(missing_ok=True)
        if self._file >= 0:
            os.close(self._file)


def has_local_runs(instance: dg.DagsterInstance) -> bool:
    """Whether all runs of the instance are processes of this machine: of no fleet, launcher or database that others share."""
    storage = type(instance.run_storage).__name__
    return settings().fleet is None and isinstance(instance.run_launcher, dg.DefaultRunLauncher) and storage == "SqliteRunStorage"


def is_orphan(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a command of this home executed an unfinished run, and was killed."""
    return TAG in run.tags and has_local_runs(instance) and _is_free(_folder(instance) / Path(run.tags[TAG]).name)


def end_orphans(instance: dg.DagsterInstance, *, of_ui: bool = False) -> list[str]:
    """Report every unfinished run of a killed command as failed and free its pool slots. Returns the run ids.

    Without a UI its runs are ended as well whose processes are gone: they would keep their pool slots, for which commands wait.
    of_ui: all of them, where this process is about to start the UI and no other runs.
    """
    if not has_local_runs(instance):
        return []
    ended = []
    without_ui = ui_note(instance) is None
    for run in _begun(instance):
        of_dead_ui = TAG not in run.tags and (of_ui or (without_ui and _is_abandoned(instance, run)))
        if is_orphan(instance, run) or of_dead_ui:
            instance.report_run_failed(run, "The process that executed this run was killed; nothing stored is lost.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            ended.append(run.run_id)
    for path in _folder(instance).iterdir():
        if path.name != UI:
            _is_free(path, remove=True)
    return ended


def requeue_runs(instance: dg.DagsterInstance) -> list[str]:
    """Queue every unfinished run of the UI, whose process was ended on purpose, and free its pool slots. Returns the run ids.

    The daemon launches it at its next start. One that a user was cancelling is canceled.
    """
    queued = []
    for run in _begun(instance) if has_local_runs(instance) else ():
        if TAG in run.tags:
            continue
        if run.status is dg.DagsterRunStatus.CANCELING or run.remote_job_origin is None:
            instance.report_run_canceled(run, message=STOPPED)
        else:
            instance.report_dagster_event(dg.DagsterEvent.job_enqueue(run), run_id=run.run_id)
            queued.append(run.run_id)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return queued


def running_commands(instance: dg.DagsterInstance) -> list[str]:
    """Names of the locks of commands that execute runs in this home, or are between two of them; in a fleet ids of their unfinished runs."""
    if not has_local_runs(instance):
        return [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED, tags={LAUNCHED_BY: COMMAND}))]
    return sorted(path.name for path in _folder(instance).iterdir() if path.name != UI and not _is_free(path))


def command_line(instance: dg.DagsterInstance, name: str) -> str:
    """The command that has the lock `name`, as typed; empty if it has ended meanwhile."""
    with suppress(FileNotFoundError):
        return (_folder(instance) / name).read_text()
    return ""


def ui_note(instance: dg.DagsterInstance) -> str | None:
    """The note in the lock of the UI that serves this home, empty until it is ready; None where none serves it."""
    path = _folder(instance) / UI
    return None if _is_free(path) else path.read_text()


def kill_with_run(_registered: object) -> None:
    """In a step's process: kill it when the process of its run is gone, so that no step ends after its run was reported as failed."""
    run = multiprocessing.parent_process()
    if run is not None:
        threading.Thread(target=_kill_after, args=(run.sentinel,), name="end-with-the-run", daemon=True).start()


def _kill_after(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


def _begun(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    return (record.dagster_run for record in instance.get_run_records(dg.RunsFilter(statuses=_BEGUN)))


def _is_abandoned(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether processes have worked on a run and none of them is alive."""
    pids = {entry.dagster_event.pid for entry in instance.all_logs(run.run_id) if entry.dagster_event and entry.dagster_event.pid}
    return bool(pids) and not any(is_running(pid) for pid in pids)


def _folder(instance: dg.DagsterInstance) -> Path:
    folder = Path(instance.root_directory) / "processes"
    folder.mkdir(exist_ok=True)
    return folder


def _lock_file(path: Path, *, wait: bool) -> tuple[int, bool]:
    """(the file at `path`, whether this process has its lock); again where the file was removed before it could be locked.

    wait: no other process wants the lock. Others may take it for a moment, to test whether it is free.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        held = try_lock(file)
        if held and path.exists() and path.stat().st_ino == os.fstat(file).st_ino:
            return file, True
        if not held and not wait and time.monotonic() > end:
            return file, False
        os.close(file)
        time.sleep(0.01)


def _is_free(path: Path, *, remove: bool = False) -> bool:
    """Whether no process has a lock. remove: remove the file of a free one, before another process can take it."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        is_free = try_lock(file)
        if is_free and remove:
            path.unlink(missing_ok=True)
        return is_free
    finally:
        os.close(file)
