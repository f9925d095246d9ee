"""Agents that try to cheat or to break things, in a process of their own: none reaches anything, none hangs the backtest."""

from __future__ import annotations

import os
import socket
import sys
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


def source(attack: str, target: str = "") -> AgentSource:
    return AgentSource(f"{FILE}:Hostile", {"attack": attack, "target": target})


def attacked(attack: str, target: str = "", seconds: float = SECONDS) -> Backtest:
    return run(market(), source(attack, target), settings(seconds_per_step=seconds), isolated=LIMITS)


#: Attack -> type of the failure that ends the trading, None where it goes on, and the orders that were sent.
HARMLESS: dict[str, tuple[str | None, int]] = {
    "read_attributes": (None, 1),
    "walk_the_collector": (None, 1),
    "walk_frames": (None, 1),
    "walk_modules": (None, 1),
    "write_to_views": (None, 2),
    "reset_the_budget": ("BudgetError", 101),
    "loop": ("StepTimeout", 1),
    "loop_in_c": ("StepTimeout", 1),
    "call_forever": ("StepTimeout", 1),
    "send_and_never_read": ("StepTimeout", 1),
    "send_a_huge_frame": ("MalformedMessage", 1),
    "write_to_the_wire": ("MalformedMessage", 1),
    "close_the_wire": ("ProcessEnded", 1),
    "allocate": ("MemoryError", 1),
    "write_to_stdout": (None, 1),
    "send_strange_orders": (None, 5),
    "interrupt": ("KeyboardInterrupt", 1),
    "stop_the_run": ("RunStopped", 1),
    "read_secrets": (None, 1),
}
#: What the wire refuses is in `test_isolated`.
NONSENSE = [["place", 0, 0, 0, 450, 1.5, 1, 0], ["loaded", "again", "{}", "timed", "on_fill"], "long"]


@pytest.mark.parametrize("attack", HARMLESS)
def test_an_attack_is_harmless(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUE_SECRET", "hunter2")
    kind, sent = HARMLESS[attack]
    backtest = attacked(attack, seconds=FEW_SECONDS if kind == "StepTimeout" else SECONDS)
    failure, orders = backtest.failure, backtest.outcome.orders
    assert (None if failure is None else failure.type) == kind, failure
    assert LOOT not in orders[:, O_COUNT], "it succeeded"
    assert len(orders) == sent
    assert backtest.outcome.pnl[0] == 0, "no order of these fills"


def test_a_returned_value_is_no_order() -> None:
    backtest = run(market(), AgentSource(f"{FILE}:Returns"), settings(), isolated=LIMITS)
    assert backtest.failure is not None
    assert (backtest.failure.type, len(backtest.outcome.orders)) == ("TypeError", 0)


@pytest.mark.parametrize("message", NONSENSE, ids=lambda message: orjson.dumps(message).decode()[:40])
def test_an_invalid_message_ends_the_agent_by_name(message: object) -> None:
    failure = attacked("send_nonsense", "long" if message == "long" else orjson.dumps(message).decode()).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("MalformedMessage", 1)


def test_what_it_patches_is_its_own() -> None:
    from bellwether.replay.agents import door, gateway

    before = door.Door, gateway.Gateway
    assert attacked("patch").failure is not None
    assert (door.Door, gateway.Gateway) == before
    assert run(market(), AgentSource("bellwether.replay.agents.baselines:Passive"), settings(), isolated=True).failure is None


@pytest.mark.parametrize("attack", ["open_files", "connect_out", "read_secrets", "walk_frames", "walk_the_collector", "walk_modules"])
def test_in_this_process_the_same_attacks_succeed(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What isolation is for; and that these attacks work where nothing prevents them."""
    monkeypatch.setenv("VENUE_SECRET", "hunter2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = str(server.getsockname()[1]) if attack == "connect_out" else str(Native().write(tmp_path / "KXTEST-26JAN20"))
        backtest = run(market(), source(attack, target), settings())
    assert LOOT in backtest.outcome.orders[:, O_COUNT]


@linux
def test_files_and_network_are_out_of_reach(tmp_path: Path) -> None:
    folder = Native().write(tmp_path / "KXTEST-26JAN20")
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as server:
        for attack, target in (("open_files", str(folder)), ("connect_out", str(server.getsockname()[1]))):
            backtest = attacked(attack, target)
            assert (backtest.failure, len(backtest.outcome.orders)) == (None, 1)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before


@linux
@pytest.mark.parametrize("attack", ["kill_the_parent", "read_the_parent", "fork"])
def test_other_processes_are_out_of_reach(attack: str) -> None:
    backtest = attacked(attack)
    assert (backtest.failure, len(backtest.outcome.orders)) == (None, 1)


@linux
def test_no_process_is_left() -> None:
    before = _agents()
    assert attacked("start_threads").failure is None
    late = attacked("sleep", seconds=FEW_SECONDS).failure
    assert late is not None
    assert late.type == "StepTimeout"
    assert _agents() <= before


def _agents() -> set[str]:
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
    failure = run(market(), source("sleep"), settings(), isolated=Isolation(seconds_per_run=2.0)).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("RunTimeout", 1)


@pytest.mark.parametrize(
    ("attack", "message"), [("end_at_once", "its process ended with code 0"), ("crash", "its process was ended by SIGSEGV")]
)
def test_the_failure_states_how_the_process_ended(attack: str, message: str) -> None:
    failure = attacked(attack).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("ProcessEnded", message)
