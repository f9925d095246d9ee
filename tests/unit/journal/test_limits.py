"""Limits that all processes on a journal share: requests in flight, rates, and work of one process at a time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from bellwether.errors import ConfigError
from bellwether.journal.journal import Attempt, InFlight, Journal
from bellwether.journal.tables import LEASE
from bellwether.journal.values import Busy, Full, Outcome
from tests.unit.journal.calls import Clock, begin_attempt, begin_call, make_reply, make_request

TWO = InFlight("oracle", 2)


def test_no_more_requests_are_in_flight_than_an_entry_takes(journal: Journal) -> None:
    first, second = (begin_attempt(journal, make_request(number), in_flight=TWO) for number in range(2))
    assert begin_call(journal, make_request(2), in_flight=TWO) == Full("oracle")
    assert journal.status(make_request(2).key) is None
    assert isinstance(begin_call(journal, make_request(1), in_flight=TWO), Busy)
    begin_attempt(journal, make_request(3), in_flight=InFlight("another entry of the model", 2))
    begin_attempt(journal, make_request(4))
    first.answer(make_reply())
    begin_attempt(journal, make_request(2), in_flight=TWO)
    second.fail(Outcome.TIMEOUT, "slow")
    begin_attempt(journal, make_request(1), in_flight=TWO)


def test_a_process_that_died_is_in_flight_for_a_lease_and_one_that_renews_until_it_ends(journal: Journal, clock: Clock) -> None:
    begin_attempt(journal, make_request(0), in_flight=TWO)
    alive = begin_attempt(journal, make_request(1), in_flight=TWO)
    clock.advance(LEASE / 2)
    journal.renew([alive])
    assert isinstance(begin_call(journal, make_request(2), in_flight=TWO), Full)
    clock.advance(LEASE / 2)
    assert isinstance(begin_call(journal, make_request(2), in_flight=TWO), Attempt)
    assert isinstance(begin_call(journal, make_request(3), in_flight=TWO), Full)
    assert journal.spent().in_flight == 2
    assert isinstance(begin_call(journal, make_request(0)), Busy), "it may still answer, until its time is over"


def test_processes_reserve_one_after_the_other_and_wait_as_long_as_a_venue_asks(url: str) -> None:
    """A lead is the time from now until the end of the reservation."""
    with Journal(url) as one, Journal(url) as other:
        leads = [journal.limits.reserve("kalshi", 100.0) for journal in (one, other, one)]
        assert leads == pytest.approx([100, 200, 300], abs=5)
        assert other.limits.reserve("gamma", 100.0) == pytest.approx(100, abs=5), "rates of other names are independent"
        other.limits.reserve("kalshi", 0.0, 400.0)
        assert one.limits.reserve("kalshi", 100.0) == pytest.approx(500, abs=5)
        one.limits.reserve("kalshi", 0.0, 10.0)
        assert other.limits.reserve("kalshi", 100.0) == pytest.approx(600, abs=5), "a shorter wait shortens none"


def test_a_clock_that_is_set_back_delays_reservations_by_ten_minutes_at_most(journal: Journal, clock: Clock) -> None:
    assert journal.limits.reserve("kalshi", 1.0) == 1
    clock.advance(-timedelta(days=1))
    assert journal.limits.reserve("kalshi", 1.0) == 601
    assert journal.limits.reserve("kalshi", 1.0) == 601


async def test_the_buckets_of_all_processes_have_one_rate_and_a_pause_holds_for_all(
    url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(timedelta(seconds=seconds))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with Journal(url, clock=clock) as one, Journal(url, clock=clock) as other:
        buckets = [journal.limits.limiter("venue", 10, 1) for journal in (one, other)]
        for number in range(40):
            await buckets[number % 2].acquire()
        assert waits == pytest.approx([0.0] * 10 + [0.1] * 30)
        await buckets[0].pause(7)
        await buckets[1].acquire()
        assert waits[-1] == pytest.approx(7.1)


async def test_a_request_larger_than_the_bucket_is_refused(journal: Journal) -> None:
    with pytest.raises(ValueError, match="11 units exceed the bucket of 10"):
        await journal.limits.limiter("venue", 10, 1).acquire(11)


async def test_one_at_a_time_is_in_a_block_and_a_dead_process_leaves_it_after_a_lease(
    journal: Journal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bellwether.journal.limits._POLL", (0.001, 0.002))
    assert journal.limits._take("day", "dead")
    assert not journal.limits._take("day", "alive")
    clock.advance(LEASE - timedelta(seconds=1))
    assert journal.limits._take("day", "dead"), "it renews its lease"
    clock.advance(LEASE)
    order: list[str] = []

    async def work(name: str) -> None:
        async with journal.limits.exclusively("day"):
            order.append(name)
            await asyncio.sleep(0.005)
            order.append(name)

    await asyncio.gather(work("a"), work("b"), work("c"))
    assert [order[place] == order[place + 1] for place in (0, 2, 4)] == [True] * 3


@pytest.mark.parametrize(
    ("given", "refusal"),
    [({"timeout": timedelta(0)}, "longer than an attempt"), ({"run": "x\n"}, "run"), ({"estimate": -1}, "-1")],
)
def test_attempts_that_make_no_sense_are_refused(journal: Journal, given: dict, refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        begin_call(journal, make_request(), **given)
