"""Sweeps on a Dask cluster give the rows of one machine, even if workers die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay import AgentSource, BacktestSettings, Candidate, Sweep
from bellwether.replay.sweep import Source
from bellwether.replay.units import SECOND
from tests.unit.replay.test_sweep import three_sources

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

SETTINGS = BacktestSettings(cadence=5 * SECOND)
MINE = """
import time
from bellwether.replay import Agent, YES, contracts

class Mine(Agent):
    def __init__(self, wait=0, pause=0.0):
        self.wait, self.pause = wait, pause

    def act(self, ctx):
        time.sleep(self.pause)
        if ctx.step == self.wait:
            ctx.buy(ctx.markets()[0].ticker, YES, contracts(1), 990)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    from distributed import Client

    with Client(cluster.scheduler_address, set_as_default=False) as made:
        yield made


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    return three_sources(tmp_path)


def candidates(file: Path, pause: float = 0.0) -> list[Candidate]:
    return [Candidate(AgentSource(f"{file}:Mine", {"wait": wait, "pause": pause}), f"mine[wait={wait}]") for wait in range(10)]


def test_rows_survive_a_killed_worker(client: Client, sources: list[Source], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    alone = Sweep(sources, candidates(file, 0.001), SETTINGS).run(out=tmp_path / "alone")
    assert len({row["result_digest"] for row in alone.rows}) > 5
    seen: list[int] = []
    killed = sorted(client.run(os.getpid).values())[0]

    def progress(runs: int) -> None:
        if not seen:
            os.kill(killed, signal.SIGKILL)
        seen.append(runs)

    out = tmp_path / "out"
    there = Sweep(sources, candidates(file, 0.001), SETTINGS).run(client=client, out=out, progress=progress)
    assert there.rows == alone.rows
    assert sum(seen) == 30
    for path in (tmp_path / "alone").glob("*.parquet"):
        assert pl.read_parquet(out / path.name).equals(pl.read_parquet(path))
    assert pl.read_parquet(out / "orders.parquet")["agent"].n_unique() == 10
    client.wait_for_workers(2, timeout=60)
    assert killed not in client.run(os.getpid).values()


def test_a_bad_episode_ends_the_sweep_and_keeps_the_finished_rows(client: Client, sources: list[Source], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    (sources[2][0] / "settlement.json").write_text("[]")
    with pytest.raises(SchemaError, match="settlement"):
        Sweep(sources, candidates(file), SETTINGS).run(client=client, out=tmp_path / "out")
    kept = pl.concat([pl.read_parquet(one) for one in (tmp_path / "out" / "backtests.parts" / "backtests").iterdir()])
    assert set(kept["episode"]) <= {"E0", "E1"}
    assert kept.height
    assert not (tmp_path / "out" / "backtests.parquet").exists()


def test_another_engine_is_refused(client: Client, sources: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    monkeypatch.setattr("bellwether.replay.sweep.ENGINE_VERSION", "0")
    with pytest.raises(ConfigError, match="engine version"):
        Sweep(sources, candidates(file), SETTINGS).run(client=client)
