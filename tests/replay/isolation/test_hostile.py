"""Agents that try to cheat or to break things, in a process of their own: none reaches anything, none hangs the backtest."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from bellwether.replay import AgentSource, Backtest, Isolation, run
from bellwether.replay.engine.codes import O_COUNT
from tests.replay.agents.scenes import market, settings
from tests.replay.episode.folders import Native

FILE = Path(__file__).parent / "hostile" / "agents.py"
LOOT = 777
LIMITS = Isolation(memory=1 << 30, seconds_per_run=30)
#: Real seconds of a decision: enough on a busy machine, and few for one that never ends.
SECONDS, FEW_SECONDS = 20.0, 1.5

linux = pytest.mark.skipif(sys.platform != "linux", reason="the system forbids it on Linux alone")


@dataclass(frozen=True)
class Case:
    """An agent, and how its episode ends: the type of its failure, None for one that goes on to the end. orders: that it sent."""

    agent: str
    failure: str | None = None
    orders: int = 1


def attacked(agent: str, target: str = "", seconds: float = SECONDS) -> Backtest:
    source = AgentSource(f"{FILE}:{agent}", {"target": target})
    return run(market(), source, settings(seconds_per_step=seconds), isolated=LIMITS)


HARMLESS = [
    Case("ReadsAttributes"),
    Case("WalksTheCollector"),
    Case("WalksFrames"),
    Case("WalksModules"),
    Case("WritesToViews", orders=2),
    Case("ResetsTheBudget", "BudgetError", orders=101),
    Case("Sleeps", "StepTimeout"),
    Case("Loops", "StepTimeout"),
    Case("LoopsInC", "StepTimeout"),
    Case("AsksForever", "StepTimeout"),
    Case("SendsAndNeverReads", "StepTimeout"),
    Case("SendsAHugeFrame", "MalformedMessage"),
    Case("WritesToTheWire", "MalformedMessage"),
    Case("ClosesTheWire", "ProcessEnded"),
    Case("StartsThreads"),
    Case("Allocates", "MemoryError"),
    Case("AllocatesSlowly", "StepTimeout"),
    Case("WritesToStdout"),
    Case("SendsStrangeOrders", orders=5),
    Case("Returns", "TypeError", orders=0),
    Case("LeavesTheProgram", "SystemExit"),
    Case("Interrupts", "KeyboardInterrupt"),
    Case("StopsTheRun", "RunStopped"),
    Case("EndsAtOnce", "ProcessEnded"),
    Case("Crashes", "ProcessEnded"),
    Case("ReadsSecrets"),
]
NONSENSE = [
    ["place", 0, 0, 0, 450, 1.5, 1, 0],
    ["place", 0, 0, 0, 450, True, 1, 0],
    ["place", 0, 0, 0, 450, 2**63, 1, 0],
    ["place", 0, 0, 0, 450],
    ["place_many", [[0, 0, 0, 450, 1, 1]]],
    ["place_many", [[0, 0, 0, 450, 1, 1, 0], [1]]],
    ["place_many", [[0, 0, 0, 450, "1", 1, 0]]],
    ["quote_many", [[2**62, 0]], 100, 10],
    ["cancel_many", [None]],
    ["conditions"],
    ["__class__"],
    ["_session"],
    [],
    {},
    None,
    ["failed", 1, 2, 3],
    ["loaded", "again", "{}", "timed", "on_fill"],
    "long",
]


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.agent)
def test_it_is_harmless(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUE_SECRET", "hunter2")
    backtest = attacked(case.agent, seconds=FEW_SECONDS if case.failure == "StepTimeout" else SECONDS)
    failure = backtest.failure
    assert (None if failure is None else failure.type) == case.failure, failure
    orders = backtest.outcome.orders
    assert LOOT not in orders[:, O_COUNT], "it got through"
    assert len(orders) == case.orders
    assert backtest.outcome.pnl[0] == 0, "no order of these fills"


@pytest.mark.parametrize("message", NONSENSE, ids=lambda message: orjson.dumps(message).decode()[:40])
def test_a_message_that_is_none_ends_the_agent_by_name(message: object) -> None:
    failure = attacked("SendsNonsense", "long" if message == "long" else orjson.dumps(message).decode()).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("MalformedMessage", 1)


def test_memory_that_is_not_its_own_cannot_be_read() -> None:
    """It crashes, or reads what its own process has."""
    assert LOOT not in attacked("ReadsBehindArrays").outcome.orders[:, O_COUNT]


def test_what_it_patches_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from bellwether.replay.agents import door, gateway

    before = door.Door, gateway.Gateway
    assert attacked("Patches").failure is not None
    assert (door.Door, gateway.Gateway) == before
    assert run(market(), AgentSource("bellwether.replay.agents.baselines:Passive"), settings(), isolated=True).failure is None


@pytest.mark.parametrize("agent", ["OpensFiles", "ConnectsOut", "ReadsSecrets", "WalksFrames", "WalksTheCollector", "WalksModules"])
def test_in_this_process_the_same_agents_get_through(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What isolation is for; and that these attacks work where nothing prevents them."""
    monkeypatch.setenv("VENUE_SECRET", "hunter2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = str(server.getsockname()[1]) if agent == "ConnectsOut" else str(Native().write(tmp_path / "KXTEST-26JAN20"))
        backtest = run(market(), AgentSource(f"{FILE}:{agent}", {"target": target}), settings())
    assert LOOT in backtest.outcome.orders[:, O_COUNT]


@linux
def test_files_of_the_episode_and_others_are_out_of_reach(tmp_path: Path) -> None:
    folder = Native().write(tmp_path / "KXTEST-26JAN20")
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    backtest = attacked("OpensFiles", str(folder))
    assert backtest.failure is None
    assert len(backtest.outcome.orders) == 1
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before


@linux
def test_no_connection_gets_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        backtest = attacked("ConnectsOut", str(server.getsockname()[1]))
    assert backtest.failure is None
    assert len(backtest.outcome.orders) == 1


@linux
@pytest.mark.parametrize("agent", ["KillsTheParent", "ReadsTheParent", "Forks", "LeavesChildren"])
def test_other_processes_are_out_of_reach(agent: str) -> None:
    backtest = attacked(agent)
    assert backtest.failure is None, backtest.failure
    assert len(backtest.outcome.orders) == 1


@linux
def test_no_process_is_left() -> None:
    before = _sessions()
    attacked("StartsThreads")
    attacked("Sleeps", seconds=FEW_SECONDS)
    assert _sessions() <= before


def _sessions() -> set[str]:
    """Processes that run an isolated agent, and are children of this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command, status = (entry / "cmdline").read_text(), (entry / "stat").read_text()
            except OSError:
                continue
            if "bellwether.replay.isolation.child" in command and status.rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(entry.name)
    return found


def test_a_run_has_a_limit_too() -> None:
    source = AgentSource(f"{FILE}:Sleeps")
    backtest = run(market(), source, settings(), isolated=Isolation(seconds_per_run=2.0))
    assert backtest.failure is not None
    assert (backtest.failure.type, backtest.failure.step) == ("RunTimeout", 1)


def test_what_it_printed_last_is_shown_with_how_it_ended() -> None:
    failure = attacked("EndsAtOnce").failure
    assert failure is not None
    assert failure.message == "its process ended with code 0"
    crashed = attacked("Crashes").failure
    assert crashed is not None
    assert crashed.message == "its process was ended by SIGSEGV"
