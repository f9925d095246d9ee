"""Inputs of checks: the columns they read, and the denominator of the share of rejects."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from bellwether.checks import validate
from bellwether.checks.rule import columns_read, lake_checks, rules_by_table
from bellwether.checks.venues import objects_per_day
from bellwether.lake import Lake
from bellwether.tables import table
from tests.checks.test_rules import reject
from tests.clean.rows import DAY, raw_candle, raw_event, raw_market
from tests.orchestration.conftest import World, open_world


def test_checks_leave_verbatim_bodies_on_disk() -> None:
    for name, rules in rules_by_table().items():
        read = columns_read(table(name), rules)
        assert "body" not in read, name
        assert set(table(name).key) <= set(read)


def test_rejects_are_measured_against_what_their_days_stored(tmp_path: Path) -> None:
    lake, day = Lake(str(tmp_path)), (DAY.isoformat(),)
    rows = {"raw/kalshi_events": [raw_event()], "raw/kalshi_markets": [raw_market()], "raw/kalshi_candles": [raw_candle(1), raw_candle(2)]}
    for name, stored in rows.items():
        lake.write(table(name), day, table(name).frame(stored), run_id="run")
    for partition in (day, ("2026-03-11",)):
        lake.write(table("raw/kalshi_rejects"), partition, table("raw/kalshi_rejects").empty(), run_id="run")
    assert objects_per_day(lake, lake.slice(table("raw/kalshi_rejects"), [day])) == 4
    assert objects_per_day(lake, lake.slice(table("raw/kalshi_rejects"))) == 2


def test_rejects_of_the_archive_are_measured_against_the_archive(tmp_path: Path) -> None:
    lake, rejects = Lake(str(tmp_path)), table("raw/kalshi_archive_rejects")
    (rule,) = rules_by_table()[rejects.name]
    assert rule.fit is not None
    lake.write(rejects, (), rejects.frame([reject(ordinal) for ordinal in range(11)]), run_id="run")

    def passed() -> bool | None:
        rows = lake.slice(rejects)
        (outcome,) = validate(rejects, rows.read(), [rule.fit(lake, rows)])
        return outcome.passed

    assert not passed()
    markets = [raw_market(f"M-{number}") for number in range(1100)]
    lake.write(table("raw/kalshi_archive"), (), table("raw/kalshi_archive").frame(markets), run_id="run")
    assert passed()


@pytest.mark.slow
def test_the_checks_of_the_whole_lake_run_as_a_job_of_their_own(evaluated: World) -> None:
    result = evaluated.defs.resolve_job_def("operations").execute_in_process(instance=evaluated.instance)
    found = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert found.keys() == {check.name for check in lake_checks()}
    assert {name for name, check in found.items() if not check.passed} == {"kalshi_is_fresh", "polymarket_is_fresh"}
    assert found["kalshi_markets_have_prices"].metadata["share with prices"].value > 0.5


def test_great_expectations_validates_every_published_table_and_builds_data_docs(evaluated: World, tmp_path: Path) -> None:
    """A broken rule is a warning with table and rule. The page counts it and shows no text of the venue."""
    from bellwether.lake.warehouse import publish

    markup = "<script>alert(1)</script>"
    home = tmp_path / "home"
    shutil.copytree(evaluated.config.home, home)
    world = open_world(home)
    declared = table("clean/markets")
    partition = max(world.lake.manifests(declared))
    rows = world.lake.slice(declared, [partition]).scan().collect()
    world.lake.write(declared, partition, rows.with_columns(status=pl.lit(markup)), run_id="test")
    publish(world.lake, world.config.warehouse_uri)

    result = world.defs.resolve_job_def("data_docs").execute_in_process(instance=world.instance)
    (found,) = result.get_asset_check_evaluations()
    broken = found.metadata["broken rules"].value
    assert not found.passed
    assert "known_status" in broken["clean/markets"]
    folder = world.config.data_docs_path
    pages = {page.relative_to(folder).parts[:2]: page.read_text() for page in folder.rglob("*.html")}
    assert {path for path in pages if path[0] == "expectations"} == {("expectations", name.split("/")[0]) for name in rules_by_table()}
    assert not any(markup in page for page in pages.values())
    assert f"{rows.height}" in next(page.read_text() for page in folder.rglob("warehouse-clean.markets.html"))
