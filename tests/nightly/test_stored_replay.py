"""Two machines with separate homes and one object store: one records and builds, the other trades, with the rows of a single machine."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from bellwether.recordings.sandbox_recordings import generate_recording
from click.testing import CliRunner

from assets.replay.jobs import BACKTEST
from assets.replay.runs import run_backtests
from bellwether.files import folders
from bellwether.places import place
from bellwether.recordings.recording import DONE
from bellwether.replay.episode.metadata import METADATA
from bellwether.sandbox import GeneratedWorld
from bellwether.settings import settings
from bellwether.tables import table
from cli.main import main
from tests.orchestration.conftest import World, open_world

EVENT = "KXTOTALCFB-26JUN28"
TABLES = ("replay/episodes", "replay/backtests", "replay/orders", "replay/fills", "replay/equity")

pytestmark = pytest.mark.slow


def node(home: Path, patch: pytest.MonkeyPatch, store: str | None) -> World:
    """Function that selects a machine for all further commands of the test."""
    if store:
        patch.setenv("BELLWETHER_STORE", store)
    at(home, patch)
    return open_world(home, store=store)


def rows(world: World) -> dict[str, pl.DataFrame]:
    return {name: world.lake.slice(table(name)).read() for name in TABLES}


def trade(world: World, agent: str) -> None:
    """Run one backtest as in the graph."""
    world.instance.add_dynamic_partitions("episode", [EVENT])
    world.instance.add_dynamic_partitions("agent", [agent])
    pair = dg.MultiPartitionKey({"episode": EVENT, "agent": agent})
    assert world.defs.resolve_job_def(BACKTEST.name).execute_in_process(instance=world.instance, partition_key=pair).success


def test_episodes_of_one_machine_are_traded_by_another(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        alone = node(tmp_path / "alone", patch, None)
        generate_recording(alone.config.recordings_path, GeneratedWorld(7), EVENT, hours=1, now=alone.config.now())
        run_backtests(alone.runner(), ["market-maker", "llm"])
    first = node(tmp_path / "first", monkeypatch, bucket)
    generate_recording(first.config.recordings_path, GeneratedWorld(7), EVENT, hours=1, now=first.config.now())
    assert [folder.name for folder in folders(place(f"{bucket}/sandbox/recordings"), DONE)] == [EVENT]
    assert run_backtests(first.runner(), ["market-maker"]) == {f"market-maker|{EVENT}": None}
    second = node(tmp_path / "second", monkeypatch, bucket)
    trade(second, "llm")
    before, after = rows(alone), rows(second)
    for name in TABLES:
        assert after[name].sort(pl.all()).equals(before[name].sort(pl.all())), name
    assert [folder.name for folder in folders(place(f"{bucket}/sandbox/episodes"), METADATA)] == [EVENT]
    assert [path.name for path in place(f"{bucket}/sandbox/trajectories/{EVENT}").glob("*/trajectory.json")] == ["trajectory.json"]
    homes = {path.relative_to(tmp_path / "second" / "sandbox").parts[0] for path in (tmp_path / "second" / "sandbox").glob("*")}
    assert homes <= {"cache", "tapes", "journal.db", "journal.db-shm", "journal.db-wal", "dagster"}, homes


def test_the_commands_build_list_check_and_trade_in_the_store(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, traded = [], []
    for store, build, use in ((None, "alone", "alone"), (bucket, "first", "second")):
        if store:
            monkeypatch.setenv("BELLWETHER_STORE", store)
        at(tmp_path / build, monkeypatch)
        done = [run("recordings", "generate", EVENT, "--hours", "1"), run("episode", "build", EVENT)]
        at(tmp_path / use, monkeypatch)
        said.append([*done, run("recordings"), run("episode", "list"), run("episode", "validate", EVENT)])
        run("backtest", "--agent", "market-maker", "--episode", EVENT, "--out", str(tmp_path / f"out-{build}"))
        traded.append(pl.read_parquet(tmp_path / f"out-{build}" / "backtests.parquet"))
    assert said[0] == said[1]
    assert traded[0].equals(traded[1])
    assert "did you mean" in run("backtest", "--agent", "market-maker", "--episode", f"{EVENT}X", code=1)


def at(home: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("BELLWETHER_HOME", str(home))
    settings.cache_clear()


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.output
    return done.output
