"""Runs over several partitions: a failed partition neither loses nor stops the others."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from assets.venues import runs
from bellwether import checks
from bellwether.errors import BellwetherError, QualityError
from bellwether.forecasting import forecaster
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.asset_declarations import key
from orchestration.partitions import RANGE_END, RANGE_START, group_keys, keys_between
from orchestration.steps import failure_reasons
from tests.orchestration.conftest import FORECASTERS, SILENT, World
from tests.orchestration.test_graph import DAYS

RELEASE = "sandbox-2026"
PAIRS = [f"{name}|{RELEASE}" for name in FORECASTERS]
FAILING = FORECASTERS[1]


@pytest.fixture
def world(evaluated: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("BELLWETHER_HOME", str(evaluated.config.home))
    settings.cache_clear()
    lake, before = evaluated.config.world_home / "lake", tmp_path / "lake"
    shutil.copytree(lake, before)
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=SILENT) as instance:
        instance.add_dynamic_partitions("release", [RELEASE])
        instance.add_dynamic_partitions("forecaster", list(FORECASTERS))
        yield replace(evaluated, instance=instance)
    shutil.rmtree(lake)  # other tests read the same world
    shutil.copytree(before, lake)
    settings.cache_clear()


def evaluate(world: World) -> dg.ExecuteInProcessResult:
    return world.defs.resolve_job_def("evaluate").execute_in_process(
        instance=world.instance, tags={RANGE_START: PAIRS[0], RANGE_END: PAIRS[-1]}, raise_on_error=False
    )


def written_by(world: World, name: str, run_id: str) -> set[str]:
    return {partition[1] for partition, made in world.lake.manifests(table(name)).items() if made.run_id == run_id}


def materialized(result: dg.ExecuteInProcessResult, name: str) -> list[str | None]:
    return sorted(str(event.partition) for event in result.get_asset_materialization_events() if event.asset_key == key(name))


def test_one_run_makes_all_pairs_with_one_result_per_rule(world: World) -> None:
    result = evaluate(world)
    assert result.success
    for name in ("benchmark/forecasts", "benchmark/scores", "benchmark/reliability"):
        assert materialized(result, name) == sorted(PAIRS)
        assert written_by(world, name, result.run_id) == set(FORECASTERS)
    counted = Counter((found.asset_key, found.check_name) for found in result.get_asset_check_evaluations())
    assert counted and set(counted.values()) == {1}


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_pair_that_fails_or_breaks_a_blocking_rule_leaves_the_others_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, is_blocked: bool
) -> None:
    def missing(name: str) -> Any:
        if name == FAILING:
            raise BellwetherError("no such luck")
        return forecaster(name)

    def require(name: str, rows: pl.LazyFrame) -> None:
        if rows.select(pl.col("forecaster").first()).collect().item() == FAILING:
            raise QualityError("no such luck")

    if is_blocked:
        monkeypatch.setattr(checks, "require", require)
    else:
        monkeypatch.setattr("bellwether.forecasting.forecaster", missing)
    result = evaluate(world)
    assert not result.success
    others = set(FORECASTERS) - {FAILING}
    assert written_by(world, "benchmark/forecasts", result.run_id) == others
    assert materialized(result, "benchmark/forecasts") == sorted(f"{name}|{RELEASE}" for name in others)
    (failure,) = (event for event in result.all_events if event.is_step_failure)
    assert failure_reasons(failure) == {f"{FAILING}|{RELEASE}": "no such luck"}


def test_a_blocking_check_stops_its_day_and_not_the_range(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, validate = DAYS[1], checks.validate

    def strict(declared: Any, frame: pl.DataFrame, rules: Any) -> Any:
        outcomes = validate(declared, frame, rules)
        if declared.name != "raw/kalshi_markets" or bad not in {str(day) for day in frame["day"]}:
            return outcomes
        return [replace(found, passed=not found.blocking and found.passed, failing_rows=1) for found in outcomes]

    before = {day: world.lake.manifest(table("clean/markets"), (day,)) for day in DAYS[:3]}
    monkeypatch.setattr(checks, "validate", strict)
    monkeypatch.setattr("orchestration.checks.columns_read", lambda declared, rules: declared.names)
    work = world.runner()
    failed = runs._run_days(work, list(DAYS[:3]), {})
    assert set(failed) == {bad} and "break the rule" in failed[bad]
    after = {day: world.lake.manifest(table("clean/markets"), (day,)) for day in DAYS[:3]}
    assert [day for day in DAYS[:3] if before[day] == after[day]] == [bad]
    assert work.stats.runs == 3, "the range, and what lies before and after the day"


def test_partitions_become_ranges_and_rectangles() -> None:
    letters, numbers = dg.StaticPartitionsDefinition(list("abcd")), dg.StaticPartitionsDefinition(list("123"))
    pairs = dg.MultiPartitionsDefinition({"letter": letters, "number": numbers})
    with dg.DagsterInstance.ephemeral() as instance:
        assert group_keys(letters, "dba", instance) == [["a", "b"], ["d"]]
        found = group_keys(pairs, ["a|1", "b|1", "a|2", "b|2", "d|1", "d|2", "a|3"], instance)
        assert found == [["a|1", "b|1", "a|2", "b|2"], ["d|1", "d|2"], ["a|3"]]
        for group in found:
            assert keys_between(pairs, group[0], group[-1], instance) == group
        assert group_keys(None, [""], instance) == [[""]]
