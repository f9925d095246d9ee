"""Takes from this process what an agent does not need: network, files, other processes, memory beyond a limit.

Linux: an empty network namespace where the system lets one be made, Landlock for files (man landlock(7)), seccomp for sockets and processes, no
capabilities. Elsewhere: resource limits alone. Nothing of it can be undone by the process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import bellwether
from bellwether.replay.isolation.settings import Confinement
from bellwether.replay.isolation.syscalls import filter_program

_OPEN_FILES = 256
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/dev/null",
)

# prctl(2), unshare(2), capset(2), landlock(7), seccomp(2)
_PDEATHSIG, _NO_NEW_PRIVS = 1, 38
_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
#: Rights over files, over network ports, and scopes, that a version of Landlock knows: (from version, all bits up to it).
_FILE_RIGHTS = ((1, (1 << 13) - 1), (2, (1 << 14) - 1), (3, (1 << 15) - 1), (5, (1 << 16) - 1))
_PORT_RIGHTS, _SCOPES = (4, 0b11), (6, 0b11)
_SECCOMP = {"x86_64": 317, "aarch64": 277, "arm64": 277}
_CAPSET = {"x86_64": 126, "aarch64": 91, "arm64": 91}
_FILTER, _ALL_THREADS = 1, 1


def confine(readable: Iterable[Path], memory: int, cpu_seconds: float) -> Confinement:
    """Confine this process. readable: what may be read besides Python and its installed packages. memory: bytes of address space.

    Steps that this system refuses are left out; returns the protections in force. Raises `OSError` when resource limits cannot be set.
    """
    linux = sys.platform == "linux"
    if linux:
        _attempt(lambda: _prctl(_PDEATHSIG, signal.SIGKILL))
        apart = _attempt(lambda: _unshare(_NEW_NETWORK)) or _attempt(lambda: _unshare(_NEW_USER | _NEW_NETWORK))
    _limit_resources(memory, cpu_seconds)
    if not linux:
        _limit(resource.RLIMIT_NPROC, 0)
        return Confinement(processes="RLIMIT_NPROC" if os.getuid() else None, memory="RLIMIT_AS" if sys.platform != "darwin" else None)
    _attempt(_drop_capabilities)
    _prctl(_NO_NEW_PRIVS, 1)
    landlocked = _attempt(lambda: _landlock([*_python(), *readable]))
    filtered = _attempt(_seccomp)
    if not filtered:
        _limit(resource.RLIMIT_NPROC, 0)
    return Confinement(
        network=_named(seccomp=filtered, namespace=apart),
        files=_named(Landlock=landlocked),
        processes=_named(seccomp=filtered),
        memory="RLIMIT_AS",
    )


def _named(**means: bool) -> str | None:
    return " and ".join(name for name, holds in means.items() if holds) or None


def _attempt(step: Callable[[], Any]) -> bool:
    try:
        step()
    except (OSError, AttributeError, KeyError):
        return False
    return True


def _limit_resources(memory: int, cpu_seconds: float) -> None:
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if cpu_seconds < 2**31:
        _limit(resource.RLIMIT_CPU, int(cpu_seconds) + 1)


def _limit(which: int, value: int) -> None:
    """Soft and hard limit, never above the present hard limit."""
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(which, (value, value))
    except (OSError, ValueError):
        # macOS has limits that a process cannot set.
        if sys.platform == "linux":
            raise


def _python() -> list[Path]:
    """Return the folders of Python, its installed packages, this package and the system's libraries."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages", "lib-dynload")]
    own = Path(bellwether.__file__).parent
    return [own, Path(sys.base_prefix) / "lib", *(Path(path) for path in (*paths, *installed, *_SYSTEM))]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def _prctl(option: int, value: int) -> None:
    _checked(_libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _unshare(flags: int) -> None:
    _checked(_libc().unshare(flags))


def _syscall(number: int, *arguments: Any) -> int:
    return _checked(_libc().syscall(ctypes.c_long(number), *arguments))


def _drop_capabilities() -> None:
    _syscall(_CAPSET[platform.machine()], struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _landlock(paths: Iterable[Path]) -> None:
    """Allow reading files below `paths` and no other file access; no TCP port, no abstract socket, no signal to other processes."""
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    handled = [bits for since, bits in _FILE_RIGHTS if version >= since][-1]
    ports, scopes = (bits if version >= since else 0 for since, bits in (_PORT_RIGHTS, _SCOPES))
    size = 24 if version >= _SCOPES[0] else 16 if version >= _PORT_RIGHTS[0] else 8
    attributes = struct.pack("=QQQ", handled, ports, scopes)[:size]
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint(0))
    try:
        for path in {path.resolve() for path in paths}:
            _let_read(ruleset, path)
        _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _let_read(ruleset: int, path: Path) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = _READ_FILE | _READ_DIRECTORY if path.is_dir() else _READ_FILE
        _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", rights, place), ctypes.c_uint(0))
    finally:
        os.close(place)


def _seccomp() -> None:
    program = filter_program(os.getpid())
    if program is None:
        raise OSError("the numbers of this machine's system calls are not known here")
    lines = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(lines))
    _syscall(_SECCOMP[platform.machine()], ctypes.c_uint(_FILTER), ctypes.c_uint(_ALL_THREADS), header)
