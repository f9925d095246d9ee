"""The journal from asyncio, for many calls at once: what waits at the same time shares a transaction, and so a write to the disk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar, cast

from bellwether.journal.journal import Journal
from bellwether.journal.threads import in_thread

T = TypeVar("T")
_Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]

#: Most works of one transaction: the first ones of many need not wait for the last.
_MOST = 16
#: Threads at work where writers do not wait for each other.
_LANES = 8


class Urgency(IntEnum):
    """What goes first: requests that are held up by it, of which there are few at a time; then to keep what has come; then to look."""

    BEGIN = 0
    KEEP = 1
    LOOK = 2


class Writer:
    """Does works on a journal in a thread, many in one transaction (`Journal.together`). Use it from one event loop.

    A work that has been handed in is done, even when nobody waits for it any more: what came back is stored when a task is cancelled.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: dict[Urgency, deque[_Waiting]] = {urgency: deque() for urgency in Urgency}
        self._lanes: set[asyncio.Task[None]] = set()
        self._most = _MOST if journal.shares else 1
        self._most_lanes = 1 if journal.shares else _LANES

    def submit(self, work: Callable[[], T], urgency: Urgency = Urgency.KEEP) -> asyncio.Future[T]:
        """The future result of `work`; it is done however that future is treated."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[urgency].append((work, future))
        if len(self._lanes) < self._most_lanes:
            lane = asyncio.create_task(self._drain())
            self._lanes.add(lane)
        return future

    async def do(self, work: Callable[[], T], urgency: Urgency = Urgency.KEEP) -> T:
        """What `work` returns or raises."""
        return await asyncio.shield(self.submit(work, urgency))

    async def settle(self) -> None:
        """Wait until all that was handed in is done."""
        while self._lanes:
            await asyncio.wait(self._lanes)

    async def _drain(self) -> None:
        """Until nothing waits. The lane leaves at once then: what is handed in a moment later needs another."""
        try:
            while batch := self._next():
                results = await self._done([work for work, _ in batch])
                for (_, future), result in zip(batch, results, strict=True):
                    _tell(future, result)
        finally:
            self._lanes.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _done(self, works: list[Callable[[], Any]]) -> list[Any]:
        try:
            return await in_thread(self._journal.together, works)
        except Exception as error:
            return [error] * len(works)

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        for queue in self._waiting.values():
            while queue and len(batch) < self._most:
                batch.append(queue.popleft())
        return batch


def _tell(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
