"""A worker in namespaces of its own that is killed while its runs query a model and occupy a slot of a pool."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import pytest

from assets.benchmark import partitions
from bellwether.lake import Lake
from bellwether.lake.recovery import verify
from bellwether.settings import settings
from bellwether.tables import table
from deploy.fleet import Fleet
from deploy.loopback import Unavailable
from orchestration.home import LOCATION, REPOSITORY, prepare
from orchestration.partitions import to_key
from tests.shared import wait_until
from tests.unit.publish.rows import questions

pytestmark = [pytest.mark.fleet, pytest.mark.nightly, pytest.mark.timeout(1200)]
PATIENCE = 300.0
#: The first questions of a release, which automation never runs.
RELEASE, MODEL = "sandbox-2026@30", "slowly"
SLOWLY = f"""[{MODEL}]
model = "sandbox/noisy"
worlds = ["sandbox"]
requests_per_minute = 30
concurrency = 1
"""
ANSWERS = "SELECT key, count(*) FROM attempts WHERE outcome = 'ok' GROUP BY key"
RETRIES = "SELECT r.status FROM runs r JOIN run_tags t USING (run_id) WHERE t.key = 'dagster/parent_run_id' AND t.value = %s"
SLOTS = "SELECT run_id FROM concurrency_slots WHERE concurrency_key = 'warehouse' AND run_id IS NOT NULL"
STATUS = "SELECT status FROM runs WHERE run_id = %s"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "models.toml").write_text(SLOWLY)
    try:
        with Fleet(workers=1, changes={"BELLWETHER_WORKERS": "2", "BELLWETHER_REGISTRY": str(tmp_path)}, apart=True) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(str(reason))


def rows(fleet: Fleet, sql: str, *values: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, or none before the first run creates the journal."""
    import psycopg

    time.sleep(0.3)
    with suppress(psycopg.errors.UndefinedTable), psycopg.connect(fleet.postgres.url) as database:
        return database.execute(sql, values).fetchall()
    return []


@contextmanager
def node(fleet: Fleet) -> Iterator[None]:
    """Return the settings of another node in this process."""
    with patch.dict(os.environ, fleet.environment("observer"), clear=True):
        settings.cache_clear()
        try:
            yield
        finally:
            settings.cache_clear()


@contextmanager
def sampled(fleet: Fleet) -> Iterator[Lake]:
    """Store thirty questions of a release in the lake."""
    with node(fleet):
        lake = Lake.of(settings())
        lake.write(table("benchmark/questions"), (RELEASE,), questions(30, release=RELEASE), run_id="made")
        prepare(settings())
        with dg.DagsterInstance.get() as instance:
            instance.add_dynamic_partitions(str(partitions.RELEASE.name), [RELEASE])
            instance.add_dynamic_partitions(str(partitions.FORECASTER.name), [MODEL])
        yield lake


def test_runs_of_a_killed_worker_end_on_another_within_two_minutes_and_ask_nothing_twice(fleet: Fleet) -> None:
    import psycopg
    from dagster_graphql import DagsterGraphQLClient

    client = DagsterGraphQLClient(fleet.settings["BELLWETHER_UI"].removeprefix("http://"))

    def submit(job: str, **more: Any) -> str:
        return client.submit_job_execution(job, repository_location_name=LOCATION, repository_name=REPOSITORY, **more)

    with sampled(fleet) as lake, psycopg.connect(fleet.postgres.url) as connection:
        pair = to_key(table("benchmark/forecasts"), (RELEASE, MODEL))
        evaluation = submit("evaluate", run_config={}, tags={"dagster/partition": pair})
        wait_until(lambda: rows(fleet, ANSWERS), "the model has answered", PATIENCE)
        connection.execute("SELECT number FROM partitions FOR UPDATE")  # a publication waits here, because it records the check of files
        submit("publish", run_config={})
        wait_until(lambda: rows(fleet, SLOTS), "a publication waits", PATIENCE)
        ((publication,),), answered = rows(fleet, SLOTS), rows(fleet, ANSWERS)
        assert rows(fleet, STATUS, evaluation) == [("STARTED",)] and len(answered) < 30
        fleet.workers[0].kill()
        killed = time.monotonic()
        connection.rollback()
        fleet.add_worker()
        for run in (publication, evaluation):
            wait_until(lambda run=run: rows(fleet, STATUS, run) == [("FAILURE",)] and rows(fleet, RETRIES, run), "it is retried", PATIENCE)
        wait_until(lambda: (publication,) not in rows(fleet, SLOTS), "its slot is free", PATIENCE)
        assert time.monotonic() - killed < 120
    for run in (publication, evaluation):
        wait_until(lambda run=run: rows(fleet, RETRIES, run) == [("SUCCESS",)], "another worker has finished it", PATIENCE)
    calls = rows(fleet, ANSWERS)
    assert set(answered) < set(calls) and len(calls) == 30
    assert all(count == 1 for _, count in calls)
    with node(fleet):
        assert lake.slice(table("benchmark/forecasts"), [(RELEASE, MODEL)]).read()["question_id"].n_unique() == 30
        assert not verify(lake).damaged
