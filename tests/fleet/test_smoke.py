"""A fleet of two workers, of which one is killed while it works, gives the tables of one machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from deploy.fleet import BELLWETHER, Fleet, compare
from deploy.loopback import Process, Unavailable
from tests.demo_home import LAST
from tests.shared import wait_until

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(900)]
#: Days of two runs.
PULL = ("pull", str(LAST), str(LAST + timedelta(days=6)))
STARTED = "SELECT run_id FROM runs WHERE status = 'STARTED' AND pipeline_name = 'days'"
RETRIED = "SELECT status FROM runs JOIN run_tags USING (run_id) WHERE key = 'dagster/parent_run_id'"


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    try:
        with Fleet(changes={"BELLWETHER_CANDLE_MARKETS": "2", "BELLWETHER_HEARTBEAT": "2"}) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(str(reason))


def select(fleet: Fleet, sql: str) -> list[str]:
    """Return a column of Dagster's database, or none before the first run creates its tables."""
    import psycopg

    with suppress(psycopg.errors.UndefinedTable), psycopg.connect(fleet.postgres.url) as database:
        return [value for (value,) in database.execute(sql).fetchall()]
    return []


def worker_of(fleet: Fleet, runs: list[str]) -> Process:
    """Return a worker that executes one of the runs."""
    from celery import Celery

    # Named workers, since a request to all waits out its timeout, and the run ends meanwhile.
    workers = {f"celery@{worker.folder.name}": worker for worker in fleet.workers}
    active = Celery(broker=fleet.redis.url).control.inspect(destination=list(workers), timeout=20).active() or {}
    return next(worker for name, worker in workers.items() if any(run in str(active.get(name)) for run in runs))


def test_the_runs_of_a_killed_worker_are_finished_by_the_other(fleet: Fleet) -> None:
    pull = fleet.begin(*PULL)
    wait_until(lambda: pull.poll() is not None or select(fleet, STARTED), "a run has started", 300)
    assert pull.poll() is None, pull.communicate()[0]
    worker_of(fleet, select(fleet, STARTED)).kill()
    with subprocess.Popen(
        [BELLWETHER, *PULL], env=fleet.embedded, cwd=fleet.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as alone:
        text, _ = pull.communicate(timeout=600)
        assert pull.returncode == 0, text
        told, _ = alone.communicate(timeout=600)
        assert alone.returncode == 0, told
    retried = select(fleet, RETRIED)
    assert retried and set(retried) == {"SUCCESS"}
    assert compare(fleet.embedded, fleet.environment("laptop")) == []
