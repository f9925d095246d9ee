"""Checks in runs: the rows and columns they read, the denominator of the share of rejects, and checks of the whole lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether import settings as settings_module
from bellwether.checks import validate
from bellwether.checks.rule import columns_read, lake_checks, rules_by_table, rules_for
from bellwether.checks.venues import objects_per_day
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.checks import _result
from orchestration.partitions import RANGE_END, RANGE_START
from tests.demo_home import FORECASTERS, World
from tests.graph.worlds import DAYS, change, execute, rows, without_history
from tests.unit.checks.test_rules import reject
from tests.unit.clean.rows import DAY, raw_candle, raw_event, raw_market


def test_checks_leave_verbatim_bodies_on_disk() -> None:
    for name, rules in rules_by_table().items():
        read = columns_read(table(name), rules)
        assert "body" not in read, name
        assert set(table(name).key) <= set(read)


def test_rejects_are_measured_against_what_their_days_stored(tmp_path: Path) -> None:
    lake, day = Lake(str(tmp_path)), (DAY.isoformat(),)
    objects = {
        "raw/kalshi_events": [raw_event()],
        "raw/kalshi_markets": [raw_market()],
        "raw/kalshi_candles": [raw_candle(1), raw_candle(2)],
    }
    for name, stored in objects.items():
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
        found = lake.slice(rejects)
        (outcome,) = validate(rejects, found.read(), [rule.fit(lake, found)])
        return outcome.passed

    assert not passed()
    markets = [raw_market(f"M-{number}") for number in range(1100)]
    lake.write(table("raw/kalshi_archive"), (), table("raw/kalshi_archive").frame(markets), run_id="run")
    assert passed()


def test_the_checks_of_the_whole_lake_run_as_a_job_of_their_own(demo: World, tmp_path: Path) -> None:
    with without_history(demo, tmp_path) as world:
        result = execute(world, "operations")
    found = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert found.keys() == {check.name for check in lake_checks()}
    assert {name for name, check in found.items() if not check.passed} == {"kalshi_is_fresh", "polymarket_is_fresh"}
    assert found["kalshi_markets_have_prices"].metadata["share with prices"].value > 0.5


def test_a_check_looks_at_the_partitions_of_its_run(demo_copy: World) -> None:
    def rows_seen(**options: Any) -> Any:
        result = execute(demo_copy, "days", "clean/resolutions", **options)
        (found,) = (check for check in result.get_asset_check_evaluations() if check.check_name == "unique_key")
        return found.metadata["rows"].value

    of_day = {str(day): count for day, count in rows(demo_copy, "clean/resolutions").group_by("day").len().rows()}
    assert rows_seen(partition_key=DAYS[2]) == of_day[DAYS[2]]
    assert rows_seen(tags={RANGE_START: DAYS[2], RANGE_END: DAYS[3]}) == of_day[DAYS[2]] + of_day[DAYS[3]]


@pytest.mark.nightly
def test_great_expectations_validates_every_published_table_and_builds_data_docs(demo_copy: World) -> None:
    """A broken rule is a warning with table and rule. The page counts it and shows no text of the venue."""
    markup = "<script>alert(1)</script>"
    change(demo_copy, "clean/markets", (DAYS[-1],), "status", markup)
    publish(demo_copy.lake, demo_copy.config.warehouse_uri)
    (found,) = execute(demo_copy, "data_docs").get_asset_check_evaluations()
    assert not found.passed
    assert "known_status" in found.metadata["broken rules"].value["clean/markets"]
    folder = demo_copy.config.data_docs_path
    pages = {page.relative_to(folder).parts[:2]: page.read_text() for page in folder.rglob("*.html")}
    assert {path for path in pages if path[0] == "expectations"} == {("expectations", name.split("/")[0]) for name in rules_by_table()}
    assert not any(markup in page for page in pages.values())
    broken = rows(demo_copy, "clean/markets").filter(status=markup).height
    assert f"{broken}" in next(page.read_text() for page in folder.rglob("warehouse-clean.markets.html"))


def test_the_gap_of_the_demo_is_expected_in_the_sandbox_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = table("raw/recording_gaps")
    (rule,) = [one for one in rules_for(declared.name) if one.name == "nothing_lost"]
    gaps = pl.DataFrame({"recording": ["r"], "gap": [0], "kind": ["lost"]})
    outcomes = validate(declared, gaps, [rule])
    result = _result(declared, outcomes, rule.expected if rule.is_expected else "")
    assert result.passed and str(result.description).startswith("Expected in the sandbox: ")
    monkeypatch.setattr("bellwether.checks.rule.settings", lambda: settings().model_copy(update={"world": settings_module.World.LIVE}))
    assert not _result(declared, outcomes, rule.expected if rule.is_expected else "").passed


def test_models_that_fail_on_purpose_do_not_fail_the_coverage() -> None:
    declared = table("benchmark/forecasts")
    (rule,) = [one for one in rules_for(declared.name) if one.name == "coverage"]
    for name, passed in ((FORECASTERS[-1], True), ("sandbox-calibrated", False)):
        forecasts = pl.DataFrame({"release": "r", "forecaster": name, "question_id": ["1", "2"], "sample": 0, "p_yes": [None, 0.5]})
        assert validate(declared, forecasts, [rule])[0].passed is passed
