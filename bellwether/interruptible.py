"""Runs coroutines that signals end: an exception that a handler raises inside an event loop ends one callback, and the loop goes on."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, but SIGINT and SIGTERM cancel `main`, and their own handlers are called once the loop has ended.

    A handler that returns is followed by `KeyboardInterrupt`. Signals without a handler in Python, and threads other than the main one, are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)
    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    came: list[signal.Signals] = []

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        former = {number: signal.getsignal(number) for number in handlers}

        def stop(number: signal.Signals) -> None:
            came.append(number)
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
        if not came:
            raise
    if came:
        handlers[came[0]](came[0], None)
        raise KeyboardInterrupt
    return result
