"""The graph in the sandbox, from raw pages to the published leaderboard."""

from __future__ import annotations

import base64
import json
import re
import shutil
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from click.testing import CliRunner

from assets.venues import runs
from assets.warehouse.sensors import publisher
from bellwether.lake.warehouse import query
from bellwether.settings import settings
from bellwether.tables import TABLES, table
from bellwether.tables.benchmark import HORIZONS
from cli.main import main
from orchestration.asset_declarations import key
from orchestration.partitions import RANGE_END, RANGE_START
from resources import LakeResource, WarehouseResource

pytestmark = pytest.mark.slow

from tests.damage import flip_bit  # noqa: E402
from tests.orchestration.conftest import FIRST, FORECASTERS, LAST, World, open_world, run_all  # noqa: E402

DAYS = [(FIRST + timedelta(days=offset)).isoformat() for offset in range((LAST - FIRST).days + 1)]


def files(world: World) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return the SHA-256 of every partition of the lake."""
    return {
        (name, partition): found.sha256 for name, declared in TABLES.items() for partition, found in world.lake.manifests(declared).items()
    }


def test_every_day_has_every_daily_table(evaluated: World) -> None:
    for name in (name for name, declared in TABLES.items() if declared.partitioned_by == ("day",) and not name.startswith("arena/")):
        assert [partition[0] for partition in sorted(evaluated.lake.manifests(table(name)))] == DAYS, name


def test_questions_follow_the_releases_rules(evaluated: World) -> None:
    frame = evaluated.lake.slice(table("benchmark/questions")).read()
    assert frame.height > 50
    assert frame["id"].is_unique().all()
    assert frame["series_ticker"].value_counts()["count"].max() <= 2
    assert (frame["settled_at"] > frame["cutoff"]).all()
    for name, hours in HORIZONS.items():
        assert frame.filter(pl.col(f"price_{name}_at") > pl.col("close_time") - pl.duration(hours=hours)).is_empty()
    assert frame["price_1h"].count() > frame.height / 2


def test_the_leaderboard_is_published_with_intervals(evaluated: World) -> None:
    rows = query(evaluated.config.warehouse_uri, "SELECT * FROM benchmark.leaderboard ORDER BY rank NULLS LAST")
    assert set(rows["forecaster"]) == set(FORECASTERS)
    half = rows.filter(forecaster="always-half").row(0, named=True)
    market = rows.filter(forecaster="market-24h").row(0, named=True)
    assert half["brier"] == 0.25
    assert market["brier_lower"] < market["brier"] < market["brier_upper"] < 0.25


def test_a_home_that_was_moved_is_read_in_its_new_place_and_needs_no_run_but_a_publication(
    evaluated: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Path(shutil.copytree(evaluated.config.home, tmp_path / "before")).rename(tmp_path / "after")
    monkeypatch.setenv("BELLWETHER_HOME", str(moved))
    settings.cache_clear()
    world = open_world(moved)
    sql = "SELECT count(*) AS n FROM clean.prices"
    refused = CliRunner().invoke(main, ["query", sql, "--json"])
    assert (refused.exit_code, "publish it again: `bellwether warehouse`" in refused.output) == (1, True), "it would read the original"
    assert world.lake.storage.location("").startswith(str(moved))
    lake, warehouse = LakeResource(uri=world.config.lake_uri), WarehouseResource(database=str(world.config.warehouse_uri))
    wanted = publisher(dg.build_sensor_context(instance=world.instance), lake=lake, warehouse=warehouse)
    assert isinstance(wanted, dg.RunRequest)
    assert run_all(world).stats.by_job.keys() == {"publish"}
    assert files(world) == files(evaluated)
    found = CliRunner().invoke(main, ["query", sql, "--json"], catch_exceptions=False)
    assert json.loads(found.stdout) == query(evaluated.config.warehouse_uri, sql).to_dicts()
    files_shown = query(world.config.warehouse_uri, "SELECT file FROM meta.partitions")["file"]
    assert files_shown.str.starts_with(str(moved)).all()
    assert run_all(world).stats.runs == 0
    database = Path(world.config.warehouse_uri)
    for spoil in (lambda: database.write_text("no warehouse"), database.unlink):
        spoil()
        assert run_all(world).stats.by_job.keys() == {"publish"}, "a lost or damaged file is published again"
    world.instance.dispose()


def test_another_machine_makes_the_same_bytes(evaluated: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both machines share the journal, so that answers and their durations are equal."""
    monkeypatch.setenv("BELLWETHER_JOURNAL", f"sqlite:///{evaluated.config.world_home / 'journal.db'}")
    settings.cache_clear()
    other = open_world(tmp_path / "other")
    run_all(other)
    assert files(other) == files(evaluated)


def test_questions_made_again_as_they_were_are_answered_by_nobody_again(evaluated: World) -> None:
    before = files(evaluated)
    job = evaluated.defs.resolve_job_def("questions")
    assert job.execute_in_process(instance=evaluated.instance, partition_key="sandbox-2026").success
    assert run_all(evaluated).stats.by_job.keys() <= {"publish"}
    assert files(evaluated) == before


def test_rematerializing_a_day_gives_the_same_bytes_and_asks_the_venue_nothing(evaluated: World) -> None:
    before = files(evaluated)
    result = evaluated.defs.resolve_job_def("days").execute_in_process(instance=evaluated.instance, partition_key=DAYS[3])
    assert result.success
    assert files(evaluated) == before
    event = next(event for event in result.get_asset_materialization_events() if event.asset_key == key("raw/kalshi_markets"))
    assert event.materialization.metadata["requests"].value == 0


def test_an_event_shows_rows_preview_and_place(evaluated: World) -> None:
    event = evaluated.instance.get_latest_materialization_event(key("benchmark/leaderboard"))
    assert event is not None and event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert metadata["dagster/row_count"].value == len(FORECASTERS)
    assert {"dagster/uri", "preview", "seconds", "table"} <= metadata.keys()


def test_the_reliability_diagram_is_a_picture_in_the_event(evaluated: World) -> None:
    event = evaluated.instance.get_latest_materialization_event(key("benchmark/reliability"))
    assert event is not None and event.asset_materialization is not None
    text = event.asset_materialization.metadata["reliability diagram"].value
    found = re.search(r"data:image/png;base64,([A-Za-z0-9+/=]+)\)", str(text))
    assert found is not None
    assert base64.b64decode(found.group(1)).startswith(b"\x89PNG")


def test_checks_were_evaluated_and_passed_where_they_block(evaluated: World) -> None:
    evaluations = [
        event.dagster_event.asset_check_evaluation_data
        for record in evaluated.instance.get_run_records()
        for event in evaluated.instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        if event.dagster_event is not None
    ]
    assert {found.asset_key for found in evaluations} >= {key("raw/kalshi_markets"), key("clean/markets"), key("benchmark/questions")}
    assert [found.check_name for found in evaluations if found.blocking and not found.passed] == []


def test_a_check_looks_at_the_partitions_of_its_run(evaluated: World) -> None:
    def rows_seen(**options: object) -> int:
        job = evaluated.defs.resolve_job_def("days")
        result = job.execute_in_process(instance=evaluated.instance, **options)  # type: ignore[arg-type]
        (found,) = (
            check
            for check in result.get_asset_check_evaluations()
            if check.asset_key == key("clean/markets") and check.check_name == "unique_key"
        )
        rows = found.metadata["rows"].value
        assert isinstance(rows, int)
        return rows

    stored = evaluated.lake.slice(table("clean/markets")).read().group_by("day").len()
    of_day = {str(day): count for day, count in stored.rows()}
    assert rows_seen(partition_key=DAYS[2]) == of_day[DAYS[2]]
    assert rows_seen(tags={RANGE_START: DAYS[2], RANGE_END: DAYS[3]}) == of_day[DAYS[2]] + of_day[DAYS[3]]


def test_a_bad_day_stops_before_the_clean_tables(evaluated: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocking check fails on the raw rows, so no clean table is built."""
    from bellwether import checks
    from bellwether.checks import CheckOutcome

    def fail(declared, frame, rules):  # type: ignore[no-untyped-def]
        return [CheckOutcome(rule.name, rule.description, rule.blocking, not rule.blocking, frame.height, frame.height) for rule in rules]

    world = open_world(tmp_path / "bad")
    runs.pull_series(world.runner())
    monkeypatch.setattr(checks, "validate", fail)
    result = world.defs.resolve_job_def("days").execute_in_process(
        instance=world.instance, tags={RANGE_START: DAYS[-2], RANGE_END: DAYS[-1]}, raise_on_error=False
    )
    assert not result.success
    assert world.lake.manifests(table("raw/kalshi_markets"))
    assert not world.lake.manifests(table("clean/markets"))


def test_a_crashed_check_is_a_failed_step_and_not_a_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bellwether import checks
    from bellwether.checks import CheckOutcome

    def crash(declared, frame, rules):  # type: ignore[no-untyped-def]
        return [CheckOutcome(rule.name, rule.description, rule.blocking, None, frame.height, crashed="ZeroDivisionError") for rule in rules]

    monkeypatch.setattr(checks, "validate", crash)
    world = open_world(tmp_path / "crash")
    result = world.defs.resolve_job_def("series").execute_in_process(instance=world.instance, raise_on_error=False)
    assert not result.success
    assert any(event.is_step_failure and event.step_key == "check_raw_kalshi_series" for event in result.all_events)
    assert not [event for event in result.all_events if event.event_type_value == "ASSET_CHECK_EVALUATION"]


def test_days_before_the_venues_cutoff_need_the_archive_and_say_so(tmp_path: Path) -> None:
    from orchestration.runner import RunFailed

    world = open_world(tmp_path / "early")
    runner = world.runner()
    with pytest.raises(RunFailed, match="raw/kalshi_archive"):
        runs.pull_days(runner, date(2025, 9, 1), date(2025, 9, 1))


def test_a_day_that_the_lake_lost_or_that_is_damaged_is_restored_by_the_command_that_needs_it(
    evaluated: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(evaluated.config.home))
    settings.cache_clear()
    lake, day = evaluated.lake, (FIRST.isoformat(),)
    before = {name: lake.manifests(table(name))[day] for name in ("raw/kalshi_markets", "clean/markets")}
    Path(lake.storage.location(before["raw/kalshi_markets"].file)).unlink()
    damaged = Path(lake.storage.location(before["clean/markets"].file))
    damaged.write_bytes(b"PAR1")
    of_the_last_day = lake.manifests(table("clean/prices"))[(LAST.isoformat(),)]
    flipped = Path(lake.storage.location(of_the_last_day.file))
    flip_bit(flipped)
    runner = evaluated.runner()
    runs.pull_days(runner, FIRST, LAST)
    assert runner.stats.runs == 2, "one for each of the two days"
    assert {name: lake.manifests(table(name))[day].sha256 for name in before} == {name: one.sha256 for name, one in before.items()}
    restored = lake.manifests(table("clean/prices"))[(LAST.isoformat(),)]
    lake.verify(restored)
    assert restored.sha256 == of_the_last_day.sha256
    again = evaluated.runner()
    runs.pull_days(again, FIRST, LAST)
    assert again.stats.runs == 0
    flipped.unlink()
    damaged.unlink()  # other tests read every file of this world
