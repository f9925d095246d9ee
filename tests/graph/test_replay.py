"""From a finished recording to an episode, backtests and their comparison, by the runner of commands and by the sensor."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from bellwether.recordings.sandbox_recordings import generate_recording

from assets.replay.jobs import BACKTEST
from assets.replay.runs import run_backtests
from assets.replay.sensors import recorded_episodes
from assets.venues.jobs import RECORDINGS
from assets.venues.sensors import finished_recordings
from bellwether.lake import Lake
from bellwether.replay.episode_builder.sources import Sources, outdated_episodes
from bellwether.sandbox import GeneratedWorld
from bellwether.settings import settings
from bellwether.tables import table
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
        ends = run_backtests(world.runner(), AGENTS)
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
    run_backtests(again, AGENTS)
    assert again.stats.runs == 0


@pytest.mark.slow
def test_the_books_of_an_episode_are_sampled_and_a_home_without_them_gets_them_alone(
    replayed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode, made = rows(replayed, "replay/episodes"), rows(replayed, "replay/books")
    assert set(made["ticker"]) == set(episode["ticker"]) and made.filter(pl.col("bid").is_not_null()).height > 50
    assert made["at"].min() == episode["start_at"].min() and made["at"].n_unique() <= 500
    assert set(made["known_at"]) == set(episode["known_at"])
    monkeypatch.setenv("BELLWETHER_HOME", str(replayed.config.home))
    settings.cache_clear()
    shutil.rmtree(Path(replayed.lake.uri) / "replay" / "books")
    again = replayed.runner()
    run_backtests(again, AGENTS)
    assert set(again.stats.by_job) == {"episode_books"} and again.stats.runs == 1
    assert rows(replayed, "replay/books").equals(made)


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


def ticked(sensor: dg.SensorDefinition, world: World) -> dg.SensorResult | dg.SkipReason | dg.RunRequest:
    """Return the requests of one tick of a sensor."""
    resources = {name: (world.defs.resources or {})[name] for name in sensor.required_resource_keys}
    found = sensor(dg.build_sensor_context(instance=world.instance, resources=resources, definitions=world.defs))
    assert isinstance(found, dg.SensorResult | dg.SkipReason | dg.RunRequest)
    return found


def keys(sensor: dg.SensorDefinition, world: World) -> list[tuple[str | None, str | None]]:
    """Return partition and run key of the runs that one tick of a sensor requests."""
    found = ticked(sensor, world)
    return [(run.partition_key, run.run_key) for run in found.run_requests or ()] if isinstance(found, dg.SensorResult) else []


def test_the_sensors_ask_for_a_finished_recording_and_for_its_episodes_with_the_same_key_until_they_are_made(tmp_path: Path) -> None:
    world = open_world(tmp_path)
    generate_recording(world.config.recordings_path, GeneratedWorld(7), EVENT, hours=1, now=world.config.now())
    name = RecordingsResource(path=str(world.config.recordings_path)).all()[0].name
    ((asked, key),) = keys(finished_recordings, world)
    assert asked == name
    assert keys(finished_recordings, world) == [(name, key)]
    world.instance.add_dynamic_partitions("recording", [name])
    world.defs.resolve_job_def(RECORDINGS.name).execute_in_process(instance=world.instance, partition_key=name)
    assert isinstance(ticked(finished_recordings, world), dg.SkipReason)
    ((asked, key),) = keys(recorded_episodes, world)
    assert asked == EVENT
    assert keys(recorded_episodes, world) == [(EVENT, key)]


def test_an_episode_is_due_when_its_frames_or_what_may_settle_it_have_changed(tmp_path: Path) -> None:
    lake, held = open_world(tmp_path).lake, {"E": "R"}
    assert outdated_episodes(lake, held) == {}
    write_frames(lake, "{}")
    never_made = outdated_episodes(lake, held)
    assert set(never_made) == {"E"}
    write_episode(lake, result=None)
    assert outdated_episodes(lake, held) == {}
    lake.write(table("raw/kalshi_markets"), ("2026-03-10",), table("raw/kalshi_markets").empty(), run_id="a")
    pulled = outdated_episodes(lake, held)
    assert set(pulled) == {"E"} and pulled != never_made
    write_episode(lake, result=None)
    assert outdated_episodes(lake, held) == {}
    lake.write(table("raw/kalshi_markets"), ("2026-03-10",), table("raw/kalshi_markets").empty(), run_id="b")
    assert outdated_episodes(lake, held) == {}, "the same rows were pulled again"
    write_episode(lake, result="YES")
    lake.write(table("raw/kalshi_markets"), ("2026-03-11",), table("raw/kalshi_markets").empty(), run_id="a")
    assert outdated_episodes(lake, held) == {}, "it is settled"
    write_frames(lake, "[]")
    assert set(outdated_episodes(lake, held)) == {"E"}


def write_frames(lake: Lake, frame: str) -> None:
    declared = table("raw/recordings")
    lake.write(declared, ("R",), declared.frame([{"recording": "R", "ordinal": 0, "connection": 1, "frame": frame}]), run_id="a")


def write_episode(lake: Lake, *, result: str | None) -> None:
    """Build an episode from the lake."""
    from tests.checks.test_rules import episode_market

    row = episode_market("A", result=result, recording="R")
    sources = Sources.of(lake, "R")
    row |= {"recording_digest": sources.recording, "markets_digest": sources.markets_digest(row["end_at"])}
    lake.write(table("replay/episodes"), ("E",), table("replay/episodes").frame([row]), run_id="a")


@pytest.mark.slow
def test_what_people_plot_is_a_number_in_the_events(replayed: World) -> None:
    """The UI plots every number, so money is a number and a file size is not."""
    for name, wanted in (
        ("backtests", {"P&L", "P&L, pessimistic queue", "P&L, optimistic queue", "fees", "contracts"}),
        ("summary", {"P&L of all", "fees of all"}),
    ):
        event = replayed.instance.get_latest_materialization_event(dg.AssetKey(["replay", name]))
        assert event is not None and event.asset_materialization is not None
        shown = event.asset_materialization.metadata
        assert {label for label in wanted if not isinstance(shown[label].value, float)} == set()
        assert isinstance(shown["size"].value, str)
        assert "data:image/png" in str(shown["P&L per episode" if name == "summary" else "equity curve"].value)
    backtests = rows(replayed, "replay/backtests")
    assert shown["P&L of all"].value == pytest.approx(float(backtests["pnl"].sum()))
