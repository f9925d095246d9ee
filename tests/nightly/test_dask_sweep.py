"""Sweeps on a Dask cluster give the rows of one machine, even if workers die."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.errors import BellwetherError, ConfigError, SchemaError
from bellwether.replay import BacktestSettings, Candidate, run_sweep
from bellwether.replay.units import SECOND
from cli.main import main
from tests.unit.replay.episode.folders import three_episodes

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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    from distributed import LocalCluster

    home = tmp_path_factory.mktemp("workers")
    environment = {"BELLWETHER_HOME": str(home)}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(home), env=environment) as made:
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    from distributed import Client

    with Client(cluster.scheduler_address, set_as_default=False) as made:
        yield made


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return three_episodes(tmp_path)


def candidates(file: Path, pause: float = 0.0) -> list[Candidate]:
    return [Candidate(f"{file}:Mine", "mine", f"mine[wait={wait}]", {"wait": wait, "pause": pause}) for wait in range(10)]


def test_rows_survive_a_killed_worker_and_need_no_file_of_this_machine(client: Client, folders: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    alone = run_sweep(folders, candidates(file, 0.001), SETTINGS, cache=tmp_path / "tapes", out=tmp_path / "alone")
    assert len({row["result_digest"] for row in alone.rows}) > 5
    seen: list[int] = []
    parts: list[int] = []
    killed = sorted(client.run(os.getpid).values())[0]

    def progress(runs: int) -> None:
        if not seen:
            file.unlink()
            os.kill(killed, signal.SIGKILL)
        seen.append(runs)
        parts.append(sum(pl.read_parquet(one).height for one in (out / "backtests.parts" / "backtests").iterdir()))

    out = tmp_path / "out"
    there = run_sweep(folders, candidates(file, 0.001), SETTINGS, cache=tmp_path / "t", client=client, batch=2, out=out, progress=progress)
    assert there.rows == alone.rows
    assert sum(seen) == 30
    assert parts == [sum(seen[: count + 1]) for count in range(len(seen))]
    assert pl.read_parquet(out / "backtests.parquet").equals(alone.frame())
    for path in (tmp_path / "alone").glob("*.parquet"):
        assert pl.read_parquet(out / path.name).equals(pl.read_parquet(path))
    assert pl.read_parquet(out / "orders.parquet")["agent"].n_unique() == 10
    assert not (out / "backtests.parts").exists()
    client.wait_for_workers(2, timeout=60)
    assert killed not in client.run(os.getpid).values()


def test_the_command_sends_changed_source_again(cluster: LocalCluster, folders: list[Path], tmp_path: Path) -> None:
    file, found = tmp_path / "mine.py", []
    words = ["backtest", "--agent", f"{file}:Mine", "--cadence", "5", "--grid", "wait=0..3", "--json", "--on", cluster.scheduler_address]
    for folder in folders:
        words += ["--episode", str(folder)]
    for price in (990, 10):
        file.write_text(MINE.replace("990", str(price)))
        done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    assert [row["agent"] for row in found[0]["backtests"][:2]] == ["mine[wait=0]", "mine[wait=1]"]
    assert [row["contracts"] for row in found[0]["backtests"]] != [row["contracts"] for row in found[1]["backtests"]]
    assert found[0]["reality_check"]["reason"] == "3 episodes; it needs 5"
    assert pl.read_parquet(tmp_path / "out" / "reality_check.parquet").row(0, named=True)["agents"] == 4
    assert pl.read_csv(tmp_path / "out" / "backtests.csv")["wait"].to_list() == [0, 1, 2, 3] * 3


def test_a_bad_episode_ends_the_sweep_and_keeps_the_finished_rows(client: Client, folders: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    (folders[2] / "settlement.json").write_text("[]")
    with pytest.raises(SchemaError, match="settlement"):
        run_sweep(folders, candidates(file), SETTINGS, cache=tmp_path, client=client, batch=10, out=tmp_path / "out")
    kept = pl.concat([pl.read_parquet(one) for one in (tmp_path / "out" / "backtests.parts" / "backtests").iterdir()])
    assert kept.height in (10, 20)
    assert not (tmp_path / "out" / "backtests.parquet").exists()


def test_another_engine_is_refused(client: Client, folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    monkeypatch.setattr("bellwether.replay.dask_sweep.ENGINE_VERSION", 0)
    with pytest.raises(ConfigError, match="engine version"):
        run_sweep(folders, candidates(file), SETTINGS, client=client)


def test_an_agent_that_ends_its_worker_is_named(cluster: LocalCluster, client: Client, folders: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace("time.sleep(self.pause)", "self.wait == 1 and os._exit(1)").replace("import time", "import os"))
    cluster.scheduler.allowed_failures = 0
    try:
        with pytest.raises(BellwetherError, match=r"on Dask: the process ended in a run of mine\[wait=1\]: ended by the agent"):
            run_sweep(folders, candidates(file), SETTINGS, cache=tmp_path, client=client, batch=1)
    finally:
        cluster.scheduler.allowed_failures = 3
