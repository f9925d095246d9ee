"""Rates and requests in flight shared by eight processes on a journal, also when one is killed or frozen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bellwether.journal.attempts import LEASE
from deploy.loopback import Process
from tests.nightly.limit_sharers import BURST, RATE, Sharer, ask, pace

WORKERS = 8


@contextmanager
def workers(work: Callable[..., Any], url: str, *more: Any) -> Iterator[list[Sharer]]:
    """Eight processes that start at the same time."""
    started = [Sharer(work, url, number, *more) for number in range(WORKERS)]
    try:
        for one in started:
            one.wait()
        for one in started:
            one.begin()
        yield started
    finally:
        for one in started:
            one.kill()


def admitted(times: list[float], since: float, until: float) -> int:
    return sum(since <= moment < until for moment in times)


def test_eight_processes_hold_one_rate_within_five_percent(url: str) -> None:
    with workers(pace, url, 6) as started:
        begun = time.time()
        found = [one.found() for one in started]
    times = sorted(moment for own in found for moment in own)
    assert admitted(times, begun + 1, begun + 5) == pytest.approx(4 * RATE, rel=0.05)
    late = 0.05  # maximum delay of a process after an admission, in seconds
    windows = [admitted(times, moment, moment + 1) for moment in times[::10]]
    assert max(windows) <= RATE * (1 + BURST + late) + 1
    assert all(found)


def test_the_death_of_a_process_costs_the_others_no_more_than_a_reservation(url: str) -> None:
    with workers(pace, url, 5) as started:
        begun = time.time()
        time.sleep(1.5)
        started[0].kill()
        times = [moment for one in started[1:] for moment in one.found()]
    assert admitted(times, begun + 2, begun + 4) == pytest.approx(2 * RATE, rel=0.05)


def test_the_rate_holds_again_after_the_server_was_killed_and_restarted(postgres_url: str, postgres_server: Process) -> None:
    with workers(pace, postgres_url, 12) as started:
        time.sleep(1)
        postgres_server.kill()
        postgres_server.start()
        back = time.time()
        times = [moment for one in started for moment in one.found()]
    assert admitted(times, back + 1, back + 4) == pytest.approx(3 * RATE, rel=0.05)


def test_eight_processes_never_have_more_requests_in_flight_than_the_model_takes(url: str) -> None:
    with workers(ask, url, 3, 10) as started:
        spans = [span for one in started for span in one.found()]
    assert len(spans) == WORKERS * 10
    assert max(sum(sent <= start < answered for sent, answered in spans) for start, _ in spans) == 3


def test_the_slots_of_killed_and_frozen_processes_are_free_within_a_lease(url: str) -> None:
    with workers(ask, url, 2, 20) as started:
        time.sleep(0.3)
        started[0].kill()
        started[1].freeze()
        begun = time.monotonic()
        turns = [len(one.found()) for one in started[2:]]
        waited = time.monotonic() - begun
    assert turns == [20] * (WORKERS - 2)
    assert waited < LEASE.total_seconds() + 20
