"""System calls refused to an isolated agent on Linux, and the seccomp BPF program that refuses them (man seccomp(2))."""

from __future__ import annotations

import platform
import struct

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}

#: Names and numbers on x86_64 and aarch64, from the kernel's tables; -1 if the machine has no such call. Namespaces already restrict signals, shared
#: memory and file modes; without them, only this list does.
_REFUSED = """
socket 41 198, io_uring_setup 425 425, fork 57 -1, vfork 58 -1, execve 59 221, execveat 322 281,
kill 62 129, tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, pidfd_open 434 434,
pidfd_getfd 438 438, ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, setpriority 141 140, ioprio_set 251 30,
sched_setaffinity 203 122, sched_setscheduler 144 119, sched_setparam 142 118, sched_setattr 314 274,
shmget 29 194, shmat 30 196, semget 64 190, msgget 68 186, msgrcv 70 188, msgsnd 69 189, mq_open 240 180,
chmod 90 -1, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -1, fchown 93 55, lchown 94 -1, fchownat 260 54,
utime 132 -1, utimes 235 -1, futimesat 261 -1, utimensat 280 88, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463,
removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466,
unshare 272 97, setns 308 268, mount 165 40, open_tree 428 428, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282,
add_key 248 217, request_key 249 218, keyctl 250 219
"""
#: Threads are allowed, new processes are not. The process may change its own limits only. No file may send signals.
_CLONE, _CLONE3, _PRLIMIT, _TGKILL, _FCNTL, _IOCTL = (56, 220), (435, 435), (302, 261), (234, 131), (72, 25), (16, 29)
_SET_OWNER = {_FCNTL: (8, 15), _IOCTL: (0x8901, 0x8902)}

_LOAD, _EQUAL, _AT_LEAST, _ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, (16, 24)
_ALLOW, _REFUSE, _ABSENT, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38, 0x80000000
_X32, _CLONE_THREAD = 0x40000000, 0x00010000

_Line = tuple[int, int, int, int]


def filter_program(pid: int) -> bytes | None:
    """Build the seccomp filter of the process `pid`, an array of `struct sock_filter`; None for an unsupported machine type."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    column, architecture = machine
    lines: list[_Line] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for call in _REFUSED.split(","):
        number = int(call.split()[1 + column])
        if number >= 0:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _ABSENT)]
    lines += _filter_argument(_CLONE[column], 0, [(_ANY, _CLONE_THREAD)], _ALLOW, _REFUSE)
    lines += _filter_argument(_PRLIMIT[column], 0, [(_EQUAL, 0)], _ALLOW, _REFUSE)
    lines += _filter_argument(_TGKILL[column], 0, [(_EQUAL, pid)], _ALLOW, _REFUSE)
    for numbers, commands in _SET_OWNER.items():
        lines += _filter_argument(numbers[column], 1, [(_EQUAL, command) for command in commands], _REFUSE, _ALLOW)
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _filter_argument(number: int, argument: int, tests: list[tuple[int, int]], matched: int, other: int) -> list[_Line]:
    """Build the filter instructions for system call `number`: verdict `matched` if the lower 32 bits of the argument (by index) pass one of
    the tests, else verdict `other`.
    """
    count = len(tests)
    return [
        (_EQUAL, 0, count + 3, number),
        (_LOAD, 0, 0, _ARGUMENTS[argument]),
        *((test, count - place, 0, value) for place, (test, value) in enumerate(tests)),
        (_RETURN, 0, 0, other),
        (_RETURN, 0, 0, matched),
    ]
