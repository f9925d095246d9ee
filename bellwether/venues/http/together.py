"""Work side by side, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from bellwether.errors import BellwetherError, ConfigError, VenueError

K = TypeVar("K")
T = TypeVar("T")

#: Kinds of failures after which the venue may be down for every call: each has cost minutes of repeated attempts.
_DOWN = frozenset({"rate limit", "server", "timeout", "connection"})


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


async def each(works: Mapping[K, Callable[[], Awaitable[T]]], *, most: int) -> tuple[dict[K, T], dict[K, BellwetherError]]:
    """The results of `works`, and the failures of the others: one failure does not end the rest, except a `ConfigError`.

    After `most` failures in a row that suggest that the venue is down, no other work is begun.
    """
    results: dict[K, T] = {}
    failures: dict[K, BellwetherError] = {}
    down = 0

    async def work(name: K) -> None:
        nonlocal down
        if down >= most:
            failures[name] = BellwetherError("not requested: the venue did not answer before")
            return
        try:
            results[name] = await works[name]()
        except ConfigError:
            raise
        except BellwetherError as error:
            failures[name] = error
            down = down + 1 if isinstance(error, VenueError) and error.kind in _DOWN else 0
        else:
            down = 0

    await together((partial(work, name) for name in works), most=most)
    return results, failures
