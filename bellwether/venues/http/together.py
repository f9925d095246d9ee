"""Work side by side, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(works: Iterable[Callable[[], Awaitable[T]]], *, most: int) -> list[T]:
    """The results of `works` in their order, at most `most` of them under way at once.

    The first failure cancels the works under way, begins no others, and is raised as itself.
    """
    results: dict[int, T] = {}
    waiting = enumerate(works)

    async def worker() -> None:
        for number, work in waiting:
            results[number] = await work()

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(most):
                tasks.create_task(worker())
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
    else:
        return [results[number] for number in sorted(results)]
    raise first
