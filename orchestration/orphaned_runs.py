"""Detection of runs whose process was killed. Without it, Dagster would show these runs as started, and they would keep their pool slots.

A command that executes runs holds a lock until its process ends. Its runs have a tag with the name of the lock; runs without the tag belong to the daemon of
`bellwether ui`. This applies to databases that only this machine uses. In a fleet and on a shared database the health check of the run launcher decides.
Concept: https://docs.dagster.io/guides/operate/managing-concurrency
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path

import dagster as dg

from bellwether.files import try_lock
from bellwether.settings import settings
from orchestration.run_priority import COMMAND, LAUNCHED_BY

#: Run tag: lock of the command that executes the run.
TAG = "bellwether/process"
UI = "ui"
#: Message of a run that a user has stopped.
STOPPED = "Stopped. Stored results are kept; the same command continues from there."
#: Time in which another process may test a lock.
_PATIENCE_SECONDS = 0.5
_STARTED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
#: Statuses of runs that have not ended.
UNFINISHED = [dg.DagsterRunStatus.QUEUED, *_STARTED]


class ProcessLock:
    """Lock file of a process, which is released when the process ends.

    name: name of the lock; a new one when left out. `held` is False if another process has the lock, or if runs are not processes of this machine.
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

    def write(self, note: str) -> None:
        """Replace the text in the lock's file, which other processes read."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, note.encode(), 0)

    @property
    def file(self) -> int:
        """File descriptor of the lock. A child process that inherits the descriptor keeps the lock."""
        return self._file

    def close(self) -> None:
        """Release the lock and remove the lock's file."""
        if self.held:
            self._path.unlink(missing_ok=True)
        if self._file >= 0:
            os.close(self._file)


def has_local_runs(instance: dg.DagsterInstance) -> bool:
    """Return True if all runs of a Dagster instance are processes of this machine: SQLite storage, and no fleet."""
    storage = type(instance.run_storage).__name__
    return settings().fleet is None and isinstance(instance.run_launcher, dg.DefaultRunLauncher) and storage == "SqliteRunStorage"


def is_orphan(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return True if an unfinished run belongs to a command of this home that was killed."""
    return TAG in run.tags and has_local_runs(instance) and _is_free(_folder(instance) / Path(run.tags[TAG]).name)


def is_in_progress(instance: dg.DagsterInstance, job: str) -> bool:
    """Return True if a run of a job has not ended. Runs of killed commands do not count."""
    return any(not is_orphan(instance, run) for run in instance.get_runs(dg.RunsFilter(job_name=job, statuses=UNFINISHED)))


def end_orphans(instance: dg.DagsterInstance, *, of_ui: bool = False) -> list[str]:
    """Report the unfinished runs of killed commands as failed, and free their pool slots. Returns the run ids.

    If no UI is running, the same applies to runs of a UI whose processes have ended. of_ui: end all runs of a UI, for the start of the next one.
    """
    if not has_local_runs(instance):
        return []
    ended = []
    without_ui = ui_note(instance) is None
    for run in _started_runs(instance):
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
    """Queue the unfinished runs of a stopped UI, so that the UI executes them at its next start, and free their pool slots. Returns the run ids.

    Runs that are being canceled are reported as canceled.
    """
    queued = []
    for run in _started_runs(instance) if has_local_runs(instance) else ():
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
    """Return the lock names of the commands that are running in this home; in a fleet, the ids of commands' unfinished runs."""
    if not has_local_runs(instance):
        return [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED, tags={LAUNCHED_BY: COMMAND}))]
    return sorted(path.name for path in _folder(instance).iterdir() if path.name != UI and not _is_free(path))


def ui_note(instance: dg.DagsterInstance) -> str | None:
    """Return the text that the UI of this home has written into its lock: empty until the UI is ready. None if no UI is running."""
    path = _folder(instance) / UI
    return None if _is_free(path) else path.read_text()


def kill_with_run(_registered: object) -> None:
    """Start a thread that kills this step's process as soon as the process of its run ends."""
    run = multiprocessing.parent_process()
    if run is not None:
        threading.Thread(target=_kill_after, args=(run.sentinel,), name="end-with-the-run", daemon=True).start()


def _kill_after(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


def _started_runs(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    return (record.dagster_run for record in instance.get_run_records(dg.RunsFilter(statuses=_STARTED)))


def _is_abandoned(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return True if all processes that took part in a run have ended."""
    pids = {entry.dagster_event.pid for entry in instance.all_logs(run.run_id) if entry.dagster_event and entry.dagster_event.pid}
    return bool(pids) and not any(is_running(pid) for pid in pids)


def _folder(instance: dg.DagsterInstance) -> Path:
    folder = Path(instance.root_directory) / "processes"
    folder.mkdir(exist_ok=True)
    return folder


def _lock_file(path: Path, *, wait: bool) -> tuple[int, bool]:
    """Open the file at `path` and try to lock it. Returns the file descriptor, and True if the lock was obtained.

    wait: wait until the lock is free. Otherwise try for half a second, since other processes may test the lock.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        is_locked = try_lock(file)
        if is_locked and path.exists() and path.stat().st_ino == os.fstat(file).st_ino:
            return file, True
        if not is_locked and not wait and time.monotonic() > end:
            return file, False
        os.close(file)
        time.sleep(0.01)


def _is_free(path: Path, *, remove: bool = False) -> bool:
    """Return True if no process holds the lock at `path`. remove: also delete the file of a free lock."""
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


def is_running(pid: int) -> bool:
    """Return True if a process with this number runs on this machine, or if that is unknown.

    A zombie may keep its number for ever: in a container, the first process often does not reap orphans.
    """
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] not in "ZX"
