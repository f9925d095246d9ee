"""Worker of a Celery fleet, which forks processes that execute one run at a time.

SIGTERM finishes the current runs and takes no more. After SIGKILL the daemon retries them on other workers.
Concept: https://docs.celeryq.dev/en/stable/userguide/workers.html
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import Celery, Task, signals
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

from bellwether.settings import Settings, settings
from orchestration.definitions import defs
from orchestration.fleet import CELERY, RUNS_PER_WORKER, wait_for_postgres
from orchestration.home import prepare
from orchestration.launcher import CeleryLauncher

#: Runs after which a process of a worker is replaced, which returns its memory.
_RUNS_PER_PROCESS = 50
_ORPHAN_SECONDS = 1.0


def work(config: Settings, name: str | None = None, say: Callable[[str], None] = print) -> int:
    """Execute runs of a Celery fleet until a signal arrives. Returns the exit code.

    name: unique name of the worker; host and process id when left out. say: prints a line.
    """
    home = prepare(config)
    wait_for_postgres()
    app = application(config)
    defs.get_repository_def().get_all_jobs()  # loaded before the fork
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    worker = app.Worker(
        hostname=f"celery@{name}",
        concurrency=RUNS_PER_WORKER,
        pool="prefork",
        loglevel="WARNING",
        max_tasks_per_child=_RUNS_PER_PROCESS,
        without_gossip=True,
        without_mingle=True,
    )
    signals.worker_ready.connect(lambda **_: say(f"Worker {name} is ready: {RUNS_PER_WORKER} runs at once, home {home}"), weak=False)
    worker.start()
    return int(worker.exitcode or 0)


def application(config: Settings) -> Celery:
    """Create the Celery application that daemon and workers share, with the tasks that execute runs."""
    broker = config.broker.get_secret_value() if config.broker else None
    app = CeleryLauncher(default_queue="dagster", broker=broker, backend=broker, config_source=dict(CELERY)).celery
    create_execute_job_task(app)
    create_resume_job_task(app)
    signals.worker_process_init.connect(_end_with_parent)
    signals.task_prerun.connect(_start_heartbeat)
    signals.task_postrun.connect(_stop_heartbeat)
    return app


def _end_with_parent(**_: Any) -> None:
    """Start a thread that kills this forked process as soon as its worker is killed, so that another worker retries the run."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_ORPHAN_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


#: Events that end the heartbeat of a task, by its id.
_stops: dict[str, threading.Event] = {}


def _start_heartbeat(task_id: str, task: Task, **_: Any) -> None:
    """Start a thread that refreshes a task's entry in the result backend, which shows that the worker is alive."""
    stop = _stops[task_id] = threading.Event()
    details, every = {"pid": os.getpid(), "hostname": task.request.hostname}, settings().heartbeat

    def beat() -> None:
        count = 0
        while not stop.wait(every):
            count += 1
            with suppress(Exception):  # the broker may be restarting
                task.backend.store_result(task_id, {**details, "heartbeat": count}, "STARTED")

    threading.Thread(target=beat, name="heartbeat", daemon=True).start()


def _stop_heartbeat(task_id: str, **_: Any) -> None:
    """End the thread that `_start_heartbeat` has started for a task."""
    if stop := _stops.pop(task_id, None):
        stop.set()
