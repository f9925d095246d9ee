"""A run for a partition that does not exist ends at once, and says which there are."""

import dagster as dg
import pytest

from orchestration.partitions import PARTITION, RANGE_END, RANGE_START, keys_of
from orchestration.step_errors import reason

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


def test_days_that_exist_are_the_runs_partitions() -> None:
    (event,) = run(**{PARTITION: "2026-06-30"}).get_asset_materialization_events()[:1]
    assert event.materialization.metadata["days"].value == "2026-06-30"
    found = run(**{RANGE_START: "2026-06-29", RANGE_END: "2026-06-30"}).get_asset_materialization_events()
    assert {one.materialization.metadata["days"].value for one in found} == {"2026-06-29, 2026-06-30"}
