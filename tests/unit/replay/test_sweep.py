"""Many backtests at once give the same rows for any number of workers."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay import AgentSource, BacktestSettings, load, run
from bellwether.replay.request import build_label, parse_grid, parse_parameters
from bellwether.replay.results.metrics import metrics
from bellwether.replay.sweep import Candidate, Source, Sweep
from bellwether.replay.units import SECOND
from tests.unit.replay.episode.folders import Native, three_episodes

MAKER = "bellwether.replay.agents.market_maker:MarketMaker"
COMPILED = "bellwether.replay.agents.compiled_maker:CompiledMarketMaker"
SETTINGS = BacktestSettings(cadence=5 * SECOND, queues=0)


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    return three_sources(tmp_path / "episodes")


def three_sources(folder: Path) -> list[Source]:
    return [(path,) for path in three_episodes(folder)]


def candidates(agent: str) -> list[Candidate]:
    return [
        Candidate(AgentSource(agent, {"size": 1, **varied}, "maker"), build_label("maker", varied), varied)
        for varied in parse_grid(["spread_cents=1..4", "skew_cents=0,1"])
    ]


def test_rows_are_those_of_single_runs_whatever_the_threads(sources: list[Source]) -> None:
    check_rows(sources, COMPILED)


def check_rows(sources: list[Source], agent: str) -> None:
    """Compare the rows of one and of two workers, and one row with that of a single run."""
    alone, together = (Sweep(sources, candidates(agent), SETTINGS).run(jobs=jobs) for jobs in (1, 2))
    assert alone.rows == together.rows
    assert [(row["episode"], row["agent"]) for row in alone.rows[:2]] == [
        ("E0", "maker[spread_cents=1,skew_cents=0]"),
        ("E0", "maker[spread_cents=1,skew_cents=1]"),
    ]
    assert len({row["result_digest"] for row in alone.rows}) > 3
    one = candidates(agent)[5]
    assert alone.rows[8 + 5] == {**metrics(run(load(*sources[1]), one.agent, SETTINGS)), "agent": one.label}


def test_progress_counts_every_run(sources: list[Source]) -> None:
    counts: list[int] = []
    Sweep(sources[:2], candidates(COMPILED), SETTINGS).run(progress=counts.append)
    assert sum(counts) == 16


def test_tables_are_written_for_values_of_several_types_and_for_no_candidate(sources: list[Source], tmp_path: Path) -> None:
    mixed = [Candidate(AgentSource(COMPILED), f"maker[{value}]", {"size": value}) for value in (1, 0.5, "all", None)]
    Sweep(sources[:1], mixed, SETTINGS).run(out=tmp_path / "mixed")
    assert pl.read_csv(tmp_path / "mixed" / "backtests.csv")["size"].to_list() == ["1", "0.5", "all", None]
    Sweep(sources[:1], [], SETTINGS).run(out=tmp_path / "none")
    assert pl.read_parquet(tmp_path / "none" / "orders.parquet").is_empty()


def test_an_agent_has_its_own_cadence(sources: list[Source]) -> None:
    own = Candidate(AgentSource(COMPILED), "slow", cadence=60 * SECOND)
    rows = Sweep(sources[:1], [own, Candidate(AgentSource(COMPILED), "fast")], SETTINGS).run().rows
    assert [row["cadence_seconds"] for row in rows] == [60, 5]


def test_wrong_parameters_and_episodes_are_refused_before_anything_runs(sources: list[Source], tmp_path: Path) -> None:
    for params in ({"spread": 1}, {"spread_cents": 0.001}):
        wrong = Candidate(AgentSource(MAKER, params), "wrong")
        with pytest.raises(ConfigError):
            Sweep(sources, [*candidates(MAKER), wrong], SETTINGS).run(progress=pytest.fail)
    broken = Native().write(tmp_path / "broken")
    (broken / "settlement.json").write_text("[]")
    with pytest.raises(SchemaError):
        Sweep([*sources, (broken,)], candidates(MAKER), SETTINGS).run(progress=pytest.fail)


# Parameters as users write them


def test_values_have_the_type_they_look_like() -> None:
    given = ["a=1", "b=0.5", "c=true", "d=none", "e=some text", "f=-2", "g = x=y "]
    assert parse_parameters(given) == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "some text", "f": -2, "g": "x=y"}


def test_a_range_has_both_ends_and_is_exact() -> None:
    for text, values in {
        "s=1..4": [1, 2, 3, 4],
        "s=1,5,10": [1, 5, 10],
        "s=0.1..0.3:0.1": [0.1, 0.2, 0.3],
        "s=1..2:0.4": [1, 1.4, 1.8],
        "s=yes,no": ["yes", "no"],
    }.items():
        assert [combination["s"] for combination in parse_grid([text])] == values
    assert parse_grid(["a=1,2", "b=x,y"]) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert parse_grid([]) == [{}]
    assert build_label("maker", {"size": 5, "spread": 0.5}) == "maker[size=5,spread=0.5]"


def test_what_is_no_grid_is_refused() -> None:
    wrong = (["a"], ["a=3..1"], ["a=1..x"], ["a=1..2:0"], ["a=1", "a=2"], ["a=1..1000", "b=1..1000"], ["a=1..10000000"])
    for given in wrong:
        with pytest.raises(ConfigError):
            parse_grid(given)
