"""Agents that attack from a separate process: they reach nothing and cannot stop the backtest."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from tempfile import mkdtemp

import pytest

from bellwether.replay import AgentSource, run
from tests.processes.attacks import FEW_SECONDS, FILE, LIMITS, LOOT, ROOT, SECONDS, attacked, commands, linux, source
from tests.unit.replay.agents.scenes import market, settings
from tests.unit.replay.episode.folders import Native

#: Attack -> type of the failure that ends trading (None: trading continues), and the number of orders sent.
HARMLESS: dict[str, tuple[str | None, int]] = {
    "read_attributes": (None, 1),
    "walk_the_collector": (None, 1),
    "walk_frames": (None, 1),
    "walk_modules": (None, 1),
    "write_to_views": (None, 2),
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
    "name_an_unknown_market": ("MalformedMessage", 1),
    "interrupt": ("KeyboardInterrupt", 1),
    "stop_the_run": ("RunStopped", 1),
    "read_secrets": (None, 1),
}


@pytest.mark.parametrize("attack", HARMLESS)
def test_an_attack_is_harmless(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUE_SECRET", "hunter2")
    kind, sent = HARMLESS[attack]
    backtest = attacked(attack, seconds=FEW_SECONDS if kind == "StepTimeout" else SECONDS)
    failure, orders = backtest.failure, backtest.outcome.orders
    assert (None if failure is None else failure.type) == kind, failure
    assert LOOT not in orders["count"], "it succeeded"
    assert len(orders) == sent
    assert backtest.outcome.pnl == 0, "no order of these fills"


def test_what_it_patches_is_its_own() -> None:
    from bellwether.replay import local_port
    from bellwether.replay.agents import context

    before = context.AgentContext, local_port.LocalPort
    assert attacked("patch").failure is not None
    assert (context.AgentContext, local_port.LocalPort) == before
    assert run(market(), AgentSource("bellwether.replay.agents.builtin:Passive"), settings(), isolated=True).failure is None


@pytest.mark.parametrize("attack", ["open_files", "connect_out", "read_secrets", "walk_frames", "walk_the_collector", "walk_modules"])
def test_in_this_process_the_same_attacks_succeed(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the attacks work and that isolation is what stops them."""
    monkeypatch.setenv("VENUE_SECRET", "hunter2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = str(server.getsockname()[1]) if attack == "connect_out" else str(Native().write(tmp_path / "KXTEST-26JAN20"))
        backtest = run(market(), source(attack, target), settings())
    assert LOOT in backtest.outcome.orders["count"]


@linux
@pytest.mark.parametrize("attack", ["kill_the_parent", "read_the_parent", "run_programs"])
def test_other_processes_are_out_of_reach(attack: str) -> None:
    backtest = attacked(attack, str(os.getpid()))
    assert (backtest.failure, len(backtest.outcome.orders)) == (None, 1)


@linux
def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert attacked("start_threads").failure is None
    assert attacked("fork").failure is None
    for attack in ("sleep", "outlive_the_run", "trace_the_first_process"):
        late = attacked(attack, seconds=FEW_SECONDS).failure
        assert late is not None
        assert late.type == "StepTimeout"
    deadline = time.monotonic() + SECONDS
    while left := [command for command in commands() if str(tmp_path) in command]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("attack", "message"), [("end_at_once", "its process ended with code 0"), ("crash", "its process was ended by SIGSEGV")]
)
def test_the_failure_states_how_the_process_ended(attack: str, message: str) -> None:
    failure = attacked(attack).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("ProcessEnded", message)


# What namespaces hide


def episode_next_to(folder: Path) -> tuple[str, Path]:
    """Write an agent's file to a folder that also has an episode, a home, results and a link."""
    folder.mkdir()
    shutil.copy(FILE, folder / "agents.py")
    (folder / "weights.json").write_text("[1, 2]")
    (folder / ".env").write_text("VENUE_SECRET=hunter2")
    (folder / "out").mkdir()
    (folder / "out" / "backtests.csv").write_text("pnl\n1\n")
    episode = Native().write(folder / "episodes" / "KXTEST-26JAN20") / "settlement.json"
    assert episode.is_file()
    (folder / "link").symlink_to(episode)
    return f"{folder / 'agents.py'}:Hostile", episode


def key() -> int:
    """Add a key to the keyring of this session, and return its number."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(248, b"user", b"bellwether-test", b"hunter2", ctypes.c_long(7), ctypes.c_long(-3))


def segment() -> int:
    """Return the number of a shared memory segment of System V."""
    return ctypes.CDLL(None).shmget(0x1234, 8, 0o1666)


#: Attack -> its target, computed from the settlement's path and the name of a shared memory.
HIDDEN: dict[str, Callable[[Path, str], object]] = {
    "stat_it": lambda settlement, memory: settlement,
    "follow_a_link": lambda settlement, memory: settlement,
    "search_everywhere": lambda settlement, memory: settlement,
    "list_processes": lambda settlement, memory: os.getpid(),
    "use_inherited_descriptors": lambda settlement, memory: "",
    "look_into_shared_memory": lambda settlement, memory: memory,
    "attach_system_v_memory": lambda settlement, memory: segment(),
    "connect_to_an_abstract_socket": lambda settlement, memory: "bellwether-test",
    "call_the_kernel": lambda settlement, memory: key(),
    "execute_from_memory": lambda settlement, memory: "",
    "change_its_own_files": lambda settlement, memory: "",
    "read_devices": lambda settlement, memory: "",
    "raise_its_limits": lambda settlement, memory: "",
}


@linux
@pytest.mark.parametrize("attack", HIDDEN)
def test_the_rest_of_the_machine_is_hidden(attack: str, tmp_path: Path) -> None:
    reference, settlement = episode_next_to(tmp_path / "mine")
    memory = SharedMemory(create=True, size=64)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0bellwether-test")
            server.listen()
            source = AgentSource(reference, {"attack": attack, "target": str(HIDDEN[attack](settlement, memory.name))})
            backtest = run(market(), source, settings(limits=replace(LIMITS, decision=SECONDS)), isolated=True)
    finally:
        memory.close()
        memory.unlink()
    assert (backtest.failure, len(backtest.outcome.orders)) == (None, 1), "it succeeded"


@linux
@pytest.mark.parametrize("attack", ["stat_it", "follow_a_link", "list_processes", "attach_system_v_memory", "call_the_kernel"])
def test_in_this_process_nothing_is_hidden(attack: str, tmp_path: Path) -> None:
    reference, settlement = episode_next_to(tmp_path / "mine")
    source = AgentSource(reference, {"attack": attack, "target": str(HIDDEN[attack](settlement, ""))})
    assert LOOT in run(market(), source, settings()).outcome.orders["count"]


# Failures while it is loaded

LOADING = """
import os, stat, time
from bellwether.replay import Agent
def is_socket(one):
    try:
        return stat.S_ISSOCK(os.fstat(one).st_mode)
    except OSError:
        return False
def wire():
    return next(one for one in range(3, 256) if is_socket(one))
{imported}
class Fails(Agent):
    def __init__(self):
        {made}
    def act(self, ctx):
        pass
"""
#: Contents of the file -> type of the failure.
BEFORE = {
    "raise ValueError('no')": "ValueError",
    "raise SystemExit(3)": "SystemExit",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "time.sleep(10**6)": "StepTimeout",
    "exec('while True: pass')": "StepTimeout",
    "os._exit(7)": "ProcessEnded",
    "os.abort()": "ProcessEnded",
    "bytearray(10 << 30)": "MemoryError",
    "os.close(wire()); time.sleep(10**6)": "ProcessEnded",
    "os.write(wire(), b'x' * 100); time.sleep(10**6)": "MalformedMessage",
    "from bellwether.errors import ConfigError; raise ConfigError('stop')": "ConfigError",
    "import no_such_module": "ModuleNotFoundError",
}


@pytest.mark.parametrize(("code", "where"), zip(BEFORE, ("imported", "made") * 6, strict=True))
def test_an_agent_that_fails_while_it_is_loaded_fails_alone(code: str, where: str, tmp_path: Path) -> None:
    file = tmp_path / "mine" / "fails.py"
    file.parent.mkdir()
    file.write_text(LOADING.format(**{"imported": "", "made": "pass", where: code}))
    seconds = FEW_SECONDS if BEFORE[code] == "StepTimeout" else SECONDS
    begun = time.monotonic()
    backtest = run(market(), AgentSource(f"{file}:Fails"), settings(limits=replace(LIMITS, decision=seconds)), isolated=True)
    assert time.monotonic() - begun < SECONDS + 20
    assert backtest.failure is not None
    assert (backtest.failure.type, backtest.failure.step) == (BEFORE[code], -1)
    assert (backtest.agent, len(backtest.outcome.orders), backtest.outcome.pnl) == ("fails", 0, 0)


# Systems without namespaces

_RUN = """
from bellwether.replay import AgentSource, run
from tests.unit.replay.agents.scenes import market, settings
run(market(), AgentSource("bellwether.replay.agents.builtin:Passive"), settings(), isolated=True)
"""


@linux
@pytest.mark.skipif(shutil.which("unshare") is None or shutil.which("setpriv") is None, reason="util-linux is not installed")
def test_a_system_without_namespaces_is_refused_with_the_remedy() -> None:
    inner = 'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all --inh-caps -all --no-new-privs "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", inner, "sh", sys.executable, "-c", _RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "bubblewrap could not start it: bwrap: " in done.stderr
    assert "docs/operating.md" in done.stderr.splitlines()[-1]


_START = """
from bellwether.replay import AgentSource, Limits
from bellwether.replay.isolation.host import IsolatedAgent
with IsolatedAgent(AgentSource(REFERENCE), Limits()) as agent:
    print(agent.name)
"""


@linux
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_a_normal_user_can_isolate() -> None:
    file = Path(mkdtemp(dir="/tmp")) / "mine" / "agents.py"
    cache = file.parents[1] / "cache"
    try:
        file.parent.mkdir()
        cache.mkdir()
        shutil.copy(FILE, file)
        for path, mode in ((file.parents[1], 0o755), (file.parent, 0o755), (cache, 0o777)):
            path.chmod(mode)
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PATH": "/usr/bin:/bin",
            "NUMBA_CACHE_DIR": str(cache),
            "HOME": "/nonexistent",
        }
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        system = f"/usr/bin/python3.{sys.version_info.minor}"
        for python in (sys.executable, system):
            runs = [*user, python, "-c", "import numpy, polars, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"]
            if Path(python).exists() and subprocess.run(runs, env=environment, capture_output=True, check=False).returncode == 0:
                break
        else:
            pytest.skip("no interpreter that another user can read")
        program = _START.replace("REFERENCE", repr(f"{file}:Returns"))
        done = subprocess.run([*user, python, "-c", program], env=environment, capture_output=True, text=True, check=False, cwd="/")
        assert done.stdout == "returns\n", done.stderr
    finally:
        shutil.rmtree(file.parents[1])
