"""Commands on one node whose runs are executed by a worker on another node."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.fleet import Fleet
from tests.shared import wait_until

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A UI with its daemon and one worker. Tests run commands on other nodes."""
    with Fleet(workers=1) as running:
        yield running


def runs(fleet: Fleet, job: str) -> dict[str, str]:
    """Return the status of each run of a job by run id."""
    import psycopg

    with psycopg.connect(fleet.postgres.url) as database:
        return dict(database.execute("SELECT run_id, status FROM runs WHERE pipeline_name = %s ORDER BY id", [job]).fetchall())


def test_an_interrupted_command_cancels_its_backfill_and_a_killed_one_leaves_it(fleet: Fleet) -> None:
    words = ("pull", "2026-08-01", "2026-08-16")
    command = fleet.begin(*words, node="b")
    wait_until(lambda: command.poll() is not None or "STARTED" in runs(fleet, "days").values(), "a run has started", 300)
    assert not list(Path(fleet.environment("b")["BELLWETHER_HOME"]).rglob("processes")), "it takes no locks"
    command.send_signal(signal.SIGTERM)
    text, _ = command.communicate(timeout=60)
    assert "/runs/b/" in text and "continues from there" in text
    wait_until(lambda: set(runs(fleet, "days").values()) <= {"CANCELED", "SUCCESS"}, "the backfill is canceled", 300)
    canceled = runs(fleet, "days")
    assert "CANCELED" in canceled.values()

    command = fleet.begin(*words, node="c")
    wait_until(lambda: command.poll() is not None or "STARTED" in runs(fleet, "days").values(), "a run has started", 300)
    command.kill()
    command.communicate()
    wait_until(lambda: set(list(runs(fleet, "days").values())[len(canceled) :]) == {"SUCCESS"}, "Dagster finishes the backfill", 500)
    ended = runs(fleet, "days")
    text, _ = (fresh := fleet.begin(*words, node="b")).communicate(timeout=300)
    assert fresh.returncode == 0 and runs(fleet, "days") == ended, text
