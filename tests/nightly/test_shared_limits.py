"""Rates and requests in flight shared by eight processes on a journal, also when one is killed or frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bellwether.journal import Journal
from bellwether.journal.attempts import LEASE
from bellwether.models.attempt_outcomes import AttemptResult
from bellwether.models.client import ModelClient
from bellwether.models.keys import Endpoint
from bellwether.models.transport import ModelCall
from deploy.loopback import Process
from tests.nightly.limit_sharers import BURST, RATE, Sharer, ask, pace
from tests.unit.models.scripted_client import FakeWire, make_result, model
from tests.unit.models.scripted_client import ask as ask_model

WORKERS = 8


@contextmanager
def workers(work: Callable[..., Any], url: str, *more: Any) -> Iterator[list[Sharer]]:
    """Eight processes that start at the same time."""
    started = [Sharer(work, url, number, *more) for number in range(WORKERS)]
    try:
        for one in started:
            one.wait()
        for one in started:
            one.begin()
        yield started
    finally:
        for one in started:
            one.kill()


def admitted(times: list[float], since: float, until: float) -> int:
    return sum(since <= moment < until for moment in times)


def test_eight_processes_hold_one_rate_within_five_percent(url: str) -> None:
    with workers(pace, url, 6) as started:
        begun = time.time()
        found = [one.found() for one in started]
    times = sorted(moment for own in found for moment in own)
    assert admitted(times, begun + 1, begun + 5) == pytest.approx(4 * RATE, rel=0.05)
    late = 0.05  # maximum delay of a process after an admission, in seconds
    windows = [admitted(times, moment, moment + 1) for moment in times[::10]]
    assert max(windows) <= RATE * (1 + BURST + late) + 1
    assert all(found)


def test_the_rate_holds_again_after_the_server_was_killed_and_restarted(postgres_url: str, postgres_server: Process) -> None:
    with workers(pace, postgres_url, 12) as started:
        time.sleep(1)
        postgres_server.kill()
        postgres_server.start()
        back = time.time()
        times = [moment for one in started for moment in one.found()]
    assert admitted(times, back + 1, back + 4) == pytest.approx(3 * RATE, rel=0.05)


def test_eight_processes_never_have_more_requests_in_flight_than_the_model_takes(url: str) -> None:
    with workers(ask, url, 3, 10) as started:
        spans = [span for one in started for span in one.found()]
    assert len(spans) == WORKERS * 10
    assert max(sum(sent <= start < answered for sent, answered in spans) for start, _ in spans) == 3


def client(journal: Journal, wire: FakeWire) -> ModelClient:
    return ModelClient(journal, endpoint=lambda model: Endpoint(None), run="run", wire=wire)


async def hold_slot(url: str, number: int, ready: int) -> None:
    """Make a call that is never answered."""

    async def never(call: ModelCall) -> AttemptResult:
        os.write(ready, b"r")
        await asyncio.Event().wait()
        return make_result()

    with Journal(url) as journal:
        async with client(journal, FakeWire(never)) as opened:
            await ask_model(opened, number, model(concurrency=2))


async def ask_three(url: str) -> list[Any]:
    with Journal(url) as journal:
        async with client(journal, FakeWire()) as opened:
            return await asyncio.gather(*(ask_model(opened, number, model(concurrency=2)) for number in range(3)))


def test_the_slots_of_a_killed_and_a_frozen_process_are_free_after_a_lease(tmp_path: Path) -> None:
    url, (read, write), children = f"sqlite:///{tmp_path}/journal.db", os.pipe(), []
    for number in (10, 11):
        if not (child := os.fork()):
            asyncio.run(hold_slot(url, number, write))
            os._exit(1)
        children.append(child)
        os.read(read, 1)
    for child, stop in zip(children, (signal.SIGKILL, signal.SIGSTOP), strict=True):
        os.kill(child, stop)
    stopped = time.monotonic()
    try:
        answers = asyncio.run(asyncio.wait_for(ask_three(url), 120))
    finally:
        os.kill(children[1], signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
    assert [answer.content for answer in answers] == ["0.7"] * 3
    assert time.monotonic() - stopped < LEASE.total_seconds() + 5
