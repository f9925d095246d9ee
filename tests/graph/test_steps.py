"""Runs over several partitions: a failed partition neither loses nor stops the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from assets.raw import runs
from bellwether import checks
from bellwether.checks import CheckOutcome
from bellwether.errors import BellwetherError, QualityError
from bellwether.forecasting import forecaster
from bellwether.tables import table
from orchestration.asset_declarations import key
from orchestration.partitions import PARTITION, RANGE_END, RANGE_START, partition_keys
from orchestration.runner import RunFailed
from orchestration.steps import failure_reason, failure_reasons
from tests.demo_home import RELEASE, World, open_world, selected
from tests.graph.worlds import DAYS, execute, home_with_questions, manifest

BASELINES = ("always-half", "market-1h", "market-24h")
FAILING = "market-1h"
PAIRS = [f"{name}|{RELEASE}" for name in BASELINES]
TABLES = ("benchmark/forecasts", "benchmark/scores")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A home with the questions of a release and nothing else."""
    with home_with_questions(tmp_path, RELEASE, *BASELINES, count=6) as found:
        yield found


def evaluate(world: World, *assets: str) -> dg.ExecuteInProcessResult:
    return execute(world, "evaluate", *assets, tags={RANGE_START: PAIRS[0], RANGE_END: PAIRS[-1]})


def written_by(world: World, name: str, run_id: str) -> set[str]:
    return {partition[1] for partition, made in world.lake.manifests(table(name)).items() if made.run_id == run_id}


def materialized(result: dg.ExecuteInProcessResult, name: str) -> list[str | None]:
    return sorted(str(event.partition) for event in result.get_asset_materialization_events() if event.asset_key == key(name))


@pytest.mark.parametrize("names", [TABLES[:1], pytest.param(TABLES, marks=pytest.mark.nightly)])
def test_one_run_makes_all_pairs_with_one_result_per_rule(world: World, names: tuple[str, ...]) -> None:
    result = evaluate(world, *names)
    assert result.success
    for name in names:
        assert materialized(result, name) == PAIRS
        assert written_by(world, name, result.run_id) == set(BASELINES)
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
    result = evaluate(world, "benchmark/forecasts")
    assert not result.success
    others = {name for name in BASELINES if name != FAILING}
    assert written_by(world, "benchmark/forecasts", result.run_id) == others
    assert materialized(result, "benchmark/forecasts") == sorted(f"{name}|{RELEASE}" for name in others)
    (failure,) = result.get_step_failure_events()
    assert failure_reasons(failure) == {f"{FAILING}|{RELEASE}": "no such luck"}


class Work:
    """Runner whose runs fail for one day, with or without a reason for it."""

    def __init__(self, bad: str, *, is_named: bool) -> None:
        self.bad, self.is_named = bad, is_named
        self.launched: list[list[str]] = []

    def run_ranges(self, job: Any, name: str, days: list[str], label: str, config: Any) -> list[tuple[list[str], RunFailed | None]]:
        self.launched.append(days)
        return [(days, self.error() if self.bad in days else None)]

    def error(self) -> RunFailed:
        return RunFailed("break the rule", {self.bad: "break the rule"} if self.is_named else None)


@pytest.mark.parametrize(
    ("is_named", "expected"), [(True, [DAYS[:4], [DAYS[0], *DAYS[2:4]]]), (False, [DAYS[:4], *([day] for day in DAYS[:4])])]
)
def test_a_failed_day_is_left_out_of_its_range_and_the_others_are_repeated(is_named: bool, expected: list[list[str]]) -> None:
    work = Work(DAYS[1], is_named=is_named)
    failed = runs._run_days(work, DAYS[:4], {})  # type: ignore[arg-type]
    assert failed == {DAYS[1]: "break the rule"}
    assert work.launched == expected


@pytest.mark.nightly
def test_a_blocking_check_stops_its_day_and_not_the_range(demo_copy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, validate = DAYS[1], checks.validate

    def strict(declared: Any, frame: pl.DataFrame, rules: Any) -> Any:
        outcomes = validate(declared, frame, rules)
        if declared.name != "raw/kalshi_markets" or bad not in {str(day) for day in frame["day"]}:
            return outcomes
        return [replace(found, passed=not found.blocking and found.passed, failing_rows=1) for found in outcomes]

    before = {day: manifest(demo_copy, "clean/markets", day) for day in DAYS[:3]}
    monkeypatch.setattr(checks, "validate", strict)
    monkeypatch.setattr("orchestration.checks.columns_read", lambda declared, rules: declared.names)
    work = demo_copy.runner()
    failed = runs._run_days(work, list(DAYS[:3]), {})
    assert set(failed) == {bad} and "break the rule" in failed[bad]
    assert [day for day in DAYS[:3] if before[day] == manifest(demo_copy, "clean/markets", day)] == [bad]
    assert work.stats.runs == 3, "the range, and the days before and after"


def test_a_blocking_check_stops_before_the_next_table_and_a_crash_is_no_result(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for passed, crashed in ((False, ""), (None, "ZeroDivisionError")):

        def validate(declared: Any, frame: pl.DataFrame, rules: Any, passed: Any = passed, crashed: str = crashed) -> Any:
            return [CheckOutcome(rule.name, rule.description, True, passed, frame.height, frame.height, crashed=crashed) for rule in rules]

        monkeypatch.setattr(checks, "validate", validate)
        result = execute(world, "evaluate", *TABLES, partition_key=PAIRS[0])
        assert not result.success
        assert [event.step_key for event in result.get_step_failure_events()] == ["check_benchmark_forecasts"]
        assert bool(result.get_asset_check_evaluations()) is (crashed == "")
        assert world.lake.manifests(table("benchmark/forecasts")) and not world.lake.manifests(table("benchmark/scores"))


@pytest.mark.nightly
def test_a_day_before_the_archive_is_pulled_is_an_error_that_names_it(tmp_path: Path) -> None:
    with selected(tmp_path):
        world = open_world(tmp_path)
        with world.instance, pytest.raises(RunFailed, match=r"bellwether pull \S+ --archive"):
            runs.pull_days(world.runner(), world.config.first_day.date(), world.config.first_day.date())


TWO = dg.DailyPartitionsDefinition("2026-06-29", end_date="2026-07-01")


@dg.asset(partitions_def=TWO, retry_policy=dg.RetryPolicy(max_retries=2, delay=600), backfill_policy=dg.BackfillPolicy.single_run())
def pulls(context) -> dg.MaterializeResult:  # type: ignore[no-untyped-def]
    return dg.MaterializeResult(metadata={"days": ", ".join(partition_keys(context))})


@pytest.mark.parametrize("tags", [{PARTITION: "2026-07-01"}, {RANGE_START: "2026-06-30", RANGE_END: "2026-07-01"}])
def test_an_unknown_day_ends_a_run_at_once_with_the_existing_days(tags: dict[str, str]) -> None:
    job = dg.Definitions([pulls], jobs=[dg.define_asset_job("days", [pulls])]).resolve_job_def("days")
    result = job.execute_in_process(tags=tags, raise_on_error=False)
    (failure,) = result.get_step_failure_events()
    assert failure_reason(failure) == "unknown partition 2026-07-01; existing ones: 2026-06-29 to 2026-06-30"
    assert not [event for event in result.all_events if event.is_step_up_for_retry]
