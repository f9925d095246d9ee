"""Examples of the pages on replay run, and the table of benchmarks states which goals were reached."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from bellwether.replay import CENT, Agent, Backtest, BacktestSettings, load, run
from bellwether.replay.agents.loader import load_agent_class
from bellwether.replay.episode.folder import validate
from bellwether.replay.registry import agents
from bellwether.replay.units import NO, SECOND, YES
from benchmarks._replay import __main__ as comparison
from cli.main import main
from tests.unit.replay.agents.scenes import TRADE, market, settings
from tests.unit.replay.episode.folders import Native
from tests.unit.replay.llm.scripted_models import Scripted, episode, trade

DOCS = Path(__file__).resolve().parents[3] / "docs"
CADENCE = 5 * SECOND


def blocks(page: str, language: str = "python") -> list[str]:
    """Return the examples of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.DOTALL)


def block(text: str) -> str:
    """Return the example of agents.md that contains a text."""
    (found,) = [one for one in blocks("agents") if text in one]
    return found


def example(name: str, folder: Path) -> type[Agent]:
    """Return the class of this name in an example of agents.md."""
    path = folder.parent / f"example_{name.lower()}.py"
    path.write_text(block(f"class {name}("), encoding="utf-8")
    return load_agent_class(f"{path}:{name}")


def execute(code: str, **given: object) -> dict[str, object]:
    exec(compile(code, "example.md", "exec"), given)
    return given


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small episode in a writable working folder."""
    monkeypatch.chdir(tmp_path)
    return Native().write(tmp_path / "KXTEST-26JAN20")


def test_the_first_agent_trades_from_the_command_and_from_python(folder: Path) -> None:
    shown = re.search(r"^ {4}bellwether (backtest .*my_file.*)$", (DOCS / "agents.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert shown is not None
    Path("my_file.py").write_text(blocks("agents")[0], encoding="utf-8")
    result = CliRunner().invoke(main, [*shown[1].replace(" ID", f" {folder}").split(), "--cadence", "5"])
    assert result.exit_code == 0, result.output
    assert "KXTEST-26JAN20" in result.output
    maker = example("Maker", folder)
    done = run(load(folder), maker(spread_cents=4, size=2), BacktestSettings(cadence=CADENCE))
    assert done.failure is None
    assert set(done.orders["side"]) == {"yes", "no"}
    assert isinstance(execute(block("Maker(spread_cents=6)"), episode=load(folder), Maker=maker)["profit"], int)
    Path("agents.toml").write_text(blocks("agents", "toml")[0], encoding="utf-8")
    agent = agents(folder.parent)["wide-maker"].source().make()
    assert (agent.name, agent.params) == ("wide-maker", {"spread_cents": 6, "size": 10})


def test_the_agent_with_callbacks_trades(folder: Path) -> None:
    done = run(market(TRADE), example("Pairs", folder)(), settings())
    assert done.failure is None
    # YES at 45 cents at the print, and a bid for NO at 53 sent at that instant.
    assert done.outcome.orders[["side", "price", "sent"]][:2].tolist() == [(YES, 45 * CENT, 0), (NO, 53 * CENT, 90 * SECOND)]


def test_the_arrays_and_the_compiled_examples_trade(folder: Path) -> None:
    classes = example("JoinTheBid", folder), example("CompiledJoinTheBid", folder)
    first, second = (run(load(folder), cls(), BacktestSettings(cadence=CADENCE)) for cls in classes)
    assert (first.failure, second.failure) == (None, None)
    assert len(first.outcome.orders) > 1
    assert first.outcome.digest() == second.outcome.digest()


@pytest.mark.nightly
def test_the_example_of_an_isolated_agent_trades(folder: Path) -> None:
    Path("my_file.py").write_text(block("class Maker("), encoding="utf-8")
    done = execute(block("isolated=True"), episode=load(folder))["backtest"]
    assert isinstance(done, Backtest)
    assert done.failure is None, done.failure


def test_steps_are_read_with_the_sql(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    trade(Scripted(tmp_path / "journal.db"), file, episode(4))
    (sql,) = [one for one in blocks("agents", "sql") if "llm-….jsonl" in one]
    found = duckdb.sql(sql.replace("llm-….jsonl", str(file))).fetchall()
    assert [(step, ended) for step, ended, *_ in found] == [(step, "done") for step in range(4)]
    assert all(dollars == pytest.approx(requests * 0.00002) for *_, requests, dollars in found)


def test_the_example_makes_the_episode_that_it_says(folder: Path) -> None:
    (code,) = [one for one in blocks("replay") if "BookBuilder" in one]
    page = (DOCS / "replay.md").read_text(encoding="utf-8")
    printed = page.partition(f"{code}```\n\n    ")[2].partition("\n")[0]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        execute(code)
    assert said.getvalue().strip() == printed
    report = validate(folder.parent / "RAIN-26JAN20")
    assert report.errors == report.warnings == []


def test_the_examples_of_rules_run(folder: Path) -> None:
    for code in blocks("replay-rules"):
        execute(code)


def test_the_table_of_benchmarks_has_goal_and_reached() -> None:
    done = comparison.Run("2026-11-26", "a machine")
    done.lines = [
        comparison.Line("first", "nba", 12.0, 11.0, 13.0, bound=">= 10"),
        comparison.Line("second", "nba", 9.0, 8.0, 10.0, bound=">= 10"),
        comparison.Line("third", "nba", bound=">= 10", reason="no network"),
    ]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in comparison.table(done).splitlines() if line.startswith("|")]
    assert [row[2:6] for row in cells[2:]] == [
        ["at least 10x", "12x", "11x to 13x", "yes"],
        ["at least 10x", "9x", "8x to 10x", "no"],
        ["at least 10x", "not measured", "", ""],
    ]
