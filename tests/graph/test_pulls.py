"""Pulls of days: which days the clock requests, rejected objects as rows and messages, and answers that replace nothing newer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import httpx
import pytest
from click.testing import CliRunner, Result

from assets.raw import runs
from assets.raw.assets import _require_newer, kalshi_series, select_rows
from assets.raw.jobs import CLOCK, PATIENCE, days_to_pull, final_days, followed_days, old_days, pull_days, pull_series
from bellwether.console import Silent
from bellwether.errors import QualityError
from bellwether.lake import Lake
from bellwether.sandbox.server import serve
from bellwether.settings import Settings, Venue, settings
from bellwether.tables import table
from bellwether.tables.raw import KALSHI_MARKETS, KALSHI_PULLS, KALSHI_REJECTS, KALSHI_SERIES, POLYMARKET_PULLS
from bellwether.venues.kalshi.wire import parse_markets, parse_series
from bellwether.venues.wire.rejects import Origin, ParsedRecords
from cli.main import main
from orchestration.definitions import build_defs
from orchestration.runner import RunStats
from resources import LakeResource
from resources.io_manager import Unchanged
from tests.demo_home import open_world
from tests.faulty_server import app_of
from tests.unit.venues.venue import answer
from tests.unit.venues.wire_objects import DAY, ORIGIN, market
from tests.unit.venues.world import World

TODAY = date(2026, 3, 10)
KNOWN = datetime(2026, 3, 9, 12, tzinfo=UTC)


# Days of the clock


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
        return list(pull_days(context, lake=lake))  # type: ignore[call-overload]


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


def test_what_stays_open_beyond_patience_is_looked_at_once_a_week(lake: LakeResource) -> None:
    days = [date(2026, 3, day) for day in range(1, 32)]
    asked = {day: old_days(lake, day, tuple(Venue)) for day in days}
    assert [day for day in days if asked[day]] == [date(2026, 3, day) for day in (5, 12, 19, 26)]
    assert asked[date(2026, 3, 5)] == [date(2026, 1, 1)]
    assert old_days(lake, date(2029, 1, 1), tuple(Venue)) == []
    assert old_days(lake, date(2026, 3, 5), (Venue.POLYMARKET,)) == []


def test_the_weekly_list_of_series_asks_the_venue_again() -> None:
    request = pull_series(dg.build_schedule_context(scheduled_execution_time=datetime(2026, 3, 9, 0, 40, tzinfo=UTC)))
    assert isinstance(request, dg.RunRequest)
    job = build_defs().resolve_job_def("series")
    assert dg.validate_run_config(job, request.run_config)["ops"]["raw__kalshi_series"]["config"] == {"refresh": True}


def test_a_tick_after_the_sandboxs_present_is_skipped(lake: LakeResource) -> None:
    (skipped,) = tick(datetime(2026, 11, 20, 1, 20, tzinfo=UTC), lake)
    assert isinstance(skipped, dg.SkipReason)
    assert "2026-11-19" in skipped.skip_message


@pytest.mark.nightly
def test_the_first_daily_pull_of_a_fresh_home_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = open_world(tmp_path)
    at = world.config.now().replace(hour=1, minute=20)
    (request,) = tick(at, LakeResource(uri=world.lake.uri))
    assert isinstance(request, dg.RunRequest)
    done = world.defs.resolve_job_def("daily").execute_in_process(
        instance=world.instance, partition_key=request.partition_key, run_config=request.run_config
    )
    assert done.success
    assert world.lake.manifest(KALSHI_SERIES, ()) is not None


# Rejected objects


def store(lake: Lake, *objects: dict[str, object]) -> None:
    """Store a day of Kalshi from these objects."""
    parsed = parse_markets(list(objects), ORIGIN, day=DAY)
    for declared, rows in ((KALSHI_MARKETS, parsed.rows), (KALSHI_REJECTS, parsed.rejects)):
        lake.write(declared, (DAY.isoformat(),), rows, run_id="run")


def test_rejects_are_counted_by_reason_and_told_with_what_becomes_of_them(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    store(lake, market("A"), market("B", result=""), market("C", result=""), market("D", floor_strike="52.5"))
    found = runs.count_rejects(lake, DAY, DAY)
    assert runs.format_rejects(found) == [
        "2 of raw/kalshi_markets, result: a settled market without a result; requested again by the daily pull",
        "1 of raw/kalshi_markets, floor_strike: not a number; permanent",
    ]
    runs.require_rows(lake, found)
    assert runs.count_rejects(lake, date(2026, 3, 1), date(2026, 3, 2)).is_empty()


def test_a_day_of_rejects_alone_is_an_error_that_names_the_reason(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    store(lake, market("B", result=""), market("C", floor_strike="52.5"), market("D", floor_strike="52.5"))
    with pytest.raises(QualityError, match=r"2026-03-14: all 3 market objects of kalshi were rejected, most .+floor_strike: not a number"):
        runs.require_rows(lake, runs.count_rejects(lake, DAY, DAY))


def test_the_command_pulls_days_that_were_not_final_once_the_clock_has_moved(lake: LakeResource, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 March is final. The venues dated the pulls of the other days with 9 March 12:00, in whole seconds."""
    wanted = [f"2026-03-0{day}" for day in (6, 7, 8)]
    fresh = SimpleNamespace(find_outdated=lambda *_, **__: set())
    work = SimpleNamespace(lake=lake.lake, state=lambda: fresh, due=lambda *_: [])
    found = {}
    for now in (KNOWN, KNOWN + timedelta(seconds=0.9), KNOWN + timedelta(seconds=1), KNOWN + timedelta(days=60)):
        monkeypatch.setattr(runs, "settings", lambda now=now: Settings(sandbox_now=now))
        found[now - KNOWN] = runs._outdated_days(work, wanted)  # type: ignore[arg-type]
    assert list(found.values()) == [[], [], wanted[:2], wanted[:2]]


def test_failed_days_are_counted_among_all_days_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_outdated_days", lambda work, wanted: wanted[-2:])
    monkeypatch.setattr(runs, "_run_days", lambda work, due, config: {due[0]: "HTTP 403"})
    work = SimpleNamespace(stats=RunStats(), progress=Silent())
    with pytest.raises(runs.DaysFailed, match="1 of 5 days failed; the others are stored:\n  2026-03-04: HTTP 403"):
        runs.pull_days(work, date(2026, 3, 1), date(2026, 3, 5))  # type: ignore[arg-type]


# Rows of raw tables


def pulled(parsed: ParsedRecords) -> SimpleNamespace:
    """Return a pull of one page of a listing."""

    def rows() -> Iterator[Any]:
        yield parsed.rows

    pull = SimpleNamespace(folder="raw/kalshi_pages/series/all/0001")
    return SimpleNamespace(series=rows, markets=rows, rejects=lambda: parsed.rejects, pull=pull, requests=1)


def test_series_that_do_not_fit_are_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Origin("GET /series", 0, datetime(2026, 3, 20, tzinfo=UTC))
    found = parse_series([{"ticker": "KXONE", "title": "One"}, {"title": "without a ticker"}], origin)
    monkeypatch.setattr("resources.venues.KalshiVenue.run", lambda venue, work: pulled(found))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([kalshi_series], instance=instance, resources=build_defs(config=Settings(home=tmp_path)).resources)
    assert result.success
    lake = Lake(Settings(home=tmp_path).lake_uri)
    assert lake.slice(table("raw/kalshi_series")).read()["series_ticker"].to_list() == ["KXONE"]
    (told,) = lake.slice(table("raw/kalshi_series_rejects")).read().iter_rows(named=True)
    assert (told["day"], told["table"], told["body"]) == (date(2026, 3, 20), "raw/kalshi_series", '{"title":"without a ticker"}')


def test_markets_of_the_archive_that_do_not_fit_are_rows_before_any_day_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, whole = Origin("GET /historical/markets", 0, datetime(2026, 3, 20, tzinfo=UTC)), market("KXONE-1")
    objects = [whole, {**whole, "ticker": "KXONE-2", "volume_fp": "many"}]
    found = parse_markets(objects, origin, day=date(2026, 3, 20), table=table("raw/kalshi_archive"))
    monkeypatch.setattr("resources.venues.KalshiVenue.run", lambda venue, work: pulled(found))
    with dg.DagsterInstance.ephemeral() as instance:
        defs = build_defs(config=Settings(home=tmp_path))
        result = defs.resolve_job_def("archive").execute_in_process(instance=instance)
    assert result.success
    lake = Lake(Settings(home=tmp_path).lake_uri)
    assert lake.slice(table("raw/kalshi_archive")).read()["ticker"].to_list() == ["KXONE-1"]
    (told,) = lake.slice(table("raw/kalshi_archive_rejects")).read().iter_rows(named=True)
    assert (told["record_id"], told["table"], told["field"], told["value"]) == ("KXONE-2", "raw/kalshi_archive", "volume_fp", "many")
    assert json.loads(told["body"])["ticker"] == "KXONE-2"
    (check,) = (one for one in result.get_asset_check_evaluations() if one.check_name == "few_rejects")
    assert check.passed


class Followed:
    """A pull of a day, with the number of its base where it only followed open markets."""

    day = DAY

    def __init__(self, base: object) -> None:
        self.pull = SimpleNamespace(base=base)

    def markets(self) -> str:
        return "markets"

    def prices(self) -> str:
        return "candles"


def test_what_following_cannot_change_is_left_as_it_is(tmp_path: Path) -> None:
    lake, candles, markets = Lake(str(tmp_path)), "raw/kalshi_candles", "raw/kalshi_markets"
    assert select_rows(lake, candles, "prices", Followed("0001")) == "candles", "the lake has none"
    manifest = lake.write(table(candles), (DAY.isoformat(),), table(candles).empty(), run_id="run")
    assert isinstance(select_rows(lake, candles, "prices", Followed("0001")), Unchanged)
    assert select_rows(lake, candles, "prices", Followed(None)) == "candles", "the day was pulled as a whole"
    assert select_rows(lake, markets, "markets", Followed("0001")) == "markets"
    lake.storage.delete(manifest.file)
    assert select_rows(lake, candles, "prices", Followed("0001")) == "candles", "what the lake has lost is restored"


def test_an_answer_older_than_the_stored_one_is_refused(tmp_path: Path) -> None:
    lake, day = Lake(str(tmp_path)), DAY.isoformat()
    lake.write(KALSHI_PULLS, (day,), KALSHI_PULLS.frame([_pull(DAY, final=True)]), run_id="run")

    def require(known_at: datetime) -> None:
        rows = KALSHI_PULLS.frame([{**_pull(DAY, final=True), "known_at": known_at}])
        _require_newer(lake, KALSHI_PULLS, {day: SimpleNamespace(pulls=lambda: rows)})

    for later in (timedelta(0), timedelta(microseconds=1)):
        require(KNOWN + later)
    with pytest.raises(dg.Failure) as refused:
        require(KNOWN - timedelta(microseconds=1))
    assert not refused.value.allow_retries


# Commands against a live venue


@pytest.fixture
def venue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """A live Kalshi on a local port, and a separate home."""
    world = World(cutoff="2020-01-01T00:00:00Z", page_size=100)

    def respond(request: httpx.Request) -> httpx.Response:
        return answer({"exchange_active": True}) if request.url.path.endswith("/exchange/status") else world(request)

    with serve(app_of({"kalshi": respond})) as site:
        monkeypatch.setenv("BELLWETHER_WORLD", "live")
        monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
        monkeypatch.setenv("BELLWETHER_VENUES", "kalshi")
        monkeypatch.setenv("BELLWETHER_KALSHI_URL", f"{site.root}/kalshi/trade-api/v2")
        settings.cache_clear()
        monkeypatch.setenv("DAGSTER_HOME", str(settings().dagster_home))
        monkeypatch.setattr("orchestration.definitions.defs", build_defs(config=settings()))
        yield world
        settings.cache_clear()


def pull(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pull", *arguments])
