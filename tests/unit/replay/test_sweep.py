"""Many backtests at once give the same rows for any number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import BellwetherError, ConfigError, SchemaError
from bellwether.replay import BacktestSettings, load, run
from bellwether.replay.batches import Candidate
from bellwether.replay.parameter_grid import build_label, parse_grid, parse_parameters
from bellwether.replay.results.metrics import metrics
from bellwether.replay.sweep import Sweep, run_sweep
from bellwether.replay.units import SECOND
from tests.unit.replay.episode.folders import Native, three_episodes

MAKER = "bellwether.replay.agents.market_maker:MarketMaker"
COMPILED = "bellwether.replay.agents.compiled_maker:CompiledMarketMaker"
SETTINGS = BacktestSettings(cadence=5 * SECOND)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("episodes")
    return three_episodes(root)


def candidates(agent: str) -> list[Candidate]:
    return [
        Candidate(agent, "maker", build_label("maker", varied), {"size": 1, **varied}, varied)
        for varied in parse_grid(["spread_cents=1..4", "skew_cents=0,1"])
    ]


def swept(folders: list[Path], agent: str, cache: Path, jobs: int) -> Sweep:
    return run_sweep(folders, candidates(agent), SETTINGS, cache=cache, jobs=jobs)


@pytest.mark.slow
@pytest.mark.parametrize("agent", [MAKER, COMPILED], ids=["processes", "threads"])
def test_rows_are_those_of_single_runs_whatever_the_workers(folders: list[Path], tmp_path: Path, agent: str) -> None:
    alone, together = swept(folders, agent, tmp_path, 1), swept(folders, agent, tmp_path, 2)
    assert alone.rows == together.rows
    assert 0 < together.busy <= together.cpu
    assert [(row["episode"], row["agent"]) for row in alone.rows[:2]] == [
        ("E0", "maker[spread_cents=1,skew_cents=0]"),
        ("E0", "maker[spread_cents=1,skew_cents=1]"),
    ]
    assert len({row["result_digest"] for row in alone.rows}) > 3
    one = candidates(agent)[5]
    assert alone.rows[8 + 5] == {**metrics(run(load(folders[1]), one.reference(), SETTINGS)), "agent": one.label}


def test_progress_counts_every_run(folders: list[Path], tmp_path: Path) -> None:
    counts: list[int] = []
    run_sweep(folders[:2], candidates(COMPILED), SETTINGS, cache=tmp_path, progress=counts.append)
    assert sum(counts) == 16


def test_tables_are_written_for_values_of_several_types_and_for_no_candidate(folders: list[Path], tmp_path: Path) -> None:
    mixed = [Candidate(COMPILED, "maker", f"maker[{value}]", varied={"size": value}) for value in (1, 0.5, "all", None)]
    run_sweep(folders[:1], mixed, SETTINGS, cache=tmp_path / "tapes", out=tmp_path / "mixed")
    assert pl.read_csv(tmp_path / "mixed" / "backtests.csv")["size"].to_list() == ["1", "0.5", "all", None]
    run_sweep(folders[:1], [], SETTINGS, cache=tmp_path / "tapes", out=tmp_path / "none")
    assert pl.read_parquet(tmp_path / "none" / "orders.parquet").is_empty()


def test_an_agent_has_its_own_cadence(folders: list[Path], tmp_path: Path) -> None:
    own = Candidate(COMPILED, "maker", "slow", cadence=60 * SECOND)
    rows = run_sweep(folders[:1], [own, Candidate(COMPILED, "maker", "fast")], SETTINGS, cache=tmp_path).rows
    assert [row["cadence_seconds"] for row in rows] == [60, 5]


@pytest.mark.parametrize("params", [{"spread": 1}, {"spread_cents": 0.001}])
def test_a_parameter_that_cannot_be_is_refused_before_anything_runs(folders: list[Path], tmp_path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        run_sweep(folders, [*candidates(MAKER), Candidate(MAKER, "maker", "wrong", params)], SETTINGS, cache=tmp_path, progress=pytest.fail)


def test_an_episode_that_is_refused_stops_the_sweep_before_anything_runs(folders: list[Path], tmp_path: Path) -> None:
    broken = Native().write(tmp_path / "broken")
    (broken / "settlement.json").write_text("[]")
    with pytest.raises(SchemaError):
        run_sweep([*folders, broken], candidates(MAKER), SETTINGS, cache=tmp_path / "tapes", progress=pytest.fail)


def test_an_agent_that_ends_its_worker_is_named(folders: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import os\nfrom bellwether.replay import Agent\nclass Mine(Agent):\n    def act(self, ctx):\n        os._exit(3)\n")
    with pytest.raises(BellwetherError, match=r"the process ended in a run of mine: ended by the agent.*--isolated"):
        run_sweep(folders, [Candidate(f"{file}:Mine", "mine", "mine")], SETTINGS, cache=tmp_path, jobs=2)


# Parameters as users write them


def test_values_have_the_type_they_look_like() -> None:
    given = ["a=1", "b=0.5", "c=true", "d=none", "e=some text", "f=-2", "g = x=y "]
    assert parse_parameters(given) == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "some text", "f": -2, "g": "x=y"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("s=1..4", [1, 2, 3, 4]),
        ("s=1,5,10", [1, 5, 10]),
        ("s=0.1..0.3:0.1", [0.1, 0.2, 0.3]),
        ("s=1..2:0.4", [1, 1.4, 1.8]),
        ("s=yes,no", ["yes", "no"]),
    ],
)
def test_a_range_holds_both_ends_and_is_exact(text: str, values: list[Any]) -> None:
    assert [combination["s"] for combination in parse_grid([text])] == values


def test_a_grid_is_every_combination_in_order() -> None:
    assert parse_grid(["a=1,2", "b=x,y"]) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert parse_grid([]) == [{}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a"], "is invalid; give name=value"),
        (["a=3..1"], "has no values"),
        (["a=1..x"], "give first..last"),
        (["a=1..2:0"], "give first..last"),
        (["a=1", "a=2"], "twice"),
        (["a=1..1000", "b=1..1000"], "1,000,000 combinations"),
        (["a=1..10000000"], "too many"),
    ],
)
def test_what_is_no_grid_is_refused_in_words(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_grid(given)


def test_a_label_tells_combinations_apart() -> None:
    assert build_label("maker", {"size": 5, "spread": 0.5}) == "maker[size=5,spread=0.5]"
    assert build_label("maker", {}) == "maker"
