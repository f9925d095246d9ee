"""Making 2,000 model calls with a latency of 200 ms, 100 at a time: wall time relative to the latency alone, and CPU time of client and journal per
call.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing.connection import Connection
from typing import Any, Self

from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.journal.journal import Journal
from bellwether.journal.values import CostSource, Outcome, Reply, Usage
from bellwether.models.client import Answer, Limits, ModelClient
from bellwether.models.keys import SANDBOX_KEY, Endpoint
from bellwether.models.model import Model
from bellwether.models.response import AttemptResult
from bellwether.models.transport import ModelCall

CALLS = 2_000
CONCURRENCY = 100
#: Seconds that every answer takes longer.
LATENCY = 0.2
#: httpx, client and journal share one thread: with 100 calls at a time its processor time counts as much as the latency.
WALL_TARGET, WORK_TARGET = 2.5, 1.0
#: Milliseconds of processor time per call.
BUDGET_MS = 2.0
ROUNDS = 3
MODEL = Model.model_validate({"name": "calibrated", "model": "sandbox/calibrated", "concurrency": CONCURRENCY})


class Far:
    """ASGI middleware that delays every response by the latency."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(LATENCY)
        await self._app(scope, receive, send)


class Near:
    """Transport without a network: replies in this process after the latency, so that only client and journal use CPU time."""

    async def send(self, call: ModelCall) -> AttemptResult:
        await asyncio.sleep(LATENCY)
        usage = Usage(600, 300, None, 4_500, CostSource.PROVIDER)
        return AttemptResult(Outcome.OK, Reply(b"y" * 2000, "0.7 " * 250, None, "stop", usage, 200, "request", 200))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


def _serve(connection: Connection) -> None:
    """Serve the sandbox's model endpoint with `Far` until the connection is closed."""
    from bellwether.sandbox import create_app, serve, start_clock

    app = create_app(7, start_clock(datetime(2026, 4, 1, tzinfo=UTC)))
    with serve(Far(app)) as site:
        connection.send(site.models)
        connection.poll(None)


@contextmanager
def provider() -> Iterator[str]:
    """Start a model endpoint in a separate process, and yield its address."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


def _question(number: int) -> list[dict[str, str]]:
    """Build a prompt of two thousand characters."""
    text = f"Question: {number:06d} " + "What is the probability that it happens? " * 50
    return [{"role": "system", "content": "Answer with a probability."}, {"role": "user", "content": text}]


async def _ask_all(make: Callable[[Journal], ModelClient], folder: str) -> tuple[float, float]:
    """Make all calls with the client that `make` creates. Returns the wall and the CPU seconds. folder: of the journal."""
    with Journal(f"sqlite:///{folder}/journal.db") as journal:
        async with make(journal) as client:
            await client.ask(MODEL, _question(CALLS), purpose="warm")
            wall, cpu = time.perf_counter(), time.process_time()
            asked = (client.ask(MODEL, _question(number), purpose="benchmark/forecasts", scope="r2026") for number in range(CALLS))
            answers = await asyncio.gather(*asked)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if client.stats[MODEL.name].asked != CALLS + 1 or not all(isinstance(one, Answer) and not one.reused for one in answers):
                raise AssertionError("not every call was asked once and answered")
        if journal.counts().filter(state="answered")["calls"].sum() != CALLS + 1:
            raise AssertionError("not every answer was stored")
    return wall, cpu


def _rounds(make: Callable[[Journal], ModelClient]) -> tuple[float, float]:
    """Make all calls in each of a few rounds. Returns the minimum of the wall seconds, and of the CPU seconds."""
    times = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            times.append(asyncio.run(_ask_all(make, folder)))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def _wall() -> dict[str, Any]:
    """Measure the wall time of all calls through the sandbox's HTTP endpoint, with a journal on disk."""
    with provider() as url:
        limits = Limits(dollars=Decimal(1000))
        seconds, cpu = _rounds(
            lambda journal: ModelClient(journal, endpoint=lambda model: Endpoint(url, SANDBOX_KEY), run="run", limits=limits)
        )
    ideal = CALLS / CONCURRENCY * LATENCY
    detail = (
        f"{CALLS:,} calls, {CONCURRENCY} at a time, {LATENCY * 1e3:.0f} ms away: {seconds:.2f} s, the best of {ROUNDS} rounds, against {ideal:.1f} s; "
        f"{cpu / CALLS * 1e3:.2f} ms of CPU per call in all"
    )
    return {"name": "wall time of 2,000 model calls / latency", "ratio": seconds / ideal, "target": WALL_TARGET, "detail": detail}


def _work() -> dict[str, Any]:
    """Measure the CPU time per call without a network: looking up and claiming the call, reserving in two budgets, storing the answer, and
    statistics.
    """
    limits = Limits(dollars=Decimal(1000), dollars_per_model=Decimal(1000))

    def make(journal: Journal) -> ModelClient:
        return ModelClient(
            journal, endpoint=lambda model: Endpoint(None), run="run", limits=limits, wire=Near(), most_cost=lambda *_: 10_000
        )

    _, seconds = _rounds(make)
    each = seconds / CALLS * 1e3
    detail = f"{each:.2f} ms of CPU per call, of which each attempt and answer is durable and within two budgets"
    return {
        "name": "processor time of client and journal per call / 2 ms",
        "ratio": each / BUDGET_MS,
        "target": WORK_TARGET,
        "detail": detail,
    }


def run() -> list[dict[str, Any]]:
    """Measure wall time divided by the latency, and CPU time divided by its limit. Returns [{name, ratio, target, detail}]."""
    return [_wall(), _work()]
