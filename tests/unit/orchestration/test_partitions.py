"""Division of partitions into ranges and runs, the end of the sandbox's partitions, and the number of concurrent runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.arena.partitions import weekly_partitions
from bellwether.arena.identity import week_of
from bellwether.settings import settings
from orchestration.home import settings_file
from orchestration.partitions import (
    RANGE_END,
    RANGE_START,
    daily_partitions,
    group_days,
    group_keys,
    keys_between,
    keys_from_tags,
    keys_per_run,
)
from orchestration.run_priority import AUTOMATION, LAUNCHED_BY, runs_at_once


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


def test_consecutive_days_are_ranges_of_bounded_length() -> None:
    days = ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-05", "2026-03-04", "2026-03-10"]
    assert group_days(days) == [("2026-02-27", "2026-03-01"), ("2026-03-04", "2026-03-05"), ("2026-03-10", "2026-03-10")]
    assert group_days(days, most=2) == [
        ("2026-02-27", "2026-02-28"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-04", "2026-03-05"),
        ("2026-03-10", "2026-03-10"),
    ]
    assert group_days(["2026-03-01", "2026-03-08"], step=timedelta(days=7)) == [("2026-03-01", "2026-03-08")]


def test_one_slot_is_left_for_a_run_that_a_user_launches() -> None:
    assert {processors: runs_at_once(processors) for processors in (1, 2, 8)} == {1: (3, 1), 2: (3, 1), 8: (9, 7)}


def test_the_settings_of_a_new_home_fit_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestration.home.runs_at_once", lambda: (6, 5))
    written = yaml.safe_load(settings_file())
    written.pop("event_log_storage")  # is below DAGSTER_HOME, which this instance lacks
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(written))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        config = instance.get_concurrency_config().run_queue_config
        assert config is not None
        assert config.max_concurrent_runs == 6
        assert config.tag_concurrency_limits == [{"key": LAUNCHED_BY, "value": AUTOMATION, "limit": 5}]
