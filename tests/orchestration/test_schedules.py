"""Which days the daily pull asks for."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from bellwether.lake import Lake
from bellwether.tables.raw import KALSHI_PULLS, POLYMARKET_PULLS
from orchestration.definitions import build_defs
from orchestration.schedules import daily_pull, days_to_pull, waiting_days, weekly_series
from resources import LakeResource

TODAY = date(2026, 3, 10)
KNOWN = datetime(2026, 3, 9, 12, tzinfo=UTC)


def _pull(day: date, *, final: bool) -> dict[str, object]:
    return {"day": day, "pull": "0001", "final": final, "requests": 1, "started_at": KNOWN, "finished_at": KNOWN, "known_at": KNOWN}


@pytest.fixture
def lake(tmp_path: Path) -> LakeResource:
    """8 March is final, 7 March is not on Polymarket, 6 March is not on Kalshi, 1 January is too old to be asked for again."""
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
    """What the schedule yields when its clock strikes at `at`."""
    return list(daily_pull(dg.build_schedule_context(scheduled_execution_time=at), lake=lake))  # type: ignore[call-overload]


def test_a_quiet_day_pulls_yesterday_only() -> None:
    assert days_to_pull(TODAY, ()) == [date(2026, 3, 9)]


def test_days_that_are_not_final_are_pulled_again_until_patience_ends() -> None:
    waiting = {date(2026, 3, 1), date(2025, 12, 1), TODAY}
    assert days_to_pull(TODAY, waiting) == [date(2026, 3, 1), date(2026, 3, 9)]


def test_a_day_waits_when_the_pull_of_either_venue_was_not_final(lake: LakeResource) -> None:
    assert waiting_days(lake, TODAY) == {date(2026, 3, 6), date(2026, 3, 7)}


def test_a_tick_requests_one_run_per_day(lake: LakeResource) -> None:
    requests = [request for request in tick(datetime(2026, 3, 10, 1, 20, tzinfo=UTC), lake) if isinstance(request, dg.RunRequest)]
    assert [request.partition_key for request in requests] == ["2026-03-06", "2026-03-07", "2026-03-09"]
    assert len({request.run_key for request in requests}) == 3


def test_the_weekly_list_of_series_asks_the_venue_again() -> None:
    request = weekly_series(dg.build_schedule_context(scheduled_execution_time=datetime(2026, 3, 9, 0, 40, tzinfo=UTC)))
    assert isinstance(request, dg.RunRequest)
    job = build_defs().resolve_job_def("series")
    assert dg.validate_run_config(job, request.run_config)["ops"]["raw__kalshi_series"]["config"] == {"refresh": True}


def test_a_tick_after_the_sandboxs_present_is_skipped(lake: LakeResource) -> None:
    (skipped,) = tick(datetime(2026, 11, 20, 1, 20, tzinfo=UTC), lake)
    assert isinstance(skipped, dg.SkipReason)
    assert "2026-11-19" in skipped.skip_message
