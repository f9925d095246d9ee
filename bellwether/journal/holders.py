"""Names of the processes that hold claims, and detection of processes that have ended."""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")


def this_process() -> str:
    """Return the name of this process as a holder of claims: `host:pid:mark`. The mark distinguishes processes that had the same pid."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_process_space()}-{_start_time(pid) or ''}"


def is_gone(holder: str | None) -> bool:
    """Return True if `holder` is known to be a process of this machine that has ended. Processes of other machines count as running."""
    host, pid, mark = _parse_holder(holder)
    if pid is None or host != socket.gethostname():
        return False
    space, _, started = mark.partition("-")
    if space != _process_space():
        return False
    current = _start_time(pid)
    return not is_running(pid) if current is None or not started else current != started


def _parse_holder(holder: str | None) -> tuple[str, int | None, str]:
    parts = (holder or "").rsplit(":", 2)
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
        return "", None, ""
    return parts[0], int(parts[1]), parts[2]


@lru_cache(maxsize=1)
def _process_space() -> str:
    """Return 8 digits equal for processes whose pids are comparable: same boot and pid namespace, or without /proc the same network address.

    Machines may share a name. Without an interface `uuid.getnode` is random, so no other process counts as one of this machine.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        scope = f"{boot.strip()} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        scope = f"{uuid.getnode():012x}"
    return hashlib.sha256(scope.encode()).hexdigest()[:8]


def _start_time(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since boot (proc(5), field 22 of `stat`); "" for a zombie, None if unknown.

    None if it is missing or hidden by the system.
    """
    try:
        state, *fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return "" if state in "ZX" else fields[18]


def is_running(pid: int) -> bool:
    """Return True if a process with this number runs on this machine, or if that is unknown.

    A zombie may keep its number for ever: in a container, the first process often does not reap orphans.
    """
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _start_time(pid) != ""
