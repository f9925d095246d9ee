"""The journal from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """`work(*args, **kwargs)` in a thread, to its end even when the caller is cancelled.

    `asyncio.to_thread` is not enough: a task that is cancelled while its thread waits for its turn never runs, and an answer would be lost.
    """
    loop = asyncio.get_running_loop()
    return await asyncio.shield(loop.run_in_executor(None, partial(work, *args, **kwargs)))
