"""Derived tables follow their inputs, updated equally by commands and by the sensor, and determined from the lake alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import polars as pl
import pytest

from assets.benchmark.partitions import automatic
from assets.replay.partitions import automatic as automatic_agents
from assets.venues.runs import _outdated_days
from bellwether import checks
from bellwether.errors import QualityError
from bellwether.lake.warehouse import publish
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.automation import _BLOCKED, BACK_OFF, MADE_FROM, UpdatePlan, automation, run_requests
from orchestration.orphaned_runs import ProcessLock
from orchestration.partitions import group_days
from tests.orchestration.conftest import FORECASTERS, SILENT, World, run_all
from tests.orchestration.test_graph import DAYS

RELEASE = "sandbox-2026"


@pytest.fixture
def fresh(evaluated: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The evaluated lake with a Dagster instance without runs and events."""
    monkeypatch.setenv("BELLWETHER_HOME", str(evaluated.config.home))
    monkeypatch.setattr("bellwether.forecasting.competitors", lambda *_: dict.fromkeys(FORECASTERS))
    settings.cache_clear()
    lake, before = evaluated.config.world_home / "lake", tmp_path / "lake"
    shutil.copytree(lake, before)
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=SILENT) as instance:
        world = replace(evaluated, instance=instance)
        world.runner()
        publish(world.lake, world.config.warehouse_uri)  # other tests have rebuilt partitions
        for name, keys in (("release", [RELEASE]), ("forecaster", FORECASTERS)):
            instance.add_dynamic_partitions(name, list(keys))
        yield world  # type: ignore[misc]
    shutil.rmtree(lake)  # other tests read the same world
    shutil.copytree(before, lake)
    settings.cache_clear()


def tick(world: World) -> dg.SensorResult | Any:
    resources = {"lake": (world.defs.resources or {})["lake"]}
    with dg.build_sensor_context(
        instance=world.instance, repository_def=world.defs.get_repository_def(), resources=resources, sensor_name="automation"
    ) as context:
        return automation.evaluate_tick(context)


def requested_partitions(world: World) -> set[tuple[str, str]]:
    """Return tables and partitions of the runs that the sensor requests."""
    found = set()
    for request in tick(world).run_requests or ():
        tags = request.tags
        first = request.partition_key or tags.get("dagster/partition") or tags.get("dagster/asset_partition_range_start", "")
        assert tags.get("dagster/asset_partition_range_end", first) == first
        found |= {("/".join(asset.path), str(first)) for asset in request.asset_selection}
    return found


def change(world: World, name: str, partition: tuple[str, ...], column: str, value: object) -> None:
    declared = table(name)
    rows = world.lake.slice(declared, [partition]).read()
    changed = rows.with_columns(pl.lit(value, declared.schema[column]).alias(column))
    assert not changed.equals(rows)
    made = world.lake.manifest(declared, partition)
    assert made is not None
    world.lake.write(declared, partition, changed, run_id="changed", inputs=made.inputs, code_version=made.code_version)


def test_without_dagsters_history_nothing_is_to_be_made_until_an_input_changes(fresh: World) -> None:
    assert requested_partitions(fresh) == set()
    again = run_all(fresh)
    assert again.stats.runs == 0
    assert not fresh.instance.get_runs()

    day = DAYS[3]
    manifest = Path(fresh.lake.uri) / "raw/polymarket_markets" / day / "manifest.json"
    before = manifest.read_bytes()
    change(fresh, "raw/polymarket_markets", (day,), "question", "changed")
    assert requested_partitions(fresh) == {(f"clean/{name}", day) for name in ("resolutions", "markets", "prices")}
    assert _outdated_days(fresh.runner(), list(DAYS)) == [day]
    manifest.write_bytes(before)
    assert requested_partitions(fresh) == set()
    assert _outdated_days(fresh.runner(), list(DAYS)) == []

    pair = (RELEASE, "always-half")
    forecasts = fresh.lake.slice(table("benchmark/forecasts"), [pair]).read()
    change(fresh, "benchmark/forecasts", pair, "latency_ms" if "latency_ms" in forecasts.columns else "p_yes", 0.25)
    followers = {f"benchmark/{name}" for name in ("scores", "reliability")}
    assert requested_partitions(fresh) == {(name, "always-half|sandbox-2026") for name in followers}, "the ranking waits for the scores"
    command = run_all(fresh)
    assert command.stats.by_job.keys() == {"score", "rank", "publish"}
    scored = [run for run in fresh.instance.get_runs() if run.job_name == "score"]
    assert [run.tags["dagster/partition"] for run in scored] == ["always-half|sandbox-2026"]
    assert requested_partitions(fresh) == set()


def test_the_sensor_waits_for_a_command_and_for_runs_in_progress_and_stops_at_a_blocking_rule(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str, rows: pl.LazyFrame) -> None:
        if name == "clean/markets":
            raise QualityError("broken")

    day = DAYS[2]
    lost = fresh.lake.manifest(table("clean/prices"), (day,))
    assert lost is not None
    file = Path(fresh.lake.uri) / lost.file
    held = file.read_bytes()
    file.unlink()
    try:
        assert requested_partitions(fresh) == {("clean/prices", day)}
        command = ProcessLock(fresh.instance)
        assert requested_partitions(fresh) == set()
        command.close()
        pull = dg.DagsterRun(job_name="days", tags={"dagster/partition": day}, status=dg.DagsterRunStatus.STARTED)
        fresh.instance.add_run(pull)
        assert requested_partitions(fresh) == set()
        fresh.instance.delete_run(pull.run_id)
        assert requested_partitions(fresh) == {("clean/prices", day)}
        with monkeypatch.context() as patch:
            patch.setattr(checks, "require", broken)
            _BLOCKED.clear()
            assert requested_partitions(fresh) == set(), "an input breaks a blocking rule"
        _BLOCKED.clear()
    finally:
        file.write_bytes(held)


def test_failures_are_repeated_with_growing_pauses_and_not_forever(fresh: World) -> None:
    graph = fresh.defs.resolve_asset_graph()
    (one,) = [replace(found, attempts=3) for found in _due(fresh)]
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


def _due(world: World) -> list[Any]:
    file = Path(world.lake.uri) / world.lake.manifest(table("clean/prices"), (DAYS[1],)).file  # type: ignore[union-attr]
    held = file.read_bytes()
    file.unlink()
    try:
        return UpdatePlan(world.defs.resolve_asset_graph(), world.lake, world.instance).due()
    finally:
        file.write_bytes(held)


def test_only_what_costs_nothing_or_is_named_runs_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_MODELS", "paid")
    settings.cache_clear()
    monkeypatch.setattr("bellwether.forecasting.competitors", lambda *_: {"free": None, "paid": None})
    agents = {"rule": SimpleNamespace(language_model=None), "trader": SimpleNamespace(language_model="paid")}
    monkeypatch.setattr("bellwether.replay.registry.competitors", lambda *_: agents)
    now = datetime.now(UTC)
    new, old = (cast("Any", SimpleNamespace(written_at=now - timedelta(days=days))) for days in (1, 30))
    asked = automatic({("r",): new, ("s",): old, ("r@20",): new})
    assert asked == [("r", "free"), ("r", "paid"), ("s", "free")], (
        "nothing is bought for older releases; the first 20 are answered on request"
    )
    assert automatic_agents({("e",): new, ("f",): old}) == [("e", "rule"), ("e", "trader"), ("f", "rule")]
    settings.cache_clear()


def test_neighbouring_days_are_one_span_of_bounded_length() -> None:
    days = ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-05", "2026-03-04", "2026-03-10"]
    assert group_days(days) == [("2026-02-27", "2026-03-01"), ("2026-03-04", "2026-03-05"), ("2026-03-10", "2026-03-10")]
    assert group_days(days, most=2) == [
        ("2026-02-27", "2026-02-28"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-04", "2026-03-05"),
        ("2026-03-10", "2026-03-10"),
    ]
    assert group_days(["2026-03-01", "2026-03-08"], step=timedelta(days=7)) == [("2026-03-01", "2026-03-08")]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"run_id": "one"}, "one"),
        ({"run_id": "two", "root_run_id": "one", "parent_run_id": "one"}, "one"),
        ({"run_id": "two", "tags": {"dagster/backfill": "many"}}, "many"),
        ({"run_id": "two", "root_run_id": "one", "parent_run_id": "one", "tags": {"bellwether/paid_by": "divided"}}, "divided"),
    ],
)
def test_runs_of_a_backfill_or_of_divided_work_and_repetitions_of_a_run_share_a_budget(run: dict[str, Any], expected: str) -> None:
    from resources.models import payer

    assert payer(dg.DagsterRun(job_name="evaluate", **run)) == expected
