"""Confinement of this process: namespaces that contain only the agent's files, a system call filter and resource limits.

Namespaces exist only on Linux. Without them, Landlock (man landlock(7)) protects the contents of files. The process cannot undo its confinement.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from bellwether.replay.isolation.settings import Confinement
from bellwether.replay.isolation.syscalls import filter_program

_OPEN_FILES = 256

# prctl(2), unshare(2), capset(2), mount(2), mount_setattr(2), landlock(7), seccomp(2)
_PDEATHSIG, _NO_NEW_PRIVS = 1, 38
_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_NEW_MOUNTS_IPC_UTS = 0x00020000 | 0x08000000 | 0x04000000
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 4096, 16384, 1 << 18, 2
_READ_ONLY, _NO_SETUID, _NO_DEVICES = 1, 2, 4
_SET_ATTRIBUTES, _HERE, _WHOLE_TREE = 442, -100, 0x8000
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
#: System calls that the C library does not wrap: (number on x86_64, on aarch64).
_SECCOMP, _CAPSET, _PIVOT_ROOT = (317, 277), (126, 91), (155, 41)
_FILTER, _ALL_THREADS = 1, 1
#: Mount point of the new root.
_ROOT = "/proc"


class IsolationUnavailable(Exception):
    """A protection that full isolation needs is unavailable on this system."""


def confine(files: Sequence[str], links: Iterable[Sequence[str]], memory: int, *, partial: bool) -> Confinement:
    """Confine this process. With namespaces of its own, the program continues in a child process.

    Args:
        files: Visible paths, from `visible_files`.
        links: Symbolic links (link, target), from `visible_files`.
        memory: Limit of the address space, bytes.
        partial: Skip protections that this system does not support.

    Returns:
        The protections in force.

    Raises:
        IsolationUnavailable: A protection is unavailable and `partial` is false.
        OSError: The resource limits cannot be set.
    """
    if sys.platform != "linux":
        return _confine_elsewhere(memory, partial=partial)
    _prctl(_PDEATHSIG, signal.SIGKILL)
    has_namespaces = not (missing := _find_failure(lambda: _enter_namespaces(files, links)))
    if missing and not partial:
        raise IsolationUnavailable(f"no namespaces of its own ({missing})")
    has_no_network = has_namespaces or not _find_failure(lambda: _unshare(_NEW_USER | _NEW_NETWORK))
    _limit_resources(memory)
    _find_failure(_drop_capabilities)
    _prctl(_NO_NEW_PRIVS, 1)
    has_landlock = not has_namespaces and not _find_failure(lambda: _landlock(files))
    missing = _find_failure(_seccomp)
    if missing and not partial:
        raise IsolationUnavailable(f"no filter of system calls ({missing})")
    if missing:
        _limit(resource.RLIMIT_NPROC, 0)
    return Confinement(
        network=_join_features(namespace=has_no_network, seccomp=not missing),
        files=_join_features(namespace=has_namespaces, Landlock=has_landlock),
        processes=_join_features(namespace=has_namespaces, seccomp=not missing),
        memory="RLIMIT_AS",
        names=_join_features(namespace=has_namespaces),
    )


def _confine_elsewhere(memory: int, *, partial: bool) -> Confinement:
    if not partial:
        raise IsolationUnavailable(f"no namespaces ({sys.platform}; they exist on Linux)")
    _limit_resources(memory)
    _limit(resource.RLIMIT_NPROC, 0)
    return Confinement(processes="RLIMIT_NPROC" if os.getuid() else None, memory="RLIMIT_AS" if sys.platform != "darwin" else None)


def _join_features(**features: bool) -> str | None:
    """Join the names of the available system features; None if all are unavailable."""
    return " and ".join(name for name, is_available in features.items() if is_available) or None


def _find_failure(step: Callable[[], Any]) -> str:
    """Run a step of the confinement. Returns the error message if the step fails, else an empty text."""
    try:
        step()
    except (OSError, AttributeError, KeyError) as error:
        return str(error) or type(error).__name__
    return ""


# Namespaces.


def _enter_namespaces(files: Iterable[str], links: Iterable[Sequence[str]]) -> None:
    """Continue in a new process, which has its own namespaces of files, network, processes and shared memory. files, links: all that it
    sees of the file system.
    """
    user, group = os.getuid(), os.getgid()
    try:
        _unshare(_NEW_USER | _NEW_NETWORK | _NEW_MOUNTS_IPC_UTS)
    except OSError:
        if user:
            raise
        _unshare(_NEW_NETWORK | _NEW_MOUNTS_IPC_UTS)
    else:
        for name, text in (("setgroups", "deny"), ("uid_map", f"65534 {user} 1"), ("gid_map", f"65534 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _check_result(_libc().sethostname(b"agent", 5), "sethostname")
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    _mount("tmpfs", _ROOT, "tmpfs", 0)
    try:
        _mount_visible(files, links)
        os.chdir(_ROOT)
        _syscall(_PIVOT_ROOT, b".", b".")
    except (OSError, KeyError):
        os.chdir("/")
        _libc().umount2(_ROOT.encode(), _DETACH)
        raise
    _check_result(_libc().umount2(b".", _DETACH), "umount2")
    os.chdir("/")
    _unshare(_NEW_PIDS)
    # The first child is process 1 of its namespace, which ends with it; the second runs the agent.
    _continue_in_child(signal.SIGTERM)
    _continue_in_child(signal.SIGKILL)


def _mount_visible(files: Iterable[str], links: Iterable[Sequence[str]]) -> None:
    """Mount files and folders read-only below the new root, and create links (link, target) there."""
    for path in files:
        target = _ROOT + path
        os.makedirs(target if os.path.isdir(path) else os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(path):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        with suppress(FileNotFoundError):
            _mount(path, target, None, _BIND | _RECURSIVE)
            is_device = stat.S_ISCHR(os.stat(path).st_mode)
            _restrict(target, _READ_ONLY | _NO_SETUID | (0 if is_device else _NO_DEVICES))
    for link, target in links:
        os.makedirs(os.path.dirname(_ROOT + link), exist_ok=True)
        os.symlink(target, _ROOT + link)
    _restrict(_ROOT, _READ_ONLY | _NO_SETUID | _NO_DEVICES, tree=0)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    source_, target_, kind_ = (None if text is None else os.fsencode(text) for text in (source, target, kind))
    _check_result(_libc().mount(source_, target_, kind_, ctypes.c_ulong(flags), None), f"mount {source or target}")


def _restrict(target: str, attributes: int, tree: int = _WHOLE_TREE) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    arguments = ctypes.c_int(_HERE), os.fsencode(target), ctypes.c_uint(tree), wanted, ctypes.c_size_t(len(wanted))
    _check_result(_libc().syscall(ctypes.c_long(_SET_ATTRIBUTES), *arguments), f"mount_setattr {target}")


def _continue_in_child(parent_ends: signal.Signals) -> None:
    """Fork, and return in the child. The parent waits for the child and exits with the child's exit code, or with 128 plus the signal that
    ended the child.

    parent_ends: signal that this process receives when its own parent ends. On SIGTERM it kills the child.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        _prctl(_PDEATHSIG, signal.SIGKILL)
        return
    try:
        signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        _prctl(_PDEATHSIG, parent_ends)
        os.closerange(0, _OPEN_FILES)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        # After `waitpid` the pid of the child can be reused.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    finally:
        os._exit(1)


# Limits.


def _limit_resources(memory: int) -> None:
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)


def _limit(kind: int, value: int) -> None:
    """Set the soft and the hard limit of a resource to a value, or to the present hard limit if that is lower."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
        # macOS does not allow a process to set some limits.
        if sys.platform == "linux":
            raise


# System calls.


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check_result(result: int, step: str) -> int:
    """Raise `OSError` if the result of a C function is negative; otherwise return the result. step: name for the error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int) -> None:
    _check_result(_libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0), "prctl")


def _unshare(flags: int) -> None:
    _check_result(_libc().unshare(flags), "unshare")


def _syscall(numbers: int | tuple[int, int], *arguments: Any) -> int:
    number = numbers if isinstance(numbers, int) else numbers[{"x86_64": 0, "aarch64": 1, "arm64": 1}[platform.machine()]]
    return _check_result(_libc().syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def _drop_capabilities() -> None:
    _syscall(_CAPSET, struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _landlock(paths: Iterable[str]) -> None:
    """Restrict this process to reading files below `paths`; it cannot access the contents of other files."""
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    rights = (1 << 12 + min(version, 3)) - 1  # the second version added moving files, the third truncating them
    ruleset = _syscall(_CREATE_RULESET, struct.pack("=Q", rights), ctypes.c_size_t(8), ctypes.c_uint(0))
    try:
        for path in paths:
            _allow_reading(ruleset, path)
        _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _allow_reading(ruleset: int, path: str) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _READ_FILE | _READ_DIRECTORY if os.path.isdir(path) else _READ_FILE
        _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", rights, place), ctypes.c_uint(0))
    finally:
        os.close(place)


def _seccomp() -> None:
    program = filter_program(os.getpid())
    if program is None:
        raise OSError(f"the system call numbers of {platform.machine()} are not supported")
    lines = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(lines))
    _syscall(_SECCOMP, ctypes.c_uint(_FILTER), ctypes.c_uint(_ALL_THREADS), header)
