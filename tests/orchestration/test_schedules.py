"""Days requested by the daily pull."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.venues.schedules import CLOCK, PATIENCE, daily_pull, days_to_pull, final_days, followed_days, old_days, weekly_series
from bellwether.lake import Lake
from bellwether.settings import Venue
from bellwether.tables.raw import KALSHI_PULLS, KALSHI_SERIES, POLYMARKET_PULLS
from orchestration.definitions import build_defs
from resources import LakeResource
from tests.orchestration.conftest import open_world

TODAY = date(2026, 3, 10)
KNOWN = datetime(2026, 3, 9, 12, tzinfo=UTC)


def _pull(day: date, *, final: bool) -> dict[str, object]:
    return {"day": day, "pull": "0001", "final": final, "requests": 1, "started_at": KNOWN, "finished_at": KNOWN, "known_at": KNOWN}


@pytest.fixture
def lake(tmp_path: Path) -> LakeResource:
    """8 March is final, 7 March is missing on Polymarket, 6 March is missing on Kalshi, and 1 January is too old to be pulled again."""
    store = Lake(str(tmp_path / "lake"))
    finals = {
        KALSHI_PULLS: {date(2026, 3, 8): True, date(2026, 3, 7): True, date(2026, 3, 6): False, date(2026, 1, 1): False},
        POLYMARKET_PULLS: {date(2026, 3, 8): True, date(2026, 3, 7): False},
    }
    for declared, days in finals.items():
        for day, final in days.items():
            store.write(declared, (day.isoformat(),), declared.frame([_pull(day, final=final)]), run_id="run")
    return LakeResource(uri=str(tmp_path / "lake"))


def tick(at: datetime, lake: LakeResource) -> list[dg.RunRequest | dg.SkipReason]:
    """Return the requests of the schedule at `at`."""
    with dg.instance_for_test() as instance, dg.build_schedule_context(instance=instance, scheduled_execution_time=at) as context:
        return list(daily_pull(context, lake=lake))  # type: ignore[call-overload]


def test_at_first_yesterday_alone_is_pulled() -> None:
    assert days_to_pull(TODAY, (), ()) == [date(2026, 3, 9)]


def test_every_day_since_the_first_that_is_not_final_is_due_until_patience_ends() -> None:
    followed = {date(2025, 12, 1), date(2026, 3, 4), TODAY}
    due = days_to_pull(TODAY, {date(2026, 3, 5), date(2026, 3, 7)}, followed)
    assert due[0] == TODAY - PATIENCE
    assert {date(2026, 3, 4), date(2026, 3, 6), date(2026, 3, 8), date(2026, 3, 9)} <= set(due)
    assert not {date(2026, 3, 5), date(2026, 3, 7), TODAY} & set(due)


def test_a_day_is_final_when_the_pulls_of_all_venues_were(lake: LakeResource) -> None:
    assert final_days(lake, TODAY, tuple(Venue)) == {date(2026, 3, 8)}
    assert final_days(lake, TODAY, (Venue.KALSHI,)) == {date(2026, 3, 8), date(2026, 3, 7)}


def test_days_without_a_record_of_a_pull_are_due_too(lake: LakeResource) -> None:
    """There is no record after an outage or a failed pull."""
    (store := lake.lake).write(KALSHI_PULLS, ("2026-03-02",), KALSHI_PULLS.frame([_pull(date(2026, 3, 2), final=True)]), run_id="run")
    store.write(POLYMARKET_PULLS, ("2026-03-02",), POLYMARKET_PULLS.frame([_pull(date(2026, 3, 2), final=True)]), run_id="run")
    requests = [request for request in tick(datetime(2026, 3, 10, 1, 20, tzinfo=UTC), lake) if isinstance(request, dg.RunRequest)]
    assert [request.partition_key for request in requests] == [f"2026-03-0{day}" for day in (3, 4, 5, 6, 7, 9)]
    assert len({request.run_key for request in requests}) == 6


def test_a_day_whose_first_pull_failed_is_asked_for_again(tmp_path: Path) -> None:
    empty = LakeResource(uri=str(tmp_path / "empty"))
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs().resolve_job_def("days")
        instance.create_run_for_job(job, tags={**CLOCK, "dagster/partition": "2026-03-07"}, status=dg.DagsterRunStatus.FAILURE)
        asked = followed_days(empty, instance, TODAY)
    assert days_to_pull(TODAY, (), asked) == [date(2026, 3, day) for day in (7, 8, 9)]


def test_the_first_day_refreshes_a_list_of_series_that_is_late(tmp_path: Path) -> None:
    at = datetime(2026, 3, 10, 1, 20, tzinfo=UTC)
    lake = LakeResource(uri=str(tmp_path / "lake"))
    for day in (5, 6):
        Lake(lake.uri).write(
            POLYMARKET_PULLS, (f"2026-03-0{day}",), POLYMARKET_PULLS.frame([_pull(date(2026, 3, day), final=False)]), run_id="r"
        )
    refreshed = {}
    for age in (7, 9):
        Lake(lake.uri, clock=lambda age=age: at - timedelta(days=age)).write(KALSHI_SERIES, (), KALSHI_SERIES.empty(), run_id="r")
        refreshed[age] = ["raw__kalshi_series" in one.run_config["ops"] for one in tick(at, lake) if isinstance(one, dg.RunRequest)]
    assert refreshed == {7: [False] * 5, 9: [True, *[False] * 4]}


@pytest.mark.slow
def test_the_first_daily_pull_of_a_fresh_home_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = open_world(tmp_path)
    at = datetime(2026, 7, 1, 1, 20, tzinfo=UTC)
    (request,) = tick(at, LakeResource(uri=world.lake.uri))
    assert isinstance(request, dg.RunRequest)
    done = world.defs.resolve_job_def("daily").execute_in_process(
        instance=world.instance, partition_key=request.partition_key, run_config=request.run_config
    )
    assert done.success
    assert world.lake.manifest(KALSHI_SERIES, ()) is not None


def test_what_stays_open_beyond_patience_is_looked_at_once_a_week(lake: LakeResource) -> None:
    days = [date(2026, 3, day) for day in range(1, 32)]
    asked = {day: old_days(lake, day, tuple(Venue)) for day in days}
    assert [day for day in days if asked[day]] == [date(2026, 3, day) for day in (5, 12, 19, 26)]
    assert asked[date(2026, 3, 5)] == [date(2026, 1, 1)]
    assert old_days(lake, date(2029, 1, 1), tuple(Venue)) == []
    assert old_days(lake, date(2026, 3, 5), (Venue.POLYMARKET,)) == []


def test_the_weekly_list_of_series_asks_the_venue_again() -> None:
    request = weekly_series(dg.build_schedule_context(scheduled_execution_time=datetime(2026, 3, 9, 0, 40, tzinfo=UTC)))
    assert isinstance(request, dg.RunRequest)
    job = build_defs().resolve_job_def("series")
    assert dg.validate_run_config(job, request.run_config)["ops"]["raw__kalshi_series"]["config"] == {"refresh": True}


def test_a_tick_after_the_sandboxs_present_is_skipped(lake: LakeResource) -> None:
    (skipped,) = tick(datetime(2026, 11, 20, 1, 20, tzinfo=UTC), lake)
    assert isinstance(skipped, dg.SkipReason)
    assert "2026-11-19" in skipped.skip_message
