"""Holders of calls: names of processes, and whether a process has ended."""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")


def this_process() -> str:
    """Name of this process as a holder, `host:pid:mark`; the mark distinguishes processes with the same number."""
    return _name(os.getpid())


def is_gone(holder: str | None) -> bool:
    """Return whether `holder` names a process of this machine that has ended. False where that is unknown, as for other machines."""
    host, pid, mark = _parts(holder)
    if pid is None or host != socket.gethostname():
        return False
    space, _, started = mark.partition("-")
    if space != _space():
        return False
    now = _started(pid)
    return not is_running(pid) if now is None or not started else now != started


@lru_cache(maxsize=4)
def _name(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_space()}-{_started(pid) or ''}"


def _parts(holder: str | None) -> tuple[str, int | None, str]:
    parts = (holder or "").rsplit(":", 2)
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
        return "", None, ""
    return parts[0], int(parts[1]), parts[2]


@lru_cache(maxsize=1)
def _space() -> str:
    """The scope of process numbers as 8 digits: this boot and process namespace; without /proc this machine, by the address of its network interface.

    Machines may have the same name. Without an interface `uuid.getnode` is random, so that no other process counts as one of this machine.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        scope = f"{boot.strip()} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        scope = f"{uuid.getnode():012x}"
    return hashlib.sha256(scope.encode()).hexdigest()[:8]


def _started(pid: int) -> str | None:
    """Start of the process, in clock ticks since the boot (proc(5), field 22 of `stat`); "" when only its remains are there.

    None when it is missing, or the system hides the processes of other users.
    """
    try:
        state, *fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return "" if state in "ZX" else fields[18]


def is_running(pid: int) -> bool:
    """Return whether a process of that number is running on this machine; True where the system does not say.

    A process that has ended may keep its number for ever: in a container, the first process often does not read how orphans ended.
    """
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _started(pid) != ""
