"""Processes that share a rate or the requests in flight of a model. They start together and report through a pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from bellwether.journal import Journal
from bellwether.models.attempt_outcomes import AttemptResult
from bellwether.models.client import ModelClient
from bellwether.models.keys import Endpoint
from bellwether.models.transport import ModelCall
from tests.unit.models.scripted_client import FakeWire, make_result, model
from tests.unit.models.scripted_client import ask as ask_model

#: Requests per second and seconds of burst of the shared rate.
RATE, BURST = 100.0, 0.1


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
        bucket = journal.limits.limiter("venue", RATE * BURST, BURST)
        await bucket.acquire(0)
        _begin(pipe)
        end = time.time() + seconds
        while True:
            await bucket.acquire()
            if (now := time.time()) > end:
                break
            pipe.send(now)


async def ask(pipe: Connection, url: str, number: int, most: int, turns: int) -> None:
    """Make calls of one model, and report when each was sent and answered."""

    async def reply(call: ModelCall) -> AttemptResult:
        began = time.time()
        await asyncio.sleep(0.02)
        pipe.send((began, time.time()))
        return make_result()

    with Journal(url) as journal:
        async with ModelClient(journal, endpoint=lambda model: Endpoint(None), run="run", wire=FakeWire(reply)) as client:
            _begin(pipe)
            await asyncio.gather(*(ask_model(client, number * 1000 + turn, model(concurrency=most)) for turn in range(turns)))
