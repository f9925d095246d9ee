"""Coroutines interrupted by signals."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from bellwether.concurrency import SIGNALS, run


class Stopped(BaseException):
    """Exception raised by a framework's signal handler."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    former = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def stop(*_: object) -> None:
    raise Stopped


async def work(cleaned: list[str], number: signal.Signals = signal.SIGINT) -> str:
    """Coroutine that waits until a signal arrives."""
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.sleep(3600))
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
    finally:
        cleaned.append("cleaned")
    return "done"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_cancels_the_work_and_its_handler_says_how_it_ends(number: signal.Signals) -> None:
    signal.signal(number, stop)
    cleaned: list[str] = []
    with pytest.raises(Stopped):
        run(work(cleaned, number))
    assert cleaned == ["cleaned"]
    assert signal.getsignal(number) is stop


def test_ctrl_c_without_a_handler_of_a_framework_is_a_keyboard_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        run(work([]))


def test_a_handler_that_only_takes_note_is_followed_by_an_interrupt() -> None:
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    with pytest.raises(KeyboardInterrupt):
        run(work([]))
    assert noted == [signal.SIGINT]


def test_results_and_errors_are_those_of_the_work() -> None:
    async def good() -> int:
        return 3

    async def bad() -> int:
        raise ValueError("no")

    assert run(good()) == 3
    with pytest.raises(ValueError, match="no"):
        run(bad())


def test_another_thread_runs_it_too() -> None:
    found: list[str] = []

    async def good() -> None:
        found.append(threading.current_thread().name)

    thread = threading.Thread(target=lambda: run(good()), name="other")
    thread.start()
    thread.join(60)
    assert found == ["other"]
