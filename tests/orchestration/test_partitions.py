"""A run for a partition that does not exist ends at once, and says which there are."""

from datetime import timedelta

import dagster as dg
import pytest

from assets.arena.partitions import weekly_partitions
from bellwether.arena.identity import week_of
from bellwether.settings import settings
from orchestration.partitions import PARTITION, RANGE_END, RANGE_START, daily_partitions, keys_of
from orchestration.steps import reason

TWO = dg.DailyPartitionsDefinition("2026-06-29", end_date="2026-07-01")


@dg.asset(partitions_def=TWO, retry_policy=dg.RetryPolicy(max_retries=2, delay=600), backfill_policy=dg.BackfillPolicy.single_run())
def pulls(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"days": ", ".join(keys_of(context))})


def run(**tags: str) -> dg.ExecuteInProcessResult:
    job = dg.Definitions([pulls], jobs=[dg.define_asset_job("days", [pulls])]).resolve_job_def("days")
    return job.execute_in_process(tags=tags, raise_on_error=False)


@pytest.mark.parametrize("tags", [{PARTITION: "2026-07-01"}, {RANGE_START: "2026-06-30", RANGE_END: "2026-07-01"}])
def test_a_day_that_does_not_exist_is_said_at_once_with_those_that_do(tags: dict[str, str]) -> None:
    (failure,) = [event for event in run(**tags).all_events if event.is_step_failure]
    assert reason(failure) == "no such partition: 2026-07-01; there are 2026-06-29 to 2026-06-30"
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
