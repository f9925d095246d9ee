"""Dagster's run launcher for Celery, with a check that detects lost workers.

While a worker executes a run, it refreshes the run's entry in Celery's result backend. A run without such a heartbeat is lost unless its worker
reports that it executes the run. Stopping workers answer no ping while they finish their runs. Dagster's monitoring checks runs that have started;
`fleet.end_lost_starts` applies the same check to runs that a worker took and that have not started.
Concept: https://docs.dagster.io/deployment/execution/run-monitoring
"""

from __future__ import annotations

import time
from typing import Any

import dagster as dg
from celery.states import PENDING, READY_STATES
from dagster_celery.launcher import CeleryRunLauncher, CheckRunHealthResult, WorkerStatus
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

from bellwether.settings import settings

_REPLY_SECONDS = 3.0
#: Missed heartbeats after which a worker is queried.
_MISSED = 3


class CeleryLauncher(CeleryRunLauncher):
    """Run launcher that submits runs as Celery tasks. A run whose worker was lost is reported as failed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Latest heartbeat of each run and the time of its first observation, in seconds of the monotonic clock.
        self._heartbeats: dict[str, tuple[object, float]] = {}

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether a run still has a worker: running, or failed if its worker was lost. Raises if the broker does not answer; the daemon then
        checks again.
        """
        task_id, patience = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG, ""), _MISSED * settings().heartbeat
        try:
            meta = self.celery.backend.get_task_meta(task_id)
            if meta["status"] == PENDING and run.status is dg.DagsterRunStatus.STARTING and self._has_waiting_tasks():
                self._heartbeats.pop(run.run_id, None)
                return CheckRunHealthResult(WorkerStatus.RUNNING)
            if meta["status"] in READY_STATES:
                return self._report_lost(run, f"Its Celery task ended ({meta['status']}) without the end of the run")
            details = meta["result"] if isinstance(meta["result"], dict) else {}
            previous, since = self._heartbeats.setdefault(run.run_id, (details, time.monotonic()))
            if details != previous:
                self._heartbeats[run.run_id] = (details, time.monotonic())
            elif time.monotonic() - since >= patience and not self._executes(details.get("hostname"), task_id):
                return self._report_lost(
                    run, f"Worker {details.get('hostname', 'unknown')} was lost: it sent no heartbeat for {patience} s"
                )
        except Exception:
            self._heartbeats.pop(run.run_id, None)
            raise
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def terminate(self, run_id: str) -> bool:
        """Interrupt a run. Returns False if the run has ended or is unknown. If its worker is lost, the daemon cancels the run."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        if task_id := run.tags.get(DAGSTER_CELERY_TASK_ID_TAG):
            self.celery.AsyncResult(task_id).revoke(terminate=True)
        return True

    def _executes(self, worker: str | None, task_id: str) -> bool:
        """Return True if a worker reports that it executes the task. worker: its name; None: any worker."""
        inspect = self.celery.control.inspect(destination=[worker] if worker else None, timeout=_REPLY_SECONDS)
        replies = inspect.query_task(task_id) or {}
        return any(task_id in tasks for tasks in replies.values())

    def _has_waiting_tasks(self) -> bool:
        """Return True if tasks wait in the broker for a worker. Which ones, the broker does not tell."""
        with self.celery.connection_for_read() as connection:
            return bool(connection.default_channel.queue_declare(queue=self.default_queue).message_count)

    def _report_lost(self, run: dg.DagsterRun, message: str) -> CheckRunHealthResult:
        self._heartbeats.pop(run.run_id, None)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"{message}. Stored results of the run are kept")
