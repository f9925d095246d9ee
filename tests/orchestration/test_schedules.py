"""Which days the daily pull asks for."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from bellwether.lake import Lake
from bellwether.tables import table
from orchestration.definitions import build_defs
from orchestration.schedules import daily_pull, days_to_pull, waiting_markets, weekly_series
from resources import LakeResource

TODAY = date(2026, 3, 10)
KNOWN = datetime(2026, 3, 9, 12, tzinfo=UTC)


def _market(day: date, market_id: str, reason: str | None) -> dict[str, object]:
    return {
        "day": day,
        "venue": "kalshi",
        "market_id": market_id,
        "category": "Politics",
        "is_combo": False,
        "close_time": datetime(day.year, day.month, day.day, 12, tzinfo=UTC),
        "status": "closed" if reason else "settled",
        "outcome": None if reason else "yes",
        "outcome_reason": reason,
        "source": "live",
        "known_at": KNOWN,
    }


@pytest.fixture
def lake(tmp_path: Path) -> LakeResource:
    """8 March is settled, 7 March waits for one outcome, 1 January for one that is too old to ask again."""
    markets = table("clean/markets")
    store = Lake(str(tmp_path / "lake"))
    for day, reasons in ((date(2026, 3, 8), [None]), (date(2026, 3, 7), [None, "undetermined"]), (date(2026, 1, 1), ["disputed"])):
        rows = [_market(day, f"M{index}", reason) for index, reason in enumerate(reasons)]
        store.write(markets, (day.isoformat(),), markets.frame(rows), run_id="run")
    return LakeResource(uri=str(tmp_path / "lake"))


def tick(at: datetime, lake: LakeResource) -> list[dg.RunRequest | dg.SkipReason]:
    """What the schedule yields when its clock strikes at `at`."""
    return list(daily_pull(dg.build_schedule_context(scheduled_execution_time=at), lake=lake))  # type: ignore[call-overload]


def test_a_quiet_day_pulls_yesterday_only() -> None:
    assert days_to_pull(TODAY, {}) == [date(2026, 3, 9)]


def test_days_with_open_outcomes_are_pulled_again_until_patience_ends() -> None:
    waiting = {date(2026, 3, 1): 2, date(2026, 2, 20): 0, date(2025, 12, 1): 5, TODAY: 1}
    assert days_to_pull(TODAY, waiting) == [date(2026, 3, 1), date(2026, 3, 9)]


def test_waiting_markets_are_counted_from_the_clean_table(lake: LakeResource) -> None:
    assert waiting_markets(lake, TODAY) == {date(2026, 3, 7): 1}


def test_a_tick_requests_one_run_per_day(lake: LakeResource) -> None:
    requests = [request for request in tick(datetime(2026, 3, 10, 1, 20, tzinfo=UTC), lake) if isinstance(request, dg.RunRequest)]
    assert [request.partition_key for request in requests] == ["2026-03-07", "2026-03-09"]
    assert len({request.run_key for request in requests}) == 2


def test_the_weekly_list_of_series_asks_the_venue_again() -> None:
    request = weekly_series(dg.build_schedule_context(scheduled_execution_time=datetime(2026, 3, 9, 0, 40, tzinfo=UTC)))
    assert isinstance(request, dg.RunRequest)
    job = build_defs().resolve_job_def("series")
    assert dg.validate_run_config(job, request.run_config)["ops"]["raw__kalshi_series"]["config"] == {"refresh": True}


def test_a_tick_after_the_sandboxs_present_is_skipped(lake: LakeResource) -> None:
    (skipped,) = tick(datetime(2026, 11, 20, 1, 20, tzinfo=UTC), lake)
    assert isinstance(skipped, dg.SkipReason)
    assert "2026-11-19" in skipped.skip_message
