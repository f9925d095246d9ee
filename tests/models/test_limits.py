"""Limits hold: calls at a time, per minute, and all calls of a model slow down when the provider turns one away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError
from bellwether.journal import Journal, Outcome
from bellwether.models.client import Answer, Limits, NoAnswer, Retry, Stopped
from bellwether.models.limits import Pace, Slots
from bellwether.models.wire.call import Call, Result
from tests.models.asking import COST, MOST, FakeWire, Time, ask, ask_all, client, failed, model, said


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as opened:
        yield opened


async def shortly(call: Call) -> Result:
    await asyncio.sleep(0.005)
    return said()


# --- at a time -------------------------------------------------------------------------------------------------------


async def test_no_more_calls_are_under_way_than_the_model_takes(journal: Journal) -> None:
    async with client(journal, wire := FakeWire(shortly)) as asking:
        await ask_all(asking, range(20), of=model(concurrency=3))
    assert (wire.most, wire.count) == (3, 20)


async def test_no_more_calls_are_under_way_than_the_run_takes(journal: Journal) -> None:
    async with client(journal, wire := FakeWire(shortly), limits=Limits(concurrency=4)) as asking:
        await asyncio.gather(ask_all(asking, range(10)), ask_all(asking, range(10), of=model("other")))
    assert (wire.most, wire.count) == (4, 20)


async def test_a_model_that_pauses_leaves_the_slots_of_the_run_to_others(journal: Journal) -> None:
    """Of twenty calls four are turned away for minutes; those that waited for a slot of the run meanwhile must not sleep in it."""
    time = Time()

    async def script(call: Call) -> Result:
        await time.sleep(1)
        return failed(Outcome.RATE_LIMIT, 429, retry_after=300.0) if call.model.name == "paused" else said()

    async with client(journal, FakeWire(script), time, limits=Limits(concurrency=4)) as asking:
        paused = asyncio.create_task(ask_all(asking, range(20), of=model("paused", concurrency=20)))
        await asyncio.sleep(0)
        found = await ask_all(asking, range(20), of=model("other", concurrency=20))
        assert all(isinstance(one, Answer) for one in found)
        assert time.seconds < 10
        await paused


@pytest.mark.parametrize("concurrency", [None, 3])
async def test_a_model_at_the_end_of_its_budget_keeps_no_other_waiting(journal: Journal, concurrency: int | None) -> None:
    """Each of its calls waits for the one before, a hundred seconds long, to learn whether money is left."""
    time = Time()

    async def script(call: Call) -> Result:
        await time.sleep(100 if call.model.name == "scarce" else 1)
        return said()

    most = {"scarce": MOST, "other": 0}
    options: dict[str, Any] = {"most_cost": lambda asked, messages, parameters: most[asked.name]}
    limits = Limits(concurrency, dollars_per_model=Decimal(MOST + 5 * COST) / 10**6)
    async with client(journal, FakeWire(script), time, limits=limits, **options) as asking:
        scarce = asyncio.create_task(ask_all(asking, range(6), of=model("scarce", concurrency=6)))
        await asyncio.sleep(0)
        await ask_all(asking, range(4), of=model("other", concurrency=2))
        assert time.seconds < 10
        found = await scarce
    assert sum(isinstance(one, Answer) for one in found) == 6
    assert time.seconds > 100


async def test_models_that_share_a_tight_budget_never_exceed_it(journal: Journal) -> None:
    limit = 3 * MOST + 7 * COST
    async with client(journal, wire := FakeWire(shortly), limits=Limits(dollars=Decimal(limit) / 10**6)) as asking:
        found = await asyncio.gather(*(ask_all(asking, range(20), of=model(name)) for name in "abc"))
    answers = [one for each in found for one in each if isinstance(one, Answer)]
    assert len(answers) == wire.count
    assert limit - MOST < journal.spent().committed <= limit


async def test_slots_are_taken_in_order_and_a_waiter_that_leaves_blocks_nobody() -> None:
    slots, order = Slots(1), []

    async def take(name: str) -> None:
        await slots.take()
        order.append(name)

    await take("a")
    waiting = [asyncio.create_task(take(name)) for name in "bcd"]
    await asyncio.sleep(0)
    waiting[0].cancel()
    slots.give_back()
    await asyncio.sleep(0)
    waiting[1].cancel()  # it has its slot already, or has just been given it
    slots.give_back()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order[0] == "a"
    assert order[-1] == "d"


async def test_a_slot_given_to_somebody_who_leaves_at_that_moment_goes_to_the_next() -> None:
    slots = Slots(1)
    await slots.take()
    first, second = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back()
    first.cancel()
    await asyncio.wait_for(second, 1)
    assert slots.taken == 1


def test_slots_are_halved_by_a_refusal_and_grow_by_one_in_a_round_of_successes() -> None:
    slots = Slots(100)
    slots.taken = 40
    slots.narrow()
    assert slots.width == 20
    for _ in range(20):
        slots.widen()
    assert 20.9 < slots.width < 21.0
    for _ in range(10):
        slots.narrow()
    assert slots.width >= 1
    for _ in range(10_000):
        slots.widen()
    assert slots.width == 100


# --- per minute ------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 50), min_size=1, max_size=40), st.integers(1, 600))
def test_no_minute_has_more_units_than_its_limit_and_the_first_call_of_it(amounts: list[float], per_minute: int) -> None:
    time = Time()
    taken: list[tuple[float, float]] = []

    async def nap(seconds: float) -> None:
        time.seconds += seconds

    async def work() -> None:
        pace = Pace(per_minute, time.now)
        for amount in amounts:
            await pace.take(amount, nap)
            taken.append((time.seconds, amount))

    asyncio.run(work())
    for start, first in taken:
        within = sum(amount for at, amount in taken if start <= at < start + 59.999)
        assert within <= per_minute + max(amounts) + first + 1e-6


async def test_requests_of_a_model_are_evenly_spaced(journal: Journal) -> None:
    time = Time()
    sent: list[float] = []
    async with client(journal, FakeWire(lambda call: (sent.append(time.now()), said())[1]), time) as asking:
        await ask_all(asking, range(5), of=model(requests_per_minute=30))
    assert [round(at) for at in sent] == [0, 2, 4, 6, 8]


async def test_requests_of_all_models_of_a_run_share_its_pace(journal: Journal) -> None:
    time = Time()
    async with client(journal, FakeWire(), time, limits=Limits(requests_per_minute=60)) as asking:
        await asyncio.gather(ask_all(asking, range(3)), ask_all(asking, range(3), of=model("other")))
    assert time.now() == pytest.approx(5)


async def test_tokens_are_counted_as_expected_and_then_as_they_were(journal: Journal) -> None:
    """The first call is guessed at its limit of 880 tokens and more, but used 120: those after it are counted as 120."""
    time = Time()
    entry = model(tokens_per_minute=1200, max_tokens=880, concurrency=1)
    async with client(journal, FakeWire(), time) as asking:
        for number in range(11):
            await ask(asking, number, of=entry)
    assert time.now() == pytest.approx(10 * 120 / 1200 * 60, rel=0.02)


# --- turned away -----------------------------------------------------------------------------------------------------


async def test_a_storm_slows_the_whole_model_down_and_no_other(journal: Journal) -> None:
    """The provider is shut for 30 seconds: a hundred calls do not knock four thousand times, and all get their answers."""
    time = Time()

    def shut(call: Call) -> Result:
        if call.model.name == "oracle" and time.now() < 30:
            return failed(Outcome.RATE_LIMIT, 429)
        return said()

    async with client(journal, wire := FakeWire(shut), time) as asking:
        found, others = await asyncio.gather(ask_all(asking, range(100)), ask_all(asking, range(20), of=model("other")))
        refusals = asking.stats["oracle"].failures[Outcome.RATE_LIMIT]
    assert all(isinstance(one, Answer) for one in found + others)
    assert refusals <= 25
    assert wire.count == 120 + refusals
    assert 30 <= time.now() < 120


async def test_what_the_provider_asks_to_wait_is_waited_by_all_calls(journal: Journal) -> None:
    time = Time()
    sent: list[float] = []

    def script(call: Call) -> Result:
        sent.append(time.now())
        return failed(Outcome.RATE_LIMIT, 429, retry_after=25.0) if len(sent) == 1 else said()

    async with client(journal, FakeWire(script), time) as asking:
        await ask_all(asking, range(10), of=model(concurrency=1))
    assert sent[0] == 0
    assert all(at >= 25 for at in sent[1:])


async def test_a_wait_beyond_all_patience_stops_the_model(journal: Journal) -> None:
    wire = FakeWire(lambda call: failed(Outcome.RATE_LIMIT, 429, retry_after=86_400.0))
    async with client(journal, wire, time := Time()) as asking:
        with pytest.raises(Stopped, match="asks to come back in 86400 s") as stopped:
            await ask(asking)
    assert (stopped.value.kind, wire.count, time.now()) == ("rate_limit", 1, 0)


async def test_a_model_that_turns_everything_away_for_too_long_is_stopped_and_its_calls_stay_open(journal: Journal) -> None:
    wire = FakeWire(lambda call: failed(Outcome.RATE_LIMIT, 429))
    async with client(journal, wire, time := Time(), retry=Retry(turned_away=1000, patience=300.0)) as asking:
        found = await ask_all(asking, range(50))
    assert {one.kind for one in found if isinstance(one, Stopped)} == {"rate_limit"}
    assert len(found) == 50
    assert 300 < time.now() < 420
    assert wire.count < 60
    assert journal.failures() == []


async def test_a_call_that_is_turned_away_again_and_again_is_left_to_the_next_run(journal: Journal) -> None:
    unlucky = lambda call: failed(Outcome.RATE_LIMIT, 429) if call.messages[0]["content"] == "Will event 0 happen?" else said()  # noqa: E731
    async with client(journal, FakeWire(unlucky), retry=Retry(turned_away=3)) as asking:
        first, *others = await ask_all(asking, range(10))
    assert isinstance(first, NoAnswer)
    assert (first.outcome, first.attempts, first.final, first.usage.cost) == (Outcome.RATE_LIMIT, 3, False, 0)
    assert all(isinstance(one, Answer) for one in others)


async def test_a_stop_wakes_those_who_wait(journal: Journal) -> None:
    """Calls that are paced over hours end with the model, not hours later."""
    from bellwether.models.wire.call import Stop

    bad = failed(Outcome.AUTHENTICATION, 401, stop=Stop.AUTHENTICATION, permanent=True)
    async with client(journal, FakeWire(lambda call: bad), sleep=asyncio.sleep, now=asyncio.get_running_loop().time) as asking:
        async with asyncio.timeout(5):
            found = await ask_all(asking, range(10), of=model(requests_per_minute=1))
    assert {one.kind for one in found} == {"authentication"}


# --- asking again ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.one_of(st.none(), st.floats(0, 1e6)), st.integers(0, 2**32))
def test_waits_lie_in_the_upper_half_of_an_exponential_and_have_bounds(failures: int, asked: float | None, seed: int) -> None:
    retry = Retry()
    wait = retry.wait(failures, Random(seed), asked)
    longest = min(60.0, 2.0 * 2.0 ** min(failures - 1, 30))
    assert longest / 2 <= wait <= max(longest, min(asked or 0, 600.0))
    assert wait == Retry().wait(failures, Random(seed), asked)


@pytest.mark.parametrize("bad", [{"attempts": 0}, {"turned_away": 0}, {"in_a_row": 0}, {"unreachable": 0}])
def test_bounds_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Retry(**bad)
