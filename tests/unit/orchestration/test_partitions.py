"""A run for an unknown partition ends at once, and lists the existing ones."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.arena.partitions import weekly_partitions
from bellwether.arena.identity import week_of
from bellwether.settings import settings
from orchestration.partitions import (
    PARTITION,
    RANGE_END,
    RANGE_START,
    daily_partitions,
    group_keys,
    keys_between,
    keys_from_tags,
    keys_per_run,
    partition_keys,
)
from orchestration.steps import failure_reason

ROOT = Path(__file__).resolve().parents[2]
TWO = dg.DailyPartitionsDefinition("2026-06-29", end_date="2026-07-01")


@dg.asset(partitions_def=TWO, retry_policy=dg.RetryPolicy(max_retries=2, delay=600), backfill_policy=dg.BackfillPolicy.single_run())
def pulls(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"days": ", ".join(partition_keys(context))})


def run(**tags: str) -> dg.ExecuteInProcessResult:
    job = dg.Definitions([pulls], jobs=[dg.define_asset_job("days", [pulls])]).resolve_job_def("days")
    return job.execute_in_process(tags=tags, raise_on_error=False)


@pytest.mark.parametrize("tags", [{PARTITION: "2026-07-01"}, {RANGE_START: "2026-06-30", RANGE_END: "2026-07-01"}])
def test_a_day_that_does_not_exist_is_said_at_once_with_those_that_do(tags: dict[str, str]) -> None:
    (failure,) = [event for event in run(**tags).all_events if event.is_step_failure]
    assert failure_reason(failure) == "unknown partition 2026-07-01; existing ones: 2026-06-29 to 2026-06-30"
    assert not [event for event in run(**tags).all_events if event.is_step_up_for_retry]


@pytest.mark.parametrize("now", ["2026-03-04T12:00:00Z", "2031-05-07T00:20:00Z"])
def test_the_sandboxs_partitions_end_with_its_clock_also_where_that_is_ahead(monkeypatch: pytest.MonkeyPatch, now: str) -> None:
    monkeypatch.setenv("BELLWETHER_SANDBOX_NOW", now)
    settings.cache_clear()
    try:
        today = settings().now().date()
        assert daily_partitions().get_last_partition_key() == (today - timedelta(days=1)).isoformat()
        assert weekly_partitions().get_last_partition_key() == week_of(settings().now()).isoformat()
    finally:
        settings.cache_clear()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Set the number of workers of a fleet. 0 is one machine."""

    def choose(count: int) -> None:
        if count:
            monkeypatch.setenv("BELLWETHER_FLEET", "celery")
            monkeypatch.setenv("BELLWETHER_WORKERS", str(count))
        settings.cache_clear()

    yield choose
    settings.cache_clear()


@pytest.mark.parametrize(("count", "expected"), [(0, [60]), (1, [30, 30]), (2, [15] * 4), (3, [10] * 6), (40, [1] * 60)])
def test_days_are_divided_evenly_among_two_runs_per_worker(workers: Callable[[int], None], count: int, expected: list[int]) -> None:
    workers(count)
    definition = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-04-01")
    days = list(definition.get_partition_keys())[10:70]
    with dg.DagsterInstance.ephemeral() as instance:
        found = group_keys(definition, days, instance)
        assert [len(part) for part in found] == expected
        assert [day for part in found for day in part] == days
        assert len(group_keys(definition, days[:10], instance)) == {0: 1, 1: 2, 2: 4, 3: 5, 40: 10}[count]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_rectangles_are_divided_into_rectangles(workers: Callable[[int], None], count: int) -> None:
    workers(count)
    agents, episodes = (dg.StaticPartitionsDefinition([f"{letter}{number:02}" for number in range(12)]) for letter in "ae")
    pairs = dg.MultiPartitionsDefinition({"agent": agents, "episode": episodes})
    wanted = [f"a{one:02}|e{two:02}" for two in (3, 4) for one in range(12)]
    with dg.DagsterInstance.ephemeral() as instance:
        found = group_keys(pairs, wanted, instance)
        assert sorted(key for part in found for key in part) == sorted(wanted)
        assert max(map(len, found)) <= keys_per_run(24)
        assert len(found) == {0: 1, 1: 2, 2: 4, 5: 12}[count]
        for part in found:
            tags = {RANGE_START: part[0], RANGE_END: part[-1]}
            assert keys_from_tags(pairs, tags, instance) == keys_between(pairs, part[0], part[-1], instance) == part


POLICIES = """
from orchestration.definitions import defs
graph = defs.resolve_asset_graph()
for name in ("raw/kalshi_markets", "benchmark/scores", "replay/backtests", "arena/decisions"):
    print(graph.get(dg.AssetKey(name.split("/"))).backfill_policy.max_partitions_per_run)
"""


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [({}, ["100", "None", "None", "None"]), ({"BELLWETHER_FLEET": "celery", "BELLWETHER_WORKERS": "2"}, ["2", "1", "1", "None"])],
)
def test_backfills_of_a_fleet_are_divided_except_for_weeks(tmp_path: Path, chosen: dict[str, str], expected: list[str]) -> None:
    environment = {**os.environ, "BELLWETHER_HOME": str(tmp_path), **chosen}
    code = [sys.executable, "-c", f"import dagster as dg{POLICIES}"]
    out = subprocess.run(code, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert out.split() == expected
