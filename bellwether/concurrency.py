"""Concurrent execution of coroutines, with a maximum number at a time, work in threads, and cancellation by signals."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar

from bellwether.errors import BellwetherError, ConfigError, VenueError

K = TypeVar("K")
T = TypeVar("T")
P = ParamSpec("P")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Kinds of failures after which the venue may be down for every call: each has cost minutes of repeated attempts.
_DOWN = frozenset({"rate limit", "server", "timeout", "connection"})


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work(*args, **kwargs)` in a thread and return its result. The work completes even if the caller is cancelled.

    `asyncio.to_thread` is not enough: if a task is cancelled while its thread is queued, the work never runs and an answer would be lost.
    """
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs)))


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, but cancel it at SIGINT and SIGTERM. The signal's handler is called after the loop has ended.

    If a handler returns, `KeyboardInterrupt` is raised. Signals without a handler in Python, and threads other than the main one, are not affected.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)
    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    received: list[signal.Signals] = []

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        former = {number: signal.getsignal(number) for number in handlers}

        def stop(number: signal.Signals) -> None:
            received.append(number)
            task.cancel()

        for number in handlers:
            loop.add_signal_handler(number, stop, number)
        try:
            return await main
        finally:
            for number, handler in former.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    try:
        result = asyncio.run(watched())
    except BaseException:
        if not received:
            raise
    if received:
        handlers[received[0]](received[0], None)
        raise KeyboardInterrupt
    return result


async def together(works: Iterable[Callable[[], Awaitable[T]]], *, most: int) -> list[T]:
    """Run all functions of `works`, at most `most` at a time, and return their results in order.

    The first failure cancels all others and is raised unchanged.
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
    """Run all functions of `works`, at most `most` at a time, and return results and errors by name. A `ConfigError` is raised and stops the others.

    After `most` consecutive failures of an unreachable venue, no more works are started.
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
