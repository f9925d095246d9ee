# ruff: noqa: B018, PLW0108, SIM115, T201
"""An agent that tries one attack at its second decision, and shows by its orders whether it succeeded.

An attack that succeeds returns True, and the agent buys `LOOT` lots; one that is refused raises, or returns False. Nothing here is imported by the
tests: it runs isolated.
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

from bellwether.replay import Agent

LOOT = 777


class Hostile(Agent):
    """Rests a bid at the first decision and attacks at the second. attack: a function of this file. target: what it is aimed at."""

    def __init__(self, attack: str, target: str = "") -> None:
        self.attack, self.target = attack, target

    def act(self, ctx):
        if ctx.step == 0:
            ctx.buy(ctx.tickers[0], "yes", 100, 440)
        if ctx.step == 1 and globals()[self.attack](ctx, self.target):
            ctx.buy(ctx.tickers[0], "yes", LOOT, 441)


class Returns(Agent):
    """Returns what is no order."""

    def __init__(self, target: str = "") -> None: ...

    def act(self, ctx):
        return {"orders": [float("nan")] * 10}


def tried(*calls):
    """Whether one of the calls did not raise."""
    for call in calls:
        try:
            call()
        except Exception:
            continue
        return True
    return False


def of_the_simulator(thing):
    return type(thing).__name__ in ("Session", "Tape", "Prepared", "Episode", "Gateway", "Outcome")


# Memory of the simulator


def read_attributes(ctx, target):
    return hasattr(ctx, "_session") or hasattr(ctx._door, "_session") or hasattr(ctx._door.place, "__wrapped__")


def walk_the_collector(ctx, target):
    return any(of_the_simulator(thing) for thing in gc.get_objects())


def walk_frames(ctx, target):
    frame, found = sys._getframe(), False
    while frame is not None:
        found |= any(of_the_simulator(value) for value in frame.f_locals.values())
        frame = frame.f_back
    return found


def walk_modules(ctx, target):
    held = [value for module in list(sys.modules.values()) for value in list(vars(module).values())]
    return any(of_the_simulator(value) for value in held) or "bellwether.replay.engine.session" in sys.modules


def write_to_views(ctx, target):
    for array in (ctx.positions, ctx.quotes.bids):
        array.setflags(write=True)
        array[...] = 10**6
    ctx._door._cash = ctx._door._available = 10**15
    ctx.buy(ctx.tickers[0], "yes", 10**6, 442)


def reset_the_budget(ctx, target):
    for _ in range(300):
        ctx._left = 10**9
        ctx._begin(1, 10**9)
        ctx.buy(ctx.tickers[0], "yes", 100, 443)


def patch(ctx, target):
    from bellwether.replay.agents import context, door, gateway, limits
    from bellwether.replay.isolation import wire

    for module in (context, door, gateway, limits, wire):
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
    """target: the episode's folder."""
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
    """target: the port of a server on loopback."""
    return tried(
        lambda: socket.create_connection(("127.0.0.1", int(target)), 1),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        lambda: socket.getaddrinfo("example.org", 80)[0][4][0],
    )


def read_secrets(ctx, target):
    return any("SECRET" in name or "KEY" in name or "hunter2" in value for name, value in os.environ.items())


def fork(ctx, target):
    return tried(os.fork, lambda: subprocess.run(["/bin/true"], check=True), lambda: os.execv("/bin/true", ["true"]))


def read_the_parent(ctx, target):
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    found = tried(
        lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        lambda: Path(f"/proc/{parent}/maps").read_bytes(),
        lambda: Path(f"/proc/{parent}/mem").open("rb"),
        lambda: os.listdir(f"/proc/{parent}/fd"),
    )
    return found or libc.ptrace(16, parent, 0, 0) == 0


def kill_the_parent(ctx, target):
    parent = os.getppid()
    return tried(
        lambda: os.kill(parent, signal.SIGTERM),
        lambda: os.kill(-1, 0),
        lambda: os.killpg(os.getpgid(parent), 0),
        lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        lambda: os.sched_setaffinity(parent, {0}),
        lambda: __import__("resource").prlimit(parent, 0, (1, 1)),
    )


# The wire


def write_to_stdout(ctx, target):
    for stream in (1, 2):
        os.write(stream, b'\x00\x00\x00\x08["done"]' * 20_000)
    print('["place", 0, 0, 0, 442, 777, 1, 0]', flush=True)


def write_to_the_wire(ctx, target):
    os.write(ctx._door._channel._descriptor, b"junk that is no frame at all")


def send_a_huge_frame(ctx, target):
    os.write(ctx._door._channel._descriptor, b"\xff\xff\xff\xff")
    time.sleep(3600)


def send_and_never_read(ctx, target):
    while True:
        ctx._door._channel.send(["equity"])


def send_nonsense(ctx, target):
    """target: a message as JSON, or `long` for one with a text that is too long."""
    import orjson

    ctx._door._channel.send(["failed", "x" * 20_000, "", ""] if target == "long" else orjson.loads(target))
    ctx._door._channel.receive()


def close_the_wire(ctx, target):
    os.close(ctx._door._channel._descriptor)


def send_strange_orders(ctx, target):
    door = ctx._door
    door.place(-1, 0, 0, 450, 100, 1, 0)
    door.place(10**9, 7, 9, -5, -5, 99, -1)
    door.place(0, 0, 0, 2**61, 2**61, 0, 2**61)
    door.place(0, 0, 0, 450, 10**15, 1, 0)
    door.cancel_all(10**12)
    door.resting(10**12)
    door.quote(-7, 450, 450, 100, 10)
    door.quote(10**12, 450, 450, 100, 10)
    door.cancel(-(10**12))
    door.amend(10**12, 450, 1)
    door.book(10**9, 5)
    door.order(-5)
    door.are_resting(np.array([10**12, -(10**12)]))


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
