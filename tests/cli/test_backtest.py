"""`bellwether backtest`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS, MARKET_PNL, ORDERS
from cli.main import main
from tests.unit.replay.episode.folders import Native, named_episode

MAKER = ("--agent", "market-maker", "--param", "size=1", "--cadence", "5", "--queues", "0")


@pytest.fixture
def episode(tmp_path: Path) -> Path:
    return Native().write(tmp_path / "KXTEST-26JAN20")


def backtest(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["backtest", *map(str, words)])


def test_json_has_a_row_per_episode_and_agent(episode: Path) -> None:
    result = backtest(*MAKER, "--agent", "passive", "--episode", episode, "--seed", 3, "--json", "--param", "spread_cents=2")
    assert result.exit_code != 0
    assert "its parameters are none" in result.output, "passive has no parameter size"
    result = backtest(*MAKER, "--episode", episode, "--seed", 3, "--rules", "kalshi-2025-07-01", "--json")
    (row,) = json.loads(result.stdout)
    assert (row["agent"], row["episode"], row["seed"], row["cadence_seconds"]) == ("market-maker", "KXTEST-26JAN20", 3, 5)
    assert row["rules"] == "kalshi-2025-07-01"
    assert json.loads(row["parameters"])["size"] == 1


TABLES = (BACKTESTS, ORDERS, FILLS, EQUITY, MARKET_PNL)
FILES = [
    "backtests.csv",
    "backtests.parquet",
    "equity.parquet",
    "fills.parquet",
    "market_pnl.parquet",
    "orders.parquet",
    "reality_check.parquet",
]


def test_the_folder_holds_every_table_and_can_be_read_again(episode: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert backtest("--agent", "buy-and-hold", "--episode", episode, "--cadence", 5, "--out", out).exit_code == 0
    for table in TABLES:
        table.validate(pl.read_parquet(out / f"{table.short_name}.parquet"))
    assert pl.read_parquet(out / "backtests.parquet").height == 1
    assert sorted(path.name for path in out.iterdir()) == FILES


def test_every_mode_writes_the_same_tables(two_episodes: tuple[Path, Path], tmp_path: Path) -> None:
    words = ["--agent", "random", "--cadence", 5, "--param", "trade_probability=1", "--queues", 2]
    words += [word for path in two_episodes for word in ("--episode", path)]
    modes = {
        "single": ("--param", "max_size=2"),
        "jobs": ("--param", "max_size=2", "--jobs", 2),
        "grid": ("--grid", "max_size=1,2"),
        "grid on jobs": ("--grid", "max_size=1,2", "--jobs", 2),
    }
    for mode, more in modes.items():
        result = backtest(*words, *more, "--out", tmp_path / mode)
        assert result.exit_code == 0, result.output
        assert sorted(path.name for path in (tmp_path / mode).iterdir()) == FILES

    def tables(mode: str) -> dict[str, pl.DataFrame]:
        return {name: pl.read_parquet(tmp_path / mode / name) for name in FILES if name.endswith(".parquet")}

    single, grid = tables("single"), tables("grid")
    assert all(frame.height for frame in single.values())
    assert single["equity.parquet"]["episode"].unique(maintain_order=True).to_list() == [path.name for path in two_episodes]
    for name, frame in single.items():
        assert frame.equals(tables("jobs")[name])
        assert grid[name].equals(tables("grid on jobs")[name])
        assert frame.schema == grid[name].schema
    for table in TABLES:
        one = grid[f"{table.short_name}.parquet"].filter(agent="random[max_size=2]").drop("agent")
        assert one.equals(single[f"{table.short_name}.parquet"].drop("agent"))


def test_tables_of_two_commands_are_never_mixed(episode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, words = tmp_path / "out", ("--agent", "buy-and-hold", "--episode", episode, "--cadence", 5, "--out", tmp_path / "out")
    assert backtest(*words).exit_code == 0
    (out / "notes.txt").write_text("mine")
    (out / "other").mkdir()
    (out / "other" / "orders.parquet").touch()
    before, rename = pl.read_parquet(out / "backtests.parquet"), os.rename

    def breaking(source: Path, target: Path) -> None:
        if Path(target) == out and ".tmp-" in str(source):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr("os.rename", breaking)
    result = backtest(*words, "--seed", 1)
    assert result.exit_code == 1
    assert f"writing {out}: it cannot be written (No space left on device)" in result.output
    assert pl.read_parquet(out / "backtests.parquet").equals(before), "the earlier set is whole"
    monkeypatch.undo()
    assert backtest(*words).exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == sorted([*FILES, "notes.txt", "other"])
    assert (out / "other" / "orders.parquet").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_is_shown_in_full_and_ends_the_command_with_an_error(episode: Path, tmp_path: Path, jobs: int) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from bellwether.replay import Agent\nclass Mine(Agent):\n    def act(self, ctx):\n        raise ValueError('[bold]no[/bold]')\n"
    )
    for option in ((), ("--isolated",)):
        result = backtest("--agent", f"{mine}:Mine", "--episode", episode, "--jobs", jobs, "--out", tmp_path / "out", *option)
        assert result.exit_code == 1
        assert "ValueError: [bold]no[/bold]" in result.output
        if jobs == 1:
            assert f'File "{mine}", line 4, in act' in result.output
    assert pl.read_parquet(tmp_path / "out" / "backtests.parquet").height == 1


def test_a_class_that_cannot_decide_is_refused_before_anything_runs(episode: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from bellwether.replay import Agent\nclass Mine(Agent):\n    def decide(self, ctx):\n        pass\n")
    result = backtest("--agent", f"{mine}:Mine", "--episode", episode, "--out", tmp_path / "out")
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "Mine: it has no act(self, ctx); write one" in result.output
    assert not (tmp_path / "out").exists()


def test_a_grid_runs_every_combination_and_shows_the_best(episode: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = backtest(*MAKER, "--grid", "spread_cents=1..3", "--grid", "skew_cents=0,0.5", "--episode", episode, "--out", out)
    assert result.exit_code == 0, result.output
    assert "Reality check: none (1 episode; it needs 5)." in result.output
    assert pl.read_parquet(out / "reality_check.parquet")["agents"].to_list() == [6]
    combinations = pl.read_csv(out / "backtests.csv").select("spread_cents", "skew_cents").rows()
    assert combinations == [(spread, skew) for spread in (1, 2, 3) for skew in (0.0, 0.5)]


def test_a_cell_of_the_csv_is_no_formula_to_a_spreadsheet(episode: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from bellwether.replay import Agent\nclass Mine(Agent):\n    def act(self, ctx):\n"
        "        raise type('=1+1', (Exception,), {})('no')\n"
    )
    assert backtest("--agent", f"{mine}:Mine", "--episode", episode, "--out", tmp_path / "out").exit_code == 1
    [row] = pl.read_csv(tmp_path / "out" / "backtests.csv").to_dicts()
    assert row["failure"].startswith("'=1+1: no")


def test_the_drawdown_is_that_of_the_rows_of_equity(episode: Path, tmp_path: Path) -> None:
    assert backtest("--agent", "buy-and-hold", "--episode", episode, "--out", tmp_path).exit_code == 0
    curve = pl.read_parquet(tmp_path / "equity.parquet").sort("sample")
    [row] = pl.read_parquet(tmp_path / "backtests.parquet").to_dicts()
    peak, worst = Decimal(0), Decimal(0)
    for equity in curve["equity"]:
        peak = max(peak, equity)
        worst = max(worst, (peak - equity) / peak)
    assert float(worst) == pytest.approx(row["max_drawdown"], rel=1e-12)
    assert row["max_drawdown"] > 0
    assert curve.select("equity", "cash", "equity_mid").row(0) == (row["bankroll"],) * 3


def test_unsettled_profit_and_default_fees_are_marked_and_left_out_of_totals(tmp_path: Path) -> None:
    native = Native()
    native.settlement = {ticker: {"result": None} for ticker in native.settlement}
    native.metadata["markets"][0]["fee"]["source"] = "default"
    episode = native.write(tmp_path / "KXTEST-26JAN20")
    words = ("--agent", "buy-and-hold", "--episode", episode, "--cadence", 5)
    text = " ".join(backtest(*words).output.split())
    assert "*†" in text
    assert "a position is unsettled: valued at its mark." in text
    assert "the fees of a market are unknown" in text
    [row] = json.loads(backtest(*words, "--json").stdout)
    assert (row["unsettled"], row["default_fees"]) == (True, True)
    assert "The total covers 0 of 1." in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--agent", "random", "--rules", "kalshi-1900-01-01"), "unknown rule set 'kalshi-1900-01-01'"),
        (("--agent", "random", "--param", "size"), "'size' is invalid"),
        (("--agent", "random", "--bankroll", "0.0000001"), "finer than a millionth"),
        (("--agent", "random", "--cadence", "1e-10"), "--cadence: 1e-10 is out of range"),
        (("--agent", "random", "--latency", "1e13"), "--latency: 1e+13 is out of range"),
        (("--agent", "llm", "--isolated"), "sends requests to a service"),
        (("--agent", "random", "--out", "."), "--out replaces a folder as a whole"),
        (("--agent", "random", "--grid", "size=1,2", "--param", "size=4"), "--grid size sets it too"),
    ],
)
def test_a_backtest_that_cannot_run_is_refused_in_one_line(episode: Path, words: tuple[str, ...], message: str) -> None:
    result = backtest(*words, "--episode", episode)
    assert (result.exit_code, message in result.output) == (1, True)
    assert "Traceback" not in result.output


PRINTING = """
from bellwether.replay import Agent

print("imported")


class Mine(Agent):
    def act(self, ctx):
        print("acting")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("jobs", [1, 2])
def test_output_of_an_agent_is_kept_out_of_the_json(episode: Path, tmp_path: Path, jobs: int) -> None:
    file = tmp_path / "printing.py"
    file.write_text(PRINTING)
    words = ["backtest", "--agent", str(file), "--agent", "buy-and-hold", "--episode", str(episode), "--jobs", str(jobs), "--json"]
    done = subprocess.run([sys.executable, "-m", "bellwether", *words], capture_output=True, text=True, check=True)
    assert {row["agent"] for row in json.loads(done.stdout)} == {"mine", "buy-and-hold"}
    assert "acting" in done.stderr


def test_settings_reach_the_run(episode: Path) -> None:
    given = ("--bankroll", "123.45", "--queue", "trade_only")
    first, second = (json.loads(backtest("--agent", "random", "--episode", episode, *more, "--json").stdout)[0] for more in ((), given))
    assert (second["bankroll"], second["queue_model"]) == ("123.450000", "trade_only")
    assert first["settings_digest"] != second["settings_digest"]


def test_every_setting_of_time_and_limits_changes_the_digest(episode: Path) -> None:
    settings = [(), ("--latency", 250), ("--data-latency", 40), ("--limits", "calls=7"), ("--seed", 1)]
    rows = [json.loads(backtest("--agent", "passive", "--episode", episode, *given, "--json").stdout)[0] for given in settings]
    assert len({row["settings_digest"] for row in rows}) == len(settings)


@pytest.mark.nightly
def test_tear_sheets_are_written_for_each_agent_and_episode(episode: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sheets"
    result = backtest("--agent", "buy-and-hold", "--agent", "passive", "--episode", episode, "--html", folder)
    assert result.exit_code == 0, result.output
    assert "wrote 2 tear sheets" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["buy-and-hold-KXTEST-26JAN20.html", "passive-KXTEST-26JAN20.html"]
    assert "buy-and-hold in KXTEST-26JAN20" in (folder / "buy-and-hold-KXTEST-26JAN20.html").read_text(encoding="utf-8")


@pytest.fixture
def two_episodes(tmp_path: Path) -> tuple[Path, Path]:
    return named_episode(tmp_path, "KXONE-26JAN20"), named_episode(tmp_path, "KXTWO-26JAN20")


@pytest.mark.nightly
def test_several_episodes_are_one_row_called_after_them(two_episodes: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = two_episodes
    given = ("--episode", f"{second}+{first}", "--bankroll", "321", "--out", tmp_path / "out", "--html", tmp_path / "html")
    result = backtest("--agent", "buy-and-hold", "--cadence", 5, *given)
    assert result.exit_code == 0, result.output
    assert "KXONE-26JAN20+KXTWO-26JAN20" in result.output
    row = pl.read_parquet(tmp_path / "out" / "backtests.parquet").row(0, named=True)
    assert (row["episode"], row["bankroll"]) == ("KXONE-26JAN20+KXTWO-26JAN20", Decimal(321))
    markets = pl.read_parquet(tmp_path / "out" / "market_pnl.parquet")
    assert set(markets["ticker"]) == {"KXONE-26JAN20-A", "KXONE-26JAN20-B", "KXTWO-26JAN20-A", "KXTWO-26JAN20-B"}
    assert markets["pnl"].sum() == row["pnl"]
    assert [path.name for path in (tmp_path / "html").iterdir()] == ["buy-and-hold-KXONE-26JAN20-KXTWO-26JAN20.html"]
