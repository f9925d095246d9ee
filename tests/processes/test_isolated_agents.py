"""Isolated agents trade exactly as in the simulator's process, reach nothing else, and end with it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from bellwether.errors import ConfigError
from bellwether.replay import AgentSource, BacktestSettings, Limits, prepare, run
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.market_maker import MarketMaker
from bellwether.replay.registry import find_agent
from bellwether.replay.units import SECOND
from cli.main import main
from tests.processes.attacks import LOOT, ROOT, SECONDS, attacked, commands, linux, source
from tests.unit.replay.agents.scenes import TRADE, market, settings
from tests.unit.replay.agents.test_context import with_series
from tests.unit.replay.episode.folders import Native
from tests.unit.replay.test_portfolio import POLYMARKET_RULES, quoted

SAMPLES = ROOT / "tests" / "unit" / "replay" / "agents" / "sample_agents.py"
LATE = {"order_latency": SECOND}
#: The package's quoting agent; two agents that make every call, one with callbacks; and two that check tags and timers.
RUNS: dict[str, tuple[Agent | AgentSource, dict[str, Any]]] = {
    "market maker": (MarketMaker(size=1), {}),
    "every call": (AgentSource(f"{SAMPLES}:Everything", {"seed": 3}), {}),
    "every call, late": (AgentSource(f"{SAMPLES}:Everything", {"seed": 3}), LATE),
    "callbacks": (AgentSource(f"{SAMPLES}:Listens", {"seed": 4}), {}),
    "callbacks, late": (AgentSource(f"{SAMPLES}:Listens", {"seed": 4}), LATE),
    "tags": (AgentSource(f"{SAMPLES}:Tags"), {"cadence": 60 * SECOND}),
    "timers": (AgentSource(f"{SAMPLES}:Timed"), {"cadence": 60 * SECOND}),
}
#: Markets with prints. The other agents read a series.
PRINTS = {"market maker": market(TRADE, (200, *TRADE[1:])), "tags": market(TRADE), "timers": market(TRADE)}


@pytest.fixture(scope="module", autouse=True)
def _loaded_engine() -> None:
    """Load the compiled engine, which the first test would otherwise pay for."""
    run(market(), MarketMaker(size=1), settings(queues=0))


@pytest.mark.parametrize("name", RUNS)
def test_fills_are_the_same_to_the_last_integer(name: str) -> None:
    agent, changed = RUNS[name]
    chosen = settings(**{"cadence": 30 * SECOND, **changed})
    played = prepare(PRINTS[name], chosen.rules) if name in PRINTS else with_series()
    here, there = run(played, agent, chosen), run(played, agent, chosen, isolated=True)
    assert here.failure is None, here.failure
    assert there.digest == here.digest, (here.failure, there.failure)
    assert np.array_equal(there.outcome.fills, here.outcome.fills)
    assert np.array_equal(there.outcome.orders, here.outcome.orders)
    assert there.orders["tag"].to_list() == here.orders["tag"].to_list()
    assert (there.agent, there.parameters, there.failure) == (here.agent, here.parameters, here.failure)
    assert len(here.outcome.orders) > 0


def test_a_portfolio_is_traded_as_in_this_process() -> None:
    made = [quoted("KXA"), quoted("poly", POLYMARKET_RULES, start=30)]
    there, here = (
        run(made, MarketMaker(size=5), BacktestSettings(cadence=10 * SECOND, queues=0), isolated=isolated) for isolated in (True, False)
    )
    assert len(there.outcome.orders) > 2
    assert there.digest == here.digest


def test_a_failure_comes_back_with_its_traceback() -> None:
    for isolated in (False, True):
        failure = run(market(), AgentSource(f"{SAMPLES}:Fails"), settings(), isolated=isolated).failure
        assert failure is not None
        assert (failure.type, failure.message, failure.step) == ("ZeroDivisionError", "division by zero", 2)
        assert "in _divide" in failure.traceback
        assert "backtest.py" not in failure.traceback
        assert "child.py" not in failure.traceback
        assert ("printed by it" in failure.traceback) == isolated


@pytest.mark.parametrize("name", ["Waits", "BadName"])
def test_an_agent_that_cannot_be_isolated_is_refused_and_fails_in_a_run(name: str) -> None:
    with pytest.raises(ConfigError):
        find_agent(f"{SAMPLES}:{name}", isolated=Limits())
    failure = run(market(), AgentSource(f"{SAMPLES}:{name}"), settings(), isolated=True).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("ConfigError", -1)


@pytest.mark.parametrize("isolated", [None, Limits()])
def test_a_file_names_its_only_agent(tmp_path: Path, isolated: Limits | None) -> None:
    file = tmp_path / "mine.py"
    act = "    def act(self, ctx): ...\n"
    file.write_text(f"from bellwether.replay import Agent\nclass Base(Agent):\n{act}class Last(Base):\n{act}class Helper(dict):\n{act}")
    found = find_agent(str(file), isolated=isolated)
    assert (found.name, found.agent) == ("last", f"{file}:Last")


MINE = """
from bellwether.replay import Agent
open({trace!r}, "a").write("loaded ")
class Mine(Agent):
    def act(self, ctx):
        pass
"""


def test_the_file_is_not_loaded_in_this_process(tmp_path: Path) -> None:
    trace, mine = tmp_path / "trace", tmp_path / "mine.py"
    mine.write_text(MINE.format(trace=str(trace)))
    assert find_agent(f"{mine}:Mine", isolated=Limits()).name == "mine"
    failure = run(market(), AgentSource(f"{mine}:Mine"), settings(), isolated=True).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("OSError", -1)
    assert not trace.exists()


# Attacks


@pytest.mark.parametrize(
    ("attack", "kind", "sent"),
    [
        ("walk_the_collector", None, 1),
        ("send_and_never_read", "StepTimeout", 1),
        ("write_to_the_wire", "MalformedMessage", 1),
        ("allocate", "MemoryError", 1),
    ],
)
def test_an_attack_is_harmless(attack: str, kind: str | None, sent: int) -> None:
    backtest = attacked(attack, seconds=0.5 if kind == "StepTimeout" else SECONDS)
    failure, orders = backtest.failure, backtest.outcome.orders
    assert (None if failure is None else failure.type) == kind, failure
    assert LOOT not in orders["count"], "it succeeded"
    assert len(orders) == sent
    assert backtest.outcome.pnl == 0, "no order of these fills"


@linux
def test_files_and_network_are_out_of_reach(tmp_path: Path) -> None:
    folder = Native().write(tmp_path / "KXTEST-26JAN20")
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as server:
        for attack, target in (("open_files", str(folder)), ("connect_out", str(server.getsockname()[1]))):
            backtest = attacked(attack, target)
            assert (backtest.failure, len(backtest.outcome.orders)) == (None, 1)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before


def test_a_run_has_a_limit_too() -> None:
    failure = run(market(), source("sleep"), settings(limits=Limits(run=1.0)), isolated=True).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("RunTimeout", 1)


def test_the_others_of_a_command_run_to_the_end(tmp_path: Path) -> None:
    episode, file = Native().write(tmp_path / "KXTEST-26JAN20"), tmp_path / "mine" / "fails.py"
    file.parent.mkdir()
    file.write_text("import threading\nfrom bellwether.replay import Agent\nthreading.Event().wait(10**6)\nclass Fails(Agent): ...\n")
    words = ["backtest", "--agent", f"{file}:Fails", "--agent", "passive", "--episode", str(episode), "--limits", "decision=1s"]
    result = CliRunner().invoke(main, [*words, "--isolated", "--json"])
    assert result.exit_code == 1, result.output
    rows = {row["agent"]: row["failure"] for row in orjson.loads(result.stdout)}
    assert rows["passive"] is None
    assert rows["fails"].startswith("StepTimeout")


_KILLED = """
import os, signal, sys
from bellwether.replay import AgentSource, Limits
from bellwether.replay.isolation.host import IsolatedAgent
sys.path.append(sys.argv[1])
with IsolatedAgent(AgentSource("bellwether.replay.agents.builtin:Passive"), Limits()):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@linux
def test_no_agent_outlives_a_simulator_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, tmp_path], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + SECONDS
    while left := [command for command in commands() if str(tmp_path) in command]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
