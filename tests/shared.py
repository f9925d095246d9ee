"""Helpers for tests with several processes: a shared folder, and waiting with a deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this test run share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def wait_until(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """Wait until a condition holds. Fails with the message `what` after some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not after {seconds:g} seconds: {what}"
        time.sleep(0.01)


def wait_for_child(child: int, seconds: float = 120.0) -> int:
    """Return the status of a forked child, like `os.waitpid`. Kills the child and fails after some seconds."""
    end = time.monotonic() + seconds
    while not (waited := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"a forked child has not ended in {seconds:g} seconds")
        time.sleep(0.002)
    return waited[1]


async def until(condition: Callable[[], object], what: str = "what other tasks do", seconds: float = 120.0) -> None:
    """Wait like `wait_until`, but let other tasks of the event loop run."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not after {seconds:g} seconds: {what}"
        await asyncio.sleep(0.002)


def unused_port() -> int:
    """Return a port at which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
