"""Work of the processes in race tests, which start each race together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any

from bellwether.journal.journal import Attempt, BudgetExceeded, Journal
from bellwether.journal.records import Records
from bellwether.journal.tables import Budget, Scope
from bellwether.journal.values import Answered
from bellwether.models.client import Answer, Limits, ModelClient
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from tests.unit.journal.calls import begin_attempt, begin_call, make_reply, make_request
from tests.unit.models.failing_provider import KEY

RUNNERS = 4
ESTIMATE = 100
_start: Barrier


def _ready(barrier: Barrier) -> None:
    global _start  # noqa: PLW0603
    _start = barrier


class Racers:
    """Processes that race, each with its own connections."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(RUNNERS, context, initializer=_ready, initargs=(context.Barrier(RUNNERS),))

    def race(self, work: Callable[..., Any], url: str, *args: Any) -> list[Any]:
        """Run `work(url, number, *args)` in each process, and return the results."""
        return [one.result(300) for one in [self._pool.submit(work, url, number, *args) for number in range(RUNNERS)]]

    def close(self) -> None:
        self._pool.shutdown()


def win(url: str, number: int, keys: range) -> list[int]:
    """Begin and answer as many calls as possible. Returns their numbers."""
    won = []
    with Journal(url) as journal:
        journal.database.open()
        _start.wait(300)
        for key in keys:
            claimed = begin_call(journal, make_request(key))
            if isinstance(claimed, Attempt):
                claimed.answer(make_reply(f"runner {number}", cost=1))
                won.append(key)
    return won


def open_first(url: str, number: int) -> int:
    """Open a journal for the first time. Returns the process id."""
    _start.wait(300)
    with Journal(url) as journal:
        begin_attempt(journal, make_request(number)).answer(make_reply())
    return os.getpid()


def make_records(url: str, number: int, count: int) -> tuple[list[int], dict[int, bytes]]:
    """Make all records. Returns the numbers of the records made here, and every body received."""
    made: list[int] = []
    bodies: dict[int, bytes] = {}
    with Journal(url) as journal:
        records = Records(journal)
        _start.wait(300)

        def make(one: int) -> bytes:
            made.append(one)
            return f"runner {number}".encode()

        for one in range(count):
            bodies[one] = records.once("prompt", "race", partial(make, one), one)
    return made, bodies


def spend(url: str, number: int, limit: int) -> int:
    """Begin attempts until the budget is exhausted, and answer every other one for half of its estimate. Returns their number."""
    begins = 0
    with Journal(url) as journal:
        journal.database.open()
        _start.wait(300)
        with suppress(BudgetExceeded):
            while True:
                paid = {"run": "race", "estimate": ESTIMATE, "budgets": (Budget(limit, Scope(run="race")),)}
                attempt = begin_attempt(journal, make_request(number * 100_000 + begins), **paid)
                begins += 1
                if begins % 2:
                    attempt.answer(make_reply(cost=ESTIMATE // 2))
    return begins


def ask_model(url: str, number: int, address: str, count: int, dollars: Decimal) -> int:
    """Ask a model the same questions in every process, three at a time over all. Returns the number of answers."""
    fields = {"api_base": address, "input_price": 1, "output_price": 1, "max_tokens": 1000, "concurrency": 3}
    model = Model.model_validate({"name": "calibrated", "model": "openai/calibrated", **fields})

    async def ask_all(journal: Journal) -> list[Any]:
        limits = Limits(dollars)
        async with ModelClient(journal, endpoint=lambda _: Endpoint(address, KEY), run="race", limits=limits) as client:
            calls = (client.ask(model, [{"role": "user", "content": str(one)}], purpose="race") for one in range(count))
            return await asyncio.gather(*calls, return_exceptions=True)

    with Journal(url) as journal:
        journal.database.open()
        _start.wait(300)
        return sum(isinstance(one, Answer) for one in asyncio.run(ask_all(journal)))


def reserve(url: str, number: int, count: int, seconds: float) -> None:
    """Reserve the next seconds of one rate, several times."""
    with Journal(url) as journal:
        journal.database.open()
        _start.wait(300)
        for _ in range(count):
            journal.limits.reserve("venue", seconds)


def stall_or_take_over(url: str, number: int, keys: range) -> list[str]:
    """Stall every call in process 0, and take them over in the others. Returns the answer that each process ends with, or its failure."""
    with Journal(url) as journal:
        journal.database.open()
        if number:
            _start.wait(300)
            _start.wait(300)
            return [_take_over(journal, key, number) for key in keys]
        slow = [begin_attempt(journal, make_request(key), timeout=timedelta(microseconds=1)) for key in keys]
        _start.wait(300)
        _start.wait(300)
        return [attempt.answer(make_reply("slow", cost=1)).content for attempt in slow]


def _take_over(journal: Journal, key: int, number: int) -> str:
    claimed = begin_call(journal, make_request(key))
    if isinstance(claimed, Answered):
        return claimed.content
    if not isinstance(claimed, Attempt):
        return "busy"
    return claimed.answer(make_reply(f"runner {number}", cost=1)).content
