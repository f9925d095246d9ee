"""Derived tables follow their inputs, updated equally by commands and by the sensor, and determined from the lake alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import polars as pl
import pytest

from assets.benchmark.partitions import automatic
from assets.raw.runs import _outdated_days
from assets.replay.assets import automatic as automatic_agents
from bellwether import checks
from bellwether.errors import QualityError
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.automation import _BLOCKED, BACK_OFF, MADE_FROM, UpdatePlan, run_requests, update_tables
from orchestration.orphaned_runs import ProcessLock
from resources.models import payer
from tests.demo_home import RELEASE, World, forecast, publish
from tests.graph.worlds import DAYS, change, execute, files, location, restrict_automation, tick, without_history

#: A day of both venues and a forecaster of the demo home, and what follows from them.
DAY, FORECASTER = DAYS[3], "always-half"
OF_DAY = {(f"clean/{name}", DAY) for name in ("resolutions", "markets", "prices")}
OF_FORECASTS = {(f"benchmark/{name}", f"{FORECASTER}|{RELEASE}") for name in ("scores", "reliability")}
OF_FORECASTS |= {(f"benchmark/{name}", RELEASE) for name in ("leaks", "leak_scores")}


@pytest.fixture
def fresh(demo_copy: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The demo home with a Dagster instance without runs and events."""
    restrict_automation(monkeypatch)
    with without_history(demo_copy, tmp_path) as world:
        yield world


def requested_partitions(world: World) -> set[tuple[str, str]]:
    """Return tables and partitions of the runs that the sensor requests."""
    found = set()
    for request in tick(world, update_tables).run_requests or ():
        tags = request.tags
        first = request.partition_key or tags.get("dagster/partition") or tags.get("dagster/asset_partition_range_start", "")
        assert tags.get("dagster/asset_partition_range_end", first) == first
        found |= {("/".join(asset.path), str(first)) for asset in request.asset_selection}
    return found


def test_outdated_partitions_are_found_without_runs_and_events(fresh: World) -> None:
    assert requested_partitions(fresh) == set()
    before = fresh.lake.manifest(table("raw/polymarket_markets"), (DAY,))
    assert before is not None
    change(fresh, "raw/polymarket_markets", (DAY,), "question", "changed")
    work = fresh.runner()
    assert requested_partitions(fresh) == OF_DAY
    assert _outdated_days(work, list(DAYS)) == [DAY]
    fresh.lake.commit([before])
    change(fresh, "benchmark/forecasts", (RELEASE, FORECASTER), "p_yes", 0.25)
    assert requested_partitions(fresh) == OF_FORECASTS, "the ranking waits for the scores"
    assert _outdated_days(work, list(DAYS)) == []


@pytest.mark.nightly
def test_a_command_and_the_sensor_update_the_same_partitions(fresh: World) -> None:
    change(fresh, "benchmark/forecasts", (RELEASE, FORECASTER), "p_yes", 0.25)
    work = fresh.runner()
    forecast(work)
    publish(work)
    assert work.stats.by_job.keys() == {"score", "rank", "publish"}
    scored = [run for run in fresh.instance.get_runs() if run.job_name == "score"]
    assert [run.tags["dagster/partition"] for run in scored] == [f"{FORECASTER}|{RELEASE}"]
    assert requested_partitions(fresh) == set()


def test_inputs_that_are_rebuilt_unchanged_make_nothing_outdated(fresh: World) -> None:
    before = files(fresh)
    assert execute(fresh, "questions", "benchmark/questions", partition_key=RELEASE).success
    assert files(fresh) == before
    assert UpdatePlan(fresh.defs.resolve_asset_graph(), fresh.lake, fresh.instance).due() == []


def test_the_sensor_waits_for_commands_and_runs_and_stops_at_a_blocking_rule(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, rows: pl.LazyFrame) -> None:
        if name == "clean/markets":
            raise QualityError("broken")

    location(fresh, "clean/prices", DAY).unlink()
    assert requested_partitions(fresh) == {("clean/prices", DAY)}
    command = ProcessLock(fresh.instance)
    assert requested_partitions(fresh) == set()
    command.close()
    pull = dg.DagsterRun(job_name="days", tags={"dagster/partition": DAY}, status=dg.DagsterRunStatus.STARTED)
    fresh.instance.add_run(pull)
    assert requested_partitions(fresh) == set()
    fresh.instance.delete_run(pull.run_id)
    assert requested_partitions(fresh) == {("clean/prices", DAY)}
    monkeypatch.setattr(checks, "require", broken)
    _BLOCKED.clear()
    assert requested_partitions(fresh) == set(), "an input breaks a blocking rule"
    _BLOCKED.clear()


def test_failures_are_retried_with_growing_pauses_and_not_forever(fresh: World) -> None:
    graph = fresh.defs.resolve_asset_graph()
    location(fresh, "clean/prices", DAY).unlink()
    (one,) = (replace(found, attempts=3) for found in UpdatePlan(graph, fresh.lake, fresh.instance).due())
    now, tried = datetime.now(UTC), []
    for minute in range(0, 60, 1):
        at = now + timedelta(minutes=minute)
        for request in run_requests(graph, [one], fresh.instance, at):
            tried.append(minute)
            run = dg.DagsterRun(job_name="days", tags=request.tags, status=dg.DagsterRunStatus.FAILURE)
            fresh.instance.run_storage.add_historical_run(run, at)
            assert run.tags[MADE_FROM]
    assert tried == [0, BACK_OFF.seconds // 60, 3 * BACK_OFF.seconds // 60]
    assert not list(run_requests(graph, [replace(one, attempts=1)], fresh.instance, now + timedelta(days=3)))


def test_only_free_or_named_models_run_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_MODELS", "paid")
    settings.cache_clear()
    monkeypatch.setattr("bellwether.forecasting.competitors", lambda *_: {"free": None, "paid": None})
    agents = {"rule": SimpleNamespace(language_model=None), "trader": SimpleNamespace(language_model="paid")}
    monkeypatch.setattr("bellwether.replay.registry.competitors", lambda *_: agents)
    now = datetime.now(UTC)
    new, old = (cast("Any", SimpleNamespace(written_at=now - timedelta(days=days))) for days in (1, 30))
    expected = [("r", "free"), ("r", "paid"), ("s", "free")]
    assert automatic({("r",): new, ("s",): old, ("r@20",): new}) == expected, "no call for older releases and for subsets"
    assert automatic_agents({("e",): new, ("f",): old}) == [("e", "rule"), ("e", "trader"), ("f", "rule")]


def test_runs_of_a_backfill_of_divided_work_and_retries_share_a_budget() -> None:
    retry = {"run_id": "two", "root_run_id": "one", "parent_run_id": "one"}
    for run, expected in (
        ({"run_id": "one"}, "one"),
        (retry, "one"),
        ({"run_id": "two", "tags": {"dagster/backfill": "many"}}, "many"),
        ({**retry, "tags": {"bellwether/paid_by": "divided"}}, "divided"),
    ):
        assert payer(dg.DagsterRun(job_name="evaluate", **run)) == expected  # type: ignore[arg-type]
