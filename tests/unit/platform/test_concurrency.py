"""Concurrent work: bounded, in order, ended by the first failure, and interrupted by signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from bellwether.concurrency import SIGNALS, each, run, together
from bellwether.errors import BellwetherError, ConfigError, LakeError, VenueError


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


async def wait_for_signal(cleaned: list[str], number: signal.Signals = signal.SIGINT) -> str:
    """Coroutine that waits until a signal arrives."""
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
    finally:
        cleaned.append("cleaned")
    return "done"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_cancels_the_work_and_its_handler_says_how_it_ends(number: signal.Signals) -> None:
    signal.signal(number, stop)
    cleaned: list[str] = []
    with pytest.raises(Stopped):
        run(wait_for_signal(cleaned, number))
    assert cleaned == ["cleaned"]
    assert signal.getsignal(number) is stop


def test_ctrl_c_without_a_handler_of_a_framework_is_a_keyboard_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        run(wait_for_signal([]))


def test_a_handler_that_only_takes_note_is_followed_by_an_interrupt() -> None:
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    with pytest.raises(KeyboardInterrupt):
        run(wait_for_signal([]))
    assert noted == [signal.SIGINT]


class Tracker:
    """Records started, ended and cancelled tasks. A task ends after a given number of turns of the event loop."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []
        self.under_way = self.most = 0

    async def work(self, number: int, turns: int = 1, failure: Exception | None = None) -> int:
        self.began.append(number)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
            if failure:
                raise failure
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        finally:
            self.under_way -= 1
        self.ended.append(number)
        return number


@pytest.mark.parametrize(("works", "most"), [(0, 3), (1, 3), (10, 1), (10, 3), (3, 10)])
async def test_results_come_in_the_order_of_the_works_and_no_more_than_the_bound_are_under_way(works: int, most: int):
    tracker = Tracker()
    found = await together([partial(tracker.work, number, turns=works - number) for number in range(works)], most=most)
    assert found == list(range(works))
    assert tracker.most == min(works, most)


async def test_the_first_failure_is_raised_as_itself_and_ends_the_others():
    tracker, cause = Tracker(), ValueError("below")
    failure = VenueError("GET /x", 3, "HTTP 500")
    failure.__cause__ = cause
    works = [partial(tracker.work, 0), partial(tracker.work, 1, 3, failure), partial(tracker.work, 2, 50), partial(tracker.work, 3, 60)]
    works += [partial(tracker.work, number) for number in range(4, 9)]
    with pytest.raises(VenueError) as caught:
        await together(works, most=3)
    assert caught.value is failure
    assert caught.value.__cause__ is cause
    assert tracker.cancelled == [2, 3]
    assert tracker.ended == [0]
    assert tracker.began == [0, 1, 2, 3]


async def test_whoever_cancels_it_cancels_all():
    tracker = Tracker()
    task = asyncio.create_task(together([partial(tracker.work, number, 100) for number in range(5)], most=2))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tracker.cancelled, tracker.under_way) == ([0, 1], 0)


async def ended(result: int | BellwetherError) -> int:
    await asyncio.sleep(0)
    if isinstance(result, BellwetherError):
        raise result
    return result


def down(kind: str = "timeout") -> VenueError:
    return VenueError("GET /x", 1, "cause", "advice", kind=kind)


async def test_each_goes_on_after_failures_and_names_them():
    results: list[int | BellwetherError] = [0, LakeError("one"), down(), 3, down(), down("paging"), down(), 7]
    found, failures = await each({number: partial(ended, result) for number, result in enumerate(results)}, most=2)
    assert (found, set(failures)) == ({0: 0, 3: 3, 7: 7}, {1, 2, 4, 5, 6})
    assert failures[1] is results[1]


async def test_each_begins_no_more_where_the_venue_is_down():
    tracker = Tracker()
    works = {number: partial(tracker.work, number, failure=down()) for number in range(9)}
    found, failures = await each(works, most=3)
    assert (found, set(failures), tracker.began) == ({}, set(range(9)), [0, 1, 2, 3, 4])
    assert "not requested" in str(failures[5])


async def test_each_is_ended_by_a_setting_that_is_wrong():
    with pytest.raises(ConfigError):
        await each({0: partial(ended, ConfigError("wrong")), 1: partial(ended, 1)}, most=1)
