"""Processes that share a rate, slots or a budget. They start together and report through a pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from bellwether.journal import Journal

#: Requests per second and seconds of burst of the shared rate.
RATE, BURST = 100.0, 0.1
#: Maximum and actual cost of a call in micro-dollars.
MOST, COST = 100, 40


class Sharer:
    """A process that runs `work(pipe, url, number, *more)`."""

    def __init__(self, work: Callable[..., Awaitable[None]], url: str, number: int, *more: Any) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["tests.nightly.limit_sharers"])
        self._pipe, pipe = context.Pipe()
        self.process = context.Process(target=_run, args=(work, pipe, url, number, *more))
        self.process.start()
        pipe.close()

    def wait(self) -> None:
        """Wait until the process is ready."""
        assert self._pipe.recv() == "ready"

    def begin(self) -> None:
        self._pipe.send("begin")

    def found(self) -> list[Any]:
        """Return its reports after it ends."""
        reports = []
        with suppress(EOFError):
            while True:
                reports.append(self._pipe.recv())
        return reports

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _run(work: Callable[..., Any], pipe: Connection, *given: Any) -> None:
    asyncio.run(work(pipe, *given))


def _begin(pipe: Connection) -> None:
    pipe.send("ready")
    pipe.recv()


async def pace(pipe: Connection, url: str, number: int, seconds: float) -> None:
    """Report the time of each admission for some seconds."""
    with Journal(url) as journal:
        limits = journal.shared_limits()
        assert limits is not None
        bucket = limits.limiter("venue", RATE * BURST, BURST)
        await bucket.acquire(0)
        _begin(pipe)
        end = time.time() + seconds
        while True:
            await bucket.acquire()
            if (now := time.time()) > end:
                break
            pipe.send(now)
        limits.close()


async def hold(pipe: Connection, url: str, number: int, most: int, turns: int) -> None:
    """Take a slot repeatedly, and report when it was taken and released."""
    rng = Random(number)
    with Journal(url) as journal:
        limits = journal.shared_limits()
        assert limits is not None
        slots = limits.slots("model", most)
        async with slots.hold():
            pass
        _begin(pipe)
        for _ in range(turns):
            async with slots.hold():
                taken = time.time()
                await asyncio.sleep(rng.uniform(0.005, 0.05))
                freed = time.time()
            pipe.send((taken, freed))
        limits.close()
