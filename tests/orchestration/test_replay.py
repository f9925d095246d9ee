"""A finished recording becomes an episode, agents trade it, and they are compared: by the command line's runner and by the sensor."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from bellwether.recordings.generating import generate_recording
from bellwether.sandbox import GeneratedWorld
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.jobs import BACKTEST, EPISODES
from orchestration.sensors import episode_keys, recorded_episodes
from resources import LakeResource
from resources.recordings import RecordingsResource
from tests.orchestration.conftest import World, open_world

EVENT = "KXTOTALCFB-26JUN28"
AGENTS = ("random", "market-maker", "llm")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The last six hours of an event, traded by three agents."""
    home = tmp_path_factory.mktemp("replayed")
    world = open_world(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELLWETHER_HOME", str(home))
        settings.cache_clear()
        generate_recording(world.config.recordings_path, GeneratedWorld(7), EVENT, hours=6, now=world.config.now())
        ends = world.runner().replay(AGENTS)
    settings.cache_clear()
    assert ends == {f"{agent}|{EVENT}": None for agent in AGENTS}
    return world


def rows(world: World, name: str) -> pl.DataFrame:
    return world.lake.slice(table(name)).read()


@pytest.mark.slow
def test_the_episode_has_every_market_settled_by_what_the_stream_said(replayed: World) -> None:
    episode = rows(replayed, "replay/episodes")
    assert episode["event"].unique().to_list() == [EVENT]
    assert episode["result"].null_count() == 0 and set(episode["result"]) <= {"YES", "NO"}
    assert (episode["book_rows"] > 0).all() and (episode["gaps"] == 0).all()
    assert (replayed.config.episodes_path / EVENT / "metadata.json").is_file()


@pytest.mark.slow
def test_every_backtest_adds_up_and_its_rows_belong_together(replayed: World) -> None:
    backtests, orders, fills = (rows(replayed, f"replay/{name}") for name in ("backtests", "orders", "fills"))
    assert backtests["agent"].sort().to_list() == sorted(AGENTS)
    assert backtests["failure"].null_count() == len(AGENTS) and not backtests["unsettled"].any()
    for row in backtests.iter_rows(named=True):
        own = fills.filter(pl.col("agent") == row["agent"])
        assert row["contracts"] == (own["size"].sum() or Decimal(0)) and row["fees"] == (own["fee"].sum() or Decimal(0))
        assert row["pnl"] == row["realised"] - row["fees"]
    filled = fills.group_by("agent", "order_id").agg(pl.col("size").sum())
    assert orders.join(filled, on=["agent", "order_id"]).filter(pl.col("filled") != pl.col("size_right")).is_empty()
    assert fills.height > 0


@pytest.mark.slow
def test_agents_are_compared_and_a_second_run_makes_nothing(replayed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(replayed, "replay/summary")["agent"].sort().to_list() == sorted(AGENTS)
    results = rows(replayed, "replay/results").filter(pl.col("episode") == "Total")
    assert results.sort("agent")["pnl"].to_list() == rows(replayed, "replay/backtests").sort("agent")["pnl"].to_list()
    monkeypatch.setenv("BELLWETHER_HOME", str(replayed.config.home))
    settings.cache_clear()
    again = replayed.runner()
    again.replay(AGENTS)
    assert again.tally.runs == 0


@pytest.mark.slow
def test_a_backtest_again_gives_the_same_bytes(replayed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(replayed.config.home))
    settings.cache_clear()

    def hashes() -> list[str]:
        made = (
            replayed.lake.manifest(table(f"replay/{name}"), (EVENT, "market-maker")) for name in ("backtests", "orders", "fills", "equity")
        )
        return [manifest.sha256 for manifest in made if manifest is not None]

    before = hashes()
    pair = str(dg.MultiPartitionKey({"episode": EVENT, "agent": "market-maker"}))
    job = replayed.defs.resolve_job_def(BACKTEST.name)
    assert job.execute_in_process(instance=replayed.instance, partition_key=pair).success
    assert hashes() == before and len(before) == 4


def tick(world: World) -> dg.SensorResult | dg.SkipReason:
    resources = {"recordings": RecordingsResource(path=str(world.config.recordings_path)), "lake": LakeResource(uri=world.config.lake_uri)}
    found = recorded_episodes(dg.build_sensor_context(instance=world.instance, resources=resources))
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    return found


def test_without_a_recording_in_the_lake_the_sensor_has_nothing_to_do(tmp_path: Path) -> None:
    world = open_world(tmp_path)
    assert isinstance(tick(world), dg.SkipReason)
    generate_recording(world.config.recordings_path, GeneratedWorld(7), EVENT, hours=1, now=world.config.now())
    assert isinstance(tick(world), dg.SkipReason)


@pytest.mark.slow
def test_the_sensor_asks_for_an_episode_once(replayed: World) -> None:
    first, second = tick(replayed), tick(replayed)
    assert isinstance(first, dg.SensorResult) and isinstance(second, dg.SensorResult)
    assert [request.partition_key for request in first.run_requests or ()] == [EVENT]
    assert [request.run_key for request in first.run_requests or ()] == [request.run_key for request in second.run_requests or ()]


@pytest.mark.slow
def test_an_episode_without_a_result_is_made_again_when_a_pull_brings_something(tmp_path: Path) -> None:
    world = open_world(tmp_path)
    held = {"E": "R"}
    frame = table("raw/recordings").frame([{"recording": "R", "ordinal": 0, "connection": 1, "frame": "{}"}])
    world.lake.write(table("raw/recordings"), ("R",), frame, run_id="a")
    before = episode_keys(world.lake, held)
    write_episode(world, result=None)
    unsettled = episode_keys(world.lake, held)
    day = "2026-03-10"
    world.lake.write(table("raw/kalshi_markets"), (day,), table("raw/kalshi_markets").empty(), run_id="a")
    pulled = episode_keys(world.lake, held)
    write_episode(world, result="YES")
    settled = episode_keys(world.lake, held)
    assert len({before["E"], unsettled["E"], pulled["E"]}) == 3
    assert settled == before


def write_episode(world: World, *, result: str | None) -> None:
    from tests.checks.test_rules import episode_market

    rows = [episode_market("A", result=result, recording="R")]
    world.lake.write(table("replay/episodes"), ("E",), table("replay/episodes").frame(rows), run_id="a")


def test_an_episode_that_no_recording_holds_fails_with_a_reason(tmp_path: Path) -> None:
    world = open_world(tmp_path)
    world.instance.add_dynamic_partitions("episode", ["KXNOTHING"])
    job = world.defs.resolve_job_def(EPISODES.name)
    result = job.execute_in_process(instance=world.instance, partition_key="KXNOTHING", raise_on_error=False)
    failures = [event.step_failure_data.error.message for event in result.all_events if event.is_step_failure]
    assert any("no finished recording holds it" in text for text in failures)
