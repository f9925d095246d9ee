# ruff: noqa: B018, PLW0108, SIM115, T201
"""An agent that tries one attack at its second decision, and reports success by its orders.

A successful attack returns True, and the agent buys `LOOT` lots. A refused attack raises or returns False. Tests import nothing from this module,
because it runs isolated.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from bellwether.replay import CENT, Agent

LOOT = 777


class Hostile(Agent):
    """Rest a bid at the first decision, and attack at the second. `attack`: a function of this file. `target`: its argument."""

    def __init__(self, attack: str, target: str = "") -> None:
        self.attack, self.target = attack, target

    def act(self, ctx):
        if ctx.step == 0:
            ctx.buy(ctx.tickers[0], "yes", 100, 44 * CENT)
        if ctx.step == 1 and globals()[self.attack](ctx, self.target):
            ctx.buy(ctx.tickers[0], "yes", LOOT, 441)


class Returns(Agent):
    """Return a value that is no order."""

    def __init__(self, target: str = "") -> None: ...

    def act(self, ctx):
        return {"orders": [float("nan")] * 10}


def tried(*calls):
    """Return True if one of the calls raised no exception."""
    for call in calls:
        try:
            call()
        except Exception:
            continue
        return True
    return False


def of_the_simulator(thing):
    return type(thing).__name__ in ("Session", "Tape", "Prepared", "Episode", "LocalPort", "ReplayOutcome")


# Memory of the simulator


def read_attributes(ctx, target):
    return hasattr(ctx, "_session") or hasattr(ctx._port, "_session")


def walk_the_collector(ctx, target):
    return any(of_the_simulator(thing) for thing in gc.get_objects())


def walk_frames(ctx, target):
    frame, reached = sys._getframe(), False
    while frame is not None:
        reached |= any(of_the_simulator(value) for value in frame.f_locals.values())
        frame = frame.f_back
    return reached


def walk_modules(ctx, target):
    held = [value for module in list(sys.modules.values()) for value in list(vars(module).values())]
    return any(of_the_simulator(value) for value in held) or "bellwether.replay.engine.session" in sys.modules


def write_to_views(ctx, target):
    for array in (ctx.positions, ctx.bids):
        array.setflags(write=True)
        array[...] = 10**6
    ctx._port.state["cash"] = ctx._port.state["available"] = 10**15
    ctx.buy(ctx.tickers[0], "yes", 10**6, 442)


def patch(ctx, target):
    from bellwether.replay.agents import context, limits, port
    from bellwether.replay.isolation import wire

    for module in (context, limits, port, wire):
        for name in list(vars(module)):
            if not name.startswith("__"):
                setattr(module, name, lambda *anything, **more: 10**15)


# Time and memory


def sleep(ctx, target):
    time.sleep(10**6)


def loop(ctx, target):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def loop_in_c(ctx, target):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    10 ** (10**9)


def call_forever(ctx, target):
    while True:
        ctx.equity


def start_threads(ctx, target):
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(3600,)).start()


def allocate(ctx, target):
    return len(bytearray(10 << 30))


# Files, network, other processes


def open_files(ctx, target):
    """Read the episode's folder `target`."""
    folder, own = Path(target), Path(__file__).with_suffix(".pyc")
    return tried(
        lambda: (folder / "settlements.json").read_bytes(),
        lambda: (folder / "metadata.json").read_bytes(),
        lambda: os.listdir(folder),
        lambda: Path("/etc/passwd").read_text(),
        lambda: own.write_text("x"),
        lambda: Path("/tmp/hostile").write_text("x"),
        lambda: os.chmod(folder, 0),
        lambda: os.unlink(folder / "metadata.json"),
    )


def connect_out(ctx, target):
    """Connect to the port `target` of a server on loopback, to an address outside, and to the host of a virtual machine."""
    return tried(
        lambda: socket.create_connection(("127.0.0.1", int(target)), 1),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
        lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, int(target))),
        lambda: socket.getaddrinfo("example.org", 80)[0][4][0],
    )


def read_secrets(ctx, target):
    return any("SECRET" in name or "KEY" in name or "hunter2" in value for name, value in os.environ.items())


def run_programs(ctx, target):
    return tried(lambda: subprocess.run(["/bin/true"], check=True), lambda: os.execv("/bin/true", ["true"]))


def fork(ctx, target):
    """Leave processes that ignore signals and sleep; they end with the run."""
    for _ in range(20):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.setsid()
            time.sleep(3600)


def read_the_parent(ctx, target):
    """Read the simulator's process, whose number is `target`."""
    libc = ctypes.CDLL(None, use_errno=True)
    readable = tried(
        lambda: Path(f"/proc/{target}/environ").read_bytes(),
        lambda: Path(f"/proc/{target}/maps").read_bytes(),
        lambda: Path(f"/proc/{target}/mem").open("rb"),
        lambda: os.listdir(f"/proc/{target}/fd"),
    )
    return readable or libc.ptrace(16, int(target), 0, 0) == 0


def kill_the_parent(ctx, target):
    """Signal or change the simulator's process, whose number is `target`, and every other one."""
    parent = int(target)
    return tried(
        lambda: os.kill(parent, signal.SIGTERM),
        lambda: os.kill(-1, 0),
        lambda: os.killpg(parent, 0),
        lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        lambda: os.sched_setaffinity(parent, {0}),
        lambda: __import__("resource").prlimit(parent, 0, (1, 1)),
    )


def trace_the_first_process(ctx, target):
    """Stop the process that ends the namespace, and wait for the time limit."""
    ctypes.CDLL(None).ptrace(16, 1, 0, 0)
    time.sleep(3600)


# Objects hidden by namespaces. target: a path, number or name on the simulator's side.


def stat_it(ctx, target):
    return tried(
        lambda: os.stat(target),
        lambda: os.lstat(target),
        lambda: os.stat(os.path.dirname(target)),
        lambda: os.readlink(target),
        lambda: os.statvfs(target),
        lambda: os.open(target, os.O_PATH),
    )


def follow_a_link(ctx, target):
    """Follow a link next to this file, which the test points at the target."""
    link = Path(__file__).with_name("link")
    return tried(lambda: link.read_bytes(), lambda: os.stat(link), lambda: os.symlink(target, Path(__file__).with_name("mine")))


def list_processes(ctx, target):
    return tried(lambda: os.listdir("/proc"), lambda: os.stat("/proc/1"), lambda: os.getpgid(int(target)), lambda: os.getsid(int(target)))


def use_inherited_descriptors(ctx, target):
    """Return True if a descriptor is a folder or a file, other than the null device."""
    import stat

    for number in range(3, 1024):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if not stat.S_ISSOCK(mode) or tried(lambda number=number: os.stat("..", dir_fd=number)):
            return True
    return tried(lambda: os.stat("..", dir_fd=0))


def look_into_shared_memory(ctx, target):
    from multiprocessing.shared_memory import SharedMemory

    return tried(lambda: os.listdir("/dev/shm").index(target), lambda: SharedMemory(target), lambda: SharedMemory(create=True, size=8))


def attach_system_v_memory(ctx, target):
    """Attach the segment with the number `target` of the simulator's machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    return libc.shmat(int(target), None, 0) != ctypes.c_void_p(-1).value


def connect_to_an_abstract_socket(ctx, target):
    return tried(lambda: socket.socket(socket.AF_UNIX).connect("\0" + target))


def outlive_the_run(ctx, target):
    """Leave the process group, disable the signal at the parent's end, and sleep."""
    with_group = tried(os.setsid)
    ctypes.CDLL(None).prctl(1, 0)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    time.sleep(3600)
    return with_group


def call_the_kernel(ctx, target):
    """Make system calls by number: new namespaces, setns, mount, umount, pivot_root, reading the key `target`, bpf, open_tree, open_by_handle_at."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.uname().machine != "x86_64":
        return False
    memory = ctypes.create_string_buffer(4096)
    calls = [
        (272, 0x10000000),
        (272, 0x20000),
        (272, 0x40000000),
        (308, 0, 0),
        (165, b"tmpfs", b"/dev", b"tmpfs", 0, None),
        (161, b"/dev"),
        (166, b"/usr/lib", 2),
        (155, b".", b"."),
        (250, 11, int(target), memory, 4096),
        (321, 0, memory, 64),
        (428, -100, b"/", 1),
        (304, -100, memory, 0),
    ]
    return any(libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in call)) >= 0 for call in calls)


def execute_from_memory(ctx, target):
    image = os.memfd_create("image")
    return tried(
        lambda: os.write(image, b"#!/bin/sh\n"), lambda: os.execv(f"/proc/self/fd/{image}", ["x"]), lambda: os.execve(image, ["x"], {})
    )


def change_its_own_files(ctx, target):
    own, package = Path(__file__), Path(np.__file__)
    return tried(
        *(lambda path=path: path.open("a") for path in (own, package)),
        *(lambda path=path: path.unlink() for path in (own, package)),
        *(
            lambda path=path: path.touch()
            for path in (own, package, own.with_name("new"), Path("/new"), Path("/tmp/new"), Path("/dev/new"))
        ),
        lambda: own.chmod(0o777),
        lambda: own.rename(own.with_name("other")),
        lambda: os.mkdir("/mine"),
        lambda: os.mkfifo("/mine"),
        lambda: os.link(own, own.with_name("hard")),
        lambda: os.truncate(own, 0),
        lambda: os.setxattr(own, "user.mark", b"1"),
    )


def read_devices(ctx, target):
    names = ("tty", "kmsg", "mem", "vda", "sda", "fuse", "kvm", "ptmx", "net/tun", "stdin", "fd/0")
    return tried(
        *(lambda name=name: os.open(f"/dev/{name}", os.O_RDONLY) for name in names), lambda: os.mknod("/dev/zero2", 0o20600, 0x105)
    )


def raise_its_limits(ctx, target):
    import resource

    return tried(
        *(lambda which=which: resource.setrlimit(which, (1 << 40, 1 << 40)) for which in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)),
        lambda: os.nice(-5),
    )


def search_everywhere(ctx, target):
    wanted = {os.path.basename(target), "backtests.csv", "warehouse.duckdb", ".env", ".bellwether"}
    return any(wanted.intersection(folders + files) for _, folders, files in os.walk("/"))


# The wire


def write_to_stdout(ctx, target):
    for stream in (1, 2):
        os.write(stream, b'\x00\x00\x00\x08["done"]' * 20_000)
    print('["place", 0, 0, 0, 442, 777, 1, 0]', flush=True)


def write_to_the_wire(ctx, target):
    os.write(ctx._port._channel._socket.fileno(), b"junk that is no frame at all")


def send_a_huge_frame(ctx, target):
    os.write(ctx._port._channel._socket.fileno(), b"\xff\xff\xff\xff")
    time.sleep(3600)


def send_and_never_read(ctx, target):
    while True:
        ctx._port._channel.send(b'["read","equity"]')


def close_the_wire(ctx, target):
    os.close(ctx._port._channel._socket.fileno())


def send_strange_orders(ctx, target):
    send = ctx._port.send
    send("place", -1, 0, 0, 45 * CENT, 100, 1, 0, "")
    send("place", 10**9, 7, 9, -5, -5, 99, -1, "")
    send("place", 0, 0, 0, 2**61, 2**61, 0, 2**61, "")
    send("place", 0, 0, 0, 45 * CENT, 10**15, 1, 0, "")
    send("cancel", -(10**12))
    send("amend", 10**12, 45 * CENT, 1)
    ctx._port.read("order", -5)
    ctx._port.read("fills", 0, 10**12)


def name_an_unknown_market(ctx, target):
    ctx._port.send("quote", 10**12, 45 * CENT, 45 * CENT, 100, "")


# The end of the process


def interrupt(ctx, target):
    raise KeyboardInterrupt


def stop_the_run(ctx, target):
    from bellwether.replay.agents.limits import RunStopped

    raise RunStopped("no result today")


def end_at_once(ctx, target):
    os._exit(0)


def crash(ctx, target):
    ctypes.string_at(0)
