"""A fleet of two workers gives the rows of one machine, and makes each model call once, although Redis and Postgres are killed."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from deploy.fleet import BELLWETHER, Fleet, compare
from deploy.loopback import Unavailable
from tests.shared import wait_until

pytestmark = [pytest.mark.fleet, pytest.mark.nightly, pytest.mark.timeout(900)]
PULL = ("pull", "2026-09-01", "2026-09-06")
#: All forecasters without costs, including models of the sandbox. Automation runs them between two commands.
RELEASE = ("release", "sandbox-2026")
ANSWERS = "SELECT key, count(*) FROM attempts WHERE outcome = 'ok' GROUP BY key"
STARTED = "SELECT run_id FROM runs WHERE status = 'STARTED'"


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    try:
        with Fleet(changes={"BELLWETHER_CANDLE_MARKETS": "2"}) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(str(reason))


def rows(fleet: Fleet, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, or none before the first run creates the table."""
    import psycopg

    with suppress(psycopg.errors.UndefinedTable), psycopg.connect(fleet.postgres.url) as database:
        return database.execute(sql).fetchall()
    return []


def begin_embedded(fleet: Fleet) -> subprocess.Popen[str]:
    """Start the same work on one machine in the background."""
    script = " && ".join(shlex.join((str(BELLWETHER), *words)) for words in (PULL, RELEASE))
    log = (fleet.folder / "embedded.log").open("w")
    return subprocess.Popen(["sh", "-c", script], env=fleet.embedded, cwd=fleet.folder, stdout=log, stderr=log, text=True)


def release_through_kills(fleet: Fleet) -> int:
    """Release while Redis and Postgres are killed and restarted. Returns the number of answered calls at the last kill."""
    release, answered = fleet.begin(*RELEASE), 0
    for server in (fleet.redis, fleet.postgres):
        wait_until(lambda seen=answered: len(rows(fleet, ANSWERS)) > seen, "models answer", 300)
        assert rows(fleet, STARTED)
        answered = len(rows(fleet, ANSWERS))
        server.kill()
        server.start()
    release.communicate(timeout=600)
    return answered


def shares(fleet: Fleet) -> list[int]:
    """Return the number of runs of each worker."""
    from celery import Celery

    found = Celery(broker=fleet.redis.url).control.inspect(timeout=20).stats() or {}
    return [sum(worker["total"].values()) for worker in found.values()]


def test_two_workers_have_the_rows_of_one_machine_though_servers_are_killed(fleet: Fleet) -> None:
    alone = begin_embedded(fleet)
    fleet.command(*PULL)
    answered = release_through_kills(fleet)
    fleet.command(*RELEASE)  # a run that was writing at the kill failed
    calls = rows(fleet, ANSWERS)
    assert answered < len(calls)
    assert all(count == 1 for _, count in calls)
    wait_until(lambda: len(shares(fleet)) == 2, "both workers answer")
    executed = shares(fleet)
    assert min(executed) >= 0.35 * sum(executed), executed
    fleet.command("doctor", "--files")
    assert alone.wait(600) == 0, (fleet.folder / "embedded.log").read_text()
    with closing(sqlite3.connect(fleet.folder / "homes/embedded/sandbox/journal.db")) as journal:
        assert set(calls) == set(journal.execute(ANSWERS).fetchall())
    assert compare(fleet.embedded, fleet.environment("laptop")) == []
