"""Use of the journal from asyncio: operations run in threads, several in one transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, ParamSpec, TypeVar

from bellwether.journal.journal import Journal

P = ParamSpec("P")
Result = TypeVar("Result")


async def in_thread(work: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs) -> Result:
    """Run `work(*args, **kwargs)` in a thread and return its result. The work completes even if the caller is cancelled.

    `asyncio.to_thread` is not enough: if a task is cancelled while its thread is queued, the work never runs and an answer would be lost.
    """
    loop = asyncio.get_running_loop()
    return await asyncio.shield(loop.run_in_executor(None, partial(work, *args, **kwargs)))


T = TypeVar("T")
_Work = Callable[[], Any]
_Waiting = tuple["Urgency", _Work, "asyncio.Future[Any]"]

#: Maximum number of works in one transaction, which bounds the wait of the first.
_MOST = 16
#: Number of threads if writers do not wait for each other.
_LANES = 8


class Urgency(IntEnum):
    """Order in which waiting operations run: first replies are stored, then calls begun, then reads. So a crash loses few replies that are paid for."""

    STORE = 0
    BEGIN = 1
    READ = 2


class Writer:
    """Queue of journal operations ("works"), which run in threads, several per transaction (`Journal.together`). For use in one event loop.

    A submitted work is completed even if its caller is cancelled, so replies are stored. It has no task of its own, which a closing loop would
    cancel with the others.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: dict[Urgency, deque[_Waiting]] = {urgency: deque() for urgency in Urgency}
        self._most = _MOST if journal.shares else 1
        self._lanes = 1 if journal.shares else _LANES
        self._at_work = 0
        self._is_due = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """True if every submitted work has finished."""
        return self._idle.is_set()

    def submit(self, work: Callable[[], T], urgency: Urgency = Urgency.STORE) -> asyncio.Future[T]:
        """Queue `work` and return the future of its result. Cancelling the future does not stop the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting[urgency].append((urgency, work, future))
        self._idle.clear()
        if not self._is_due and self._at_work < self._lanes:
            self._is_due = True
            loop.call_soon(self._begin)  # after other tasks that are ready now have submitted their works
        return future

    async def do(self, work: Callable[[], T], urgency: Urgency = Urgency.STORE) -> T:
        """Run `work` in a thread, and return its result or raise its error."""
        return await asyncio.shield(self.submit(work, urgency))

    async def settle(self) -> None:
        """Wait until every submitted work has finished."""
        await self._idle.wait()

    def _begin(self) -> None:
        self._is_due = False
        while self._at_work < self._lanes and (batch := self._next()):
            self._at_work += 1
            urgencies, works, futures = zip(*batch, strict=True)
            do = _run_read if urgencies == (Urgency.READ,) else self._journal.together
            batch_result = asyncio.get_running_loop().run_in_executor(None, do, works)
            batch_result.add_done_callback(partial(self._end, futures))

    def _end(self, futures: Sequence[asyncio.Future[Any]], batch_result: asyncio.Future[list[Any]]) -> None:
        self._at_work -= 1
        error = batch_result.exception()
        results = batch_result.result() if error is None else [error] * len(futures)
        for future, result in zip(futures, results, strict=True):
            _set_result(future, result)
        self._begin()
        if not self._at_work:
            self._idle.set()

    def _next(self) -> list[_Waiting]:
        """Remove and return the next works to run together, the most urgent first."""
        batch: list[_Waiting] = []
        for queue in self._waiting.values():
            while queue and len(batch) < self._most:
                batch.append(queue.popleft())
        return batch


def _run_read(works: Sequence[_Work]) -> list[Any]:
    """Run a single read without a transaction. Returns a list with its result or error, like `Journal.together`."""
    (work,) = works
    try:
        return [work()]
    except Exception as error:
        return [error]


def _set_result(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
