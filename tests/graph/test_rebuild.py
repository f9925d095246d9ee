"""Moved homes, damaged files and rematerialized partitions: what is rebuilt has the same bytes, and no request is sent to a venue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.raw import runs
from assets.summary.jobs import publish_warehouse
from bellwether.lake.warehouse import publish as publish_lake
from bellwether.lake.warehouse import query
from bellwether.tables import table
from cli.main import main
from orchestration.asset_declarations import key
from orchestration.automation import UpdatePlan
from tests.damage import flip_bit, replace
from tests.demo_home import AGENTS, EVENT, World, build, copy_home, open_world, selected
from tests.graph.worlds import DAYS, execute, files, location, manifest, restrict_automation, tick

ROWS = "SELECT count(*) AS n FROM clean.prices"


@pytest.fixture
def moved(demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The demo home after a move, with the warehouse of its former place."""
    restrict_automation(monkeypatch)
    home = copy_home(demo_home, tmp_path / "moved")
    with selected(home):
        world = open_world(home)
        with world.instance:
            yield world


def test_a_moved_home_needs_a_publication_and_no_run(demo: World, moved: World) -> None:
    refused = CliRunner().invoke(main, ["query", ROWS, "--json"])
    assert (refused.exit_code, "publish it again: `bellwether warehouse`" in refused.output) == (1, True), "it would read the original"
    assert files(moved) == files(demo)
    assert UpdatePlan(moved.defs.resolve_asset_graph(), moved.lake, moved.instance).due() == []
    assert tick(moved, publish_warehouse).run_requests
    publish_lake(moved.lake, moved.config.warehouse_uri)
    found = CliRunner().invoke(main, ["query", ROWS, "--json"], catch_exceptions=False)
    assert json.loads(found.stdout) == query(demo.config.warehouse_uri, ROWS).to_dicts()
    named = query(moved.config.warehouse_uri, "SELECT file FROM meta.partitions")["file"]
    assert named.str.starts_with(str(moved.config.home)).all()


def test_damaged_partitions_are_found_and_rebuilt_with_the_same_bytes(demo_copy: World) -> None:
    before = files(demo_copy)
    location(demo_copy, "raw/kalshi_markets", DAYS[1]).unlink()
    replace(location(demo_copy, "clean/markets", DAYS[2]), b"PAR1")
    flip_bit(location(demo_copy, "clean/prices", DAYS[-1]))
    assert runs._outdated_days(demo_copy.runner(), DAYS) == [DAYS[1], DAYS[2], DAYS[-1]]
    assert execute(demo_copy, "days", "clean/prices", checks=False, partition_key=DAYS[-1]).success
    demo_copy.lake.verify(manifest(demo_copy, "clean/prices", DAYS[-1]))
    assert files(demo_copy) == before


def test_a_rematerialized_day_has_the_same_bytes_and_sends_no_request(demo_copy: World) -> None:
    before = files(demo_copy)
    tables = [f"raw/kalshi_{name}" for name in ("events", "markets", "candles", "rejects", "pulls")]
    result = execute(demo_copy, "days", *tables, checks=False, partition_key=DAYS[3])
    assert result.success
    assert files(demo_copy) == before
    event = next(event for event in result.get_asset_materialization_events() if event.asset_key == key("raw/kalshi_markets"))
    assert event.materialization.metadata["requests"].value == 0


@pytest.mark.nightly
def test_a_backtest_of_one_table_stores_all_and_has_the_same_bytes_when_repeated(demo_copy: World) -> None:
    before = files(demo_copy)
    names = ("backtests", "orders", "fills", "equity", "market_pnl")
    result = execute(
        demo_copy, "replay", "replay/backtests", checks=False, partition_key=dg.MultiPartitionKey({"episode": EVENT, "agent": AGENTS[0]})
    )
    assert result.success
    assert files(demo_copy) == before
    assert {event.asset_key for event in result.get_asset_materialization_events()} == {key(f"replay/{name}") for name in names}


@pytest.mark.nightly
def test_another_machine_builds_the_same_bytes(demo: World, tmp_path: Path) -> None:
    """Both share the journal, so that answers and their durations are equal. Only how long pulls wait for their rate depends on the machine."""
    shutil.copy(demo.config.world_home / "journal.db", tmp_path)
    build(tmp_path / "other", journal=f"sqlite:///{tmp_path / 'journal.db'}")
    other, waiting = open_world(tmp_path / "other"), ("raw/kalshi_pulls", "raw/polymarket_pulls")
    found, expected = ({name: digest for name, digest in files(world).items() if name[0] not in waiting} for world in (other, demo))
    assert found == expected
    for name in waiting:
        pulls, others = (world.lake.slice(table(name)).read().drop("limited_seconds") for world in (demo, other))
        assert others.equals(pulls)
