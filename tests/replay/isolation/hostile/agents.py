# ruff: noqa: B018, PLW0108, T201
"""Agents that cheat, hang or break things: each tries one thing at its second decision, and says by its orders what it has reached.

One that gets through buys `LOOT` lots; what is refused raises, or leaves the order away. Nothing here is imported by the tests: it runs isolated.
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
    """Rests a bid at the first decision, tries at the second."""

    def __init__(self, target: str = "") -> None:
        self.target = target

    def act(self, ctx):
        if ctx.step == 0:
            ctx.buy(ctx.tickers[0], "yes", 100, 440)
        if ctx.step == 1 and self.attack(ctx):
            ctx.buy(ctx.tickers[0], "yes", LOOT, 441)

    def attack(self, ctx):
        raise NotImplementedError


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


class ReadsAttributes(Hostile):
    def attack(self, ctx):
        return hasattr(ctx, "_session") or hasattr(ctx._door, "_session") or hasattr(ctx._door.place, "__wrapped__")


class WalksTheCollector(Hostile):
    def attack(self, ctx):
        return any(of_the_simulator(thing) for thing in gc.get_objects())


class WalksFrames(Hostile):
    def attack(self, ctx):
        frame, found = sys._getframe(), False
        while frame is not None:
            found |= any(of_the_simulator(value) for value in frame.f_locals.values())
            frame = frame.f_back
        return found


class WalksModules(Hostile):
    def attack(self, ctx):
        held = [value for module in list(sys.modules.values()) for value in list(vars(module).values())]
        return any(of_the_simulator(value) for value in held) or "bellwether.replay.engine.session" in sys.modules


class WritesToViews(Hostile):
    def attack(self, ctx):
        for array in (ctx.positions, ctx.quotes.bids):
            array.setflags(write=True)
            array[...] = 10**6
        ctx._door._cash = ctx._door._available = 10**15
        ctx.buy(ctx.tickers[0], "yes", 10**6, 442)


class ReadsBehindArrays(Hostile):
    """As far as the memory of this process goes; a crash is its own."""

    def attack(self, ctx):
        beyond = np.lib.stride_tricks.as_strided(ctx.positions, (10**9,), (8,))
        return int(beyond[::4096].sum()) == -1


class ResetsTheBudget(Hostile):
    def attack(self, ctx):
        for _ in range(300):
            ctx._left = 10**9
            ctx._begin(1, 10**9)
            ctx.buy(ctx.tickers[0], "yes", 100, 443)


class Sleeps(Hostile):
    def attack(self, ctx):
        time.sleep(10**6)


class Loops(Hostile):
    def attack(self, ctx):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass


class LoopsInC(Hostile):
    def attack(self, ctx):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        10 ** (10**9)


class AsksForever(Hostile):
    def attack(self, ctx):
        while True:
            ctx.equity


class Forks(Hostile):
    def attack(self, ctx):
        return tried(os.fork, lambda: subprocess.run(["/bin/true"], check=True), lambda: os.execv("/bin/true", ["true"]))


class LeavesChildren(Hostile):
    def attack(self, ctx):
        def child():
            if os.fork() == 0:
                os.setsid()
                time.sleep(3600)

        return tried(child)


class StartsThreads(Hostile):
    def attack(self, ctx):
        for _ in range(3):
            threading.Thread(target=time.sleep, args=(3600,)).start()


class Allocates(Hostile):
    def attack(self, ctx):
        return len(bytearray(10 << 30))


class AllocatesSlowly(Hostile):
    def attack(self, ctx):
        held = []
        while True:
            try:
                held.append(bytearray(1 << 24))
            except MemoryError:
                continue


class OpensFiles(Hostile):
    """target: the episode's folder."""

    def attack(self, ctx):
        folder = Path(self.target)
        own = Path(__file__).with_suffix(".pyc")
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


class ReadsTheParent(Hostile):
    def attack(self, ctx):
        parent = os.getppid()
        libc = ctypes.CDLL(None, use_errno=True)
        return (
            tried(
                lambda: Path(f"/proc/{parent}/environ").read_bytes(),
                lambda: Path(f"/proc/{parent}/maps").read_bytes(),
                lambda: Path(f"/proc/{parent}/mem").open("rb"),
                lambda: os.listdir(f"/proc/{parent}/fd"),
            )
            or libc.ptrace(16, parent, 0, 0) == 0
        )


class ConnectsOut(Hostile):
    """target: the port of a server on loopback."""

    def attack(self, ctx):
        return tried(
            lambda: socket.create_connection(("127.0.0.1", int(self.target)), 1),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
            lambda: socket.getaddrinfo("example.org", 80)[0][4][0],
        )


class ReadsSecrets(Hostile):
    def attack(self, ctx):
        return any("SECRET" in name or "KEY" in name or "hunter2" in value for name, value in os.environ.items())


class WritesToStdout(Hostile):
    def attack(self, ctx):
        for stream in (1, 2):
            os.write(stream, b'\x00\x00\x00\x08["done"]' * 20_000)
        print('["place", 0, 0, 0, 442, 777, 1, 0]', flush=True)


class WritesToTheWire(Hostile):
    def attack(self, ctx):
        os.write(ctx._door._channel._descriptor, b"junk that is no frame at all")


class SendsAHugeFrame(Hostile):
    def attack(self, ctx):
        os.write(ctx._door._channel._descriptor, b"\xff\xff\xff\xff")
        time.sleep(3600)


class SendsAndNeverReads(Hostile):
    def attack(self, ctx):
        channel = ctx._door._channel
        while True:
            channel.send(["equity"])


class SendsNonsense(Hostile):
    """target: a message as JSON, or `long` for one with a text that is too long."""

    def attack(self, ctx):
        import orjson

        ctx._door._channel.send(["failed", "x" * 20_000, "", ""] if self.target == "long" else orjson.loads(self.target))
        ctx._door._channel.receive()


class ClosesTheWire(Hostile):
    def attack(self, ctx):
        os.close(ctx._door._channel._descriptor)


class SendsStrangeOrders(Hostile):
    def attack(self, ctx):
        for order in (
            (-1, 0, 0, 450, 100, 1, 0),
            (10**9, 7, 9, -5, -5, 99, -1),
            (0, 0, 0, 2**61, 2**61, 0, 2**61),
            (0, 0, 0, 450, 10**15, 1, 0),
        ):
            ctx._door.place(*order)
        for call in ("cancel_all", "resting"):
            getattr(ctx._door, call)(10**12)
        ctx._door.quote(-7, 450, 450, 100, 10)
        ctx._door.quote(10**12, 450, 450, 100, 10)
        ctx._door.cancel(-(10**12))
        ctx._door.amend(10**12, 450, 1)
        ctx._door.book(10**9, 5)
        ctx._door.order(-5)
        ctx._door.are_resting(np.array([10**12, -(10**12)]))


class Returns(Hostile):
    def act(self, ctx):
        return {"orders": [float("nan")] * 10}


class Patches(Hostile):
    def attack(self, ctx):
        from bellwether.replay.agents import context, door, gateway, limits
        from bellwether.replay.isolation import wire

        for module in (context, door, gateway, limits, wire):
            for name in list(vars(module)):
                if not name.startswith("__"):
                    setattr(module, name, lambda *anything, **more: 10**15)


class LeavesTheProgram(Hostile):
    def attack(self, ctx):
        raise SystemExit(0)


class Interrupts(Hostile):
    def attack(self, ctx):
        raise KeyboardInterrupt


class StopsTheRun(Hostile):
    def attack(self, ctx):
        from bellwether.replay.agents.limits import RunStopped

        raise RunStopped("no result today")


class EndsAtOnce(Hostile):
    def attack(self, ctx):
        os._exit(0)


class Crashes(Hostile):
    def attack(self, ctx):
        ctypes.string_at(0)


class KillsTheParent(Hostile):
    def attack(self, ctx):
        parent = os.getppid()
        return tried(
            lambda: os.kill(parent, signal.SIGTERM),
            lambda: os.kill(-1, 0),
            lambda: os.killpg(os.getpgid(parent), 0),
            lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
            lambda: os.sched_setaffinity(parent, {0}),
            lambda: __import__("resource").prlimit(parent, 0, (1, 1)),
        )
