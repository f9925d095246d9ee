"""Division of partitions into ranges and runs, the end of the sandbox's partitions, and the number of concurrent runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.arena.assets import weekly_partitions
from bellwether.arena.identity import week_of
from bellwether.settings import settings
from orchestration.home import runs_at_once, settings_file
from orchestration.partitions import daily_partitions, group_days, group_keys, keys_between
from orchestration.run_priority import AUTOMATION, LAUNCHED_BY


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


def test_partitions_become_ranges_and_rectangles() -> None:
    letters, numbers = dg.StaticPartitionsDefinition(list("abcd")), dg.StaticPartitionsDefinition(list("123"))
    pairs = dg.MultiPartitionsDefinition({"letter": letters, "number": numbers})
    with dg.DagsterInstance.ephemeral() as instance:
        assert group_keys(letters, "dba", instance) == [["a", "b"], ["d"]]
        assert group_keys(letters, "dcba", instance, dg.BackfillPolicy.multi_run(3)) == [["a", "b", "c"], ["d"]]
        assert group_keys(pairs, ["b|1", "a|1"], instance, dg.BackfillPolicy.multi_run(1)) == [["a|1"], ["b|1"]]
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
