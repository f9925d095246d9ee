"""The page on agents is true: its classes run as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bellwether.replay import Agent, BacktestSettings, CompiledAgent, load, run
from bellwether.replay.agents.load import agent_class
from bellwether.replay.agents.records import Fill, Position, Trade
from bellwether.replay.agents.views import Market, Quotes
from bellwether.replay.engine.codes import O_PRICE, O_SENT, O_SIDE
from bellwether.replay.registry import agents
from bellwether.replay.units import NO, SECOND, YES
from cli.main import main
from tests.replay.agents.scenes import TRADE, market, settings
from tests.replay.episode.folders import Native

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
FIRST, BETWEEN, FROM_PYTHON, ARRAYS, COMPILED, FOLLOWS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
CADENCE = 5 * SECOND


@pytest.fixture
def episode(tmp_path: Path) -> Path:
    return Native().write(tmp_path / "KXTEST-26JAN20")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_first_agent_runs_with_the_command_shown(tmp_path: Path, episode: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.search(r"^ {4}bellwether (backtest .*my_file.*)$", PAGE, flags=re.MULTILINE)
    assert shown is not None
    written(tmp_path, "my_file.py", FIRST)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [*shown[1].replace("=30", "=60").replace(" ID", f" {episode}").split(), "--cadence", "5"])
    assert result.exit_code == 0, result.output
    assert "KXTEST-26JAN20" in result.output


def test_the_first_agent_trades(tmp_path: Path, episode: Path) -> None:
    cheap = agent_class(f"{written(tmp_path, 'first.py', FIRST)}:BidCheap")
    orders = run(load(episode), cheap(limit_cents=60), BacktestSettings(cadence=CADENCE)).outcome.orders
    assert len(orders) > 0
    assert len(run(load(episode), cheap(limit_cents=2), BacktestSettings(cadence=CADENCE)).outcome.orders) == 0


def test_the_agent_that_is_called_between_decisions_pairs_its_fills(tmp_path: Path) -> None:
    pairs = agent_class(f"{written(tmp_path, 'pairs.py', BETWEEN)}:Pairs")
    backtest = run(market(TRADE), pairs(), settings())
    assert backtest.failure is None
    # YES at 45 cents at the print, and a bid for NO at 53 sent at that instant.
    assert backtest.outcome.orders[:2, [O_SIDE, O_PRICE, O_SENT]].tolist() == [[YES, 450, 0], [NO, 530, 90 * SECOND]]


def test_the_example_from_python_runs(tmp_path: Path, episode: Path) -> None:
    names: dict[str, object] = {"episode": load(episode), "BidCheap": agent_class(f"{written(tmp_path, 'again.py', FIRST)}:BidCheap")}
    exec(compile(FROM_PYTHON, "agents.md", "exec"), names)
    assert isinstance(names["profit"], int)


def test_the_arrays_and_the_compiled_example_trade_alike(tmp_path: Path, episode: Path) -> None:
    plain = agent_class(f"{written(tmp_path, 'arrays.py', ARRAYS)}:JoinTheBid")
    fast = agent_class(f"{written(tmp_path, 'compiled.py', COMPILED)}:CompiledJoinTheBid")
    assert issubclass(fast, CompiledAgent)
    first, second = (run(load(episode), cls(), BacktestSettings(cadence=CADENCE)) for cls in (plain, fast))
    assert (first.failure, second.failure) == (None, None)
    assert len(first.outcome.orders) > 1
    assert first.outcome.digest() == second.outcome.digest()


def test_the_compiled_callbacks_follow_the_touch(tmp_path: Path, episode: Path) -> None:
    follows = agent_class(f"{written(tmp_path, 'follows.py', FOLLOWS)}:FollowTheTouch")
    backtest = run(load(episode), follows(), BacktestSettings())
    assert backtest.failure is None
    # There is no decision for 300 seconds.
    assert 0 < backtest.outcome.orders[:, O_SENT].max() - backtest.tape.start < 300 * SECOND


def test_the_registry_entry_shown_is_one(tmp_path: Path) -> None:
    written(tmp_path, "my_file.py", FIRST)
    written(tmp_path, "agents.toml", re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[0])
    agent = agents(tmp_path)["buy-cheap-30"].make()
    assert isinstance(agent, Agent)
    assert (agent.name, agent.params) == ("buy-cheap-30", {"limit_cents": 30})


def test_the_attributes_that_it_names_are_there() -> None:
    from bellwether.replay import AgentContext

    table = re.search(r"## What the context has.*?\n\n(\|.*?)\n\n", PAGE, flags=re.DOTALL)
    assert table is not None
    own, shown = [], []
    for row in table[1].splitlines()[2:]:
        first, second = row.strip("|").split(" | ", 1)
        own += re.findall(r"`(\w+)", first)
        shown += re.findall(r"`(\w+)`", second) if "markets()" in first else []
    assert len(own) > 20
    assert {name for name in own if not hasattr(AgentContext, name)} == set()
    assert shown
    assert {name for name in shown if not hasattr(Market, name)} == set()
    for row, view in (("`trades(ticker)`", Trade), ("`fills(ticker)`", Fill), ("`position(ticker)`", Position)):
        (line,) = [line for line in table[1].splitlines() if line.startswith(f"| {row}")]
        named = re.findall(r"`(\w+)`", line.split(":")[1])
        assert len(named) > 5
        assert {name for name in named if not hasattr(view, name)} == set()
    assert all(hasattr(Quotes, name) for name in ("yes_bid", "no_bid", "yes_ask", "no_ask", "active"))
