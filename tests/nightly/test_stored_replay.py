"""Two machines with separate homes, one object store and one Postgres: one records and builds, the other trades, with the rows of a single machine."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.replay.jobs import BACKTEST
from bellwether.files import folders
from bellwether.lake import Lake
from bellwether.places import place
from bellwether.recordings.recording import DONE
from bellwether.replay.episode.model import METADATA
from bellwether.settings import settings
from bellwether.tables import table
from tests import demo_home
from tests.demo_home import EVENT, World, open_world, trade

TABLES = ("replay/episodes", "replay/backtests", "replay/orders", "replay/fills", "replay/equity")


def machine(home: Path, patch: pytest.MonkeyPatch, store: str | None, *agents: str) -> World:
    """Select a machine for all further steps of the test. agents: that `trade` runs on it."""
    patch.setenv("BELLWETHER_HOME", str(home))
    patch.setattr(demo_home, "AGENTS", agents)
    settings.cache_clear()
    return open_world(home, store=store)


def rows(world: World) -> dict[str, pl.DataFrame]:
    lake = Lake.of(world.config)
    return {name: lake.slice(table(name)).read() for name in TABLES}


def test_episodes_of_one_machine_are_traded_by_another(
    bucket: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        alone = machine(tmp_path / "alone", patch, None, "market-maker", "llm")
        trade(alone.runner())
        before = rows(alone)
    monkeypatch.setenv("BELLWETHER_STORE", bucket)
    monkeypatch.setenv("BELLWETHER_JOURNAL", postgres_url)
    trade(machine(tmp_path / "first", monkeypatch, bucket, "market-maker").runner())
    assert [folder.name for folder in folders(place(f"{bucket}/sandbox/recordings"), DONE)] == [EVENT]
    second = machine(tmp_path / "second", monkeypatch, bucket)
    second.instance.add_dynamic_partitions("episode", [EVENT])
    second.instance.add_dynamic_partitions("agent", ["llm"])
    pair = dg.MultiPartitionKey({"episode": EVENT, "agent": "llm"})
    assert second.defs.resolve_job_def(BACKTEST.name).execute_in_process(instance=second.instance, partition_key=pair).success
    after = rows(second)
    for name in TABLES:
        assert after[name].sort(pl.all()).equals(before[name].sort(pl.all())), name
    assert [folder.name for folder in folders(place(f"{bucket}/sandbox/episodes"), METADATA)] == [EVENT]
    assert [path.suffix for path in place(f"{bucket}/sandbox/trajectories/{EVENT}").iterdir()] == [".jsonl"]
    homes = {path.relative_to(tmp_path / "second" / "sandbox").parts[0] for path in (tmp_path / "second" / "sandbox").glob("*")}
    assert homes <= {"cache", "dagster"}, homes
