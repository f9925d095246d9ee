"""Limits of concurrent calls and calls per minute. All calls of a model slow down when the provider rejects one."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError, LakeError
from bellwether.journal.journal import Journal
from bellwether.journal.values import Outcome
from bellwether.models.client import Answer, Limits, NoAnswer, Retry, Stopped
from bellwether.models.response import AttemptResult
from bellwether.models.scheduler import Rate, Scheduler
from bellwether.models.transport import ModelCall
from tests.unit.models.scripted_client import COST, MOST, FakeWire, SimulatedTime, ask, ask_all, client, make_failure, make_result, model


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as opened:
        yield opened


async def slowly(call: ModelCall) -> AttemptResult:
    """Take longer than a few calls take to begin."""
    await asyncio.sleep(0.1)
    return make_result()


async def shortly(call: ModelCall) -> AttemptResult:
    await asyncio.sleep(0.005)
    return make_result()


# --- at a time -------------------------------------------------------------------------------------------------------


async def test_no_more_calls_are_under_way_than_the_model_takes(journal: Journal) -> None:
    async with client(journal, wire := FakeWire(slowly)) as asking:
        await ask_all(asking, range(9), of=model(concurrency=3))
    assert (wire.most, wire.count) == (3, 9)


async def test_a_model_at_the_end_of_its_budget_keeps_no_other_waiting(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its calls waits up to a hundred seconds for the previous one, to know whether money remains."""
    monkeypatch.setattr("bellwether.models.client._CHECK_AGAIN", (5.0, 15.0))
    time = SimulatedTime()

    async def script(call: ModelCall) -> AttemptResult:
        await time.sleep(100 if call.model.name == "scarce" else 1)
        return make_result()

    most = {"scarce": MOST, "other": 0}
    options: dict[str, Any] = {"most_cost": lambda asked, messages, parameters: most[asked.name]}
    limits = Limits(dollars_per_model=Decimal(MOST + 5 * COST) / 10**6)
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


async def test_a_call_waits_for_the_real_costs_of_another_process_and_ends_with_it(journal: Journal) -> None:
    """The rest of the budget is reserved by a call of another client, for example of a run on another worker."""
    replies = asyncio.Event()

    async def later(call: ModelCall) -> AttemptResult:
        await replies.wait()
        return make_result()

    how: dict[str, Any] = {
        "limits": Limits(dollars=Decimal(2 * COST + MOST) / 10**6),
        "sleep": lambda seconds: asyncio.sleep(0.02),
        "now": monotonic,
    }
    async with client(journal, first := FakeWire(later), **how) as one, client(journal, second := FakeWire(), **how) as other:
        asked = asyncio.create_task(ask(one, 1))
        while not first.count:
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(ask_all(other, range(2, 9)))
        await asyncio.sleep(0.1)
        assert (second.count, waiting.done()) == (0, False)
        replies.set()
        found = await waiting
        await asked
    assert [isinstance(end, Answer) for end in found].count(True) == second.count == 2
    assert {end.kind for end in found if isinstance(end, Stopped)} == {"budget"}


async def test_a_limit_that_cannot_be_shared_is_an_error_and_no_call_passes_it(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any) -> float:
        raise LakeError("the server does not answer")

    monkeypatch.setattr(journal.limits, "reserve", unreachable)
    async with client(journal, wire := FakeWire()) as asking:
        with pytest.raises(LakeError, match="does not answer"):
            await ask(asking, of=model(requests_per_minute=600))
    assert wire.count == 0


async def test_two_clients_on_a_journal_share_the_limit_of_a_model(journal: Journal) -> None:
    """Each stands for a process."""
    wire = FakeWire(slowly)
    how: dict[str, Any] = {"sleep": lambda seconds: asyncio.sleep(0.01), "now": monotonic}
    async with client(journal, wire, **how) as one, client(journal, wire, **how) as other:
        await asyncio.gather(ask_all(one, range(5), of=model(concurrency=3)), ask_all(other, range(5, 10), of=model(concurrency=3)))
    assert (wire.most, wire.count) == (3, 10)


async def test_requests_in_flight_are_halved_by_a_refusal_and_grow_by_one_in_a_round_of_successes(journal: Journal) -> None:
    entry = model(concurrency=100)
    scheduler = Scheduler(entry, journal.limits, retry=Retry(), rng=Random(1), now=lambda: 0.0, sleep=asyncio.sleep)
    record = partial(scheduler.record_attempt, started=0.0, tokens=0.0)
    scheduler.in_flight = 40
    record(make_failure(Outcome.RATE_LIMIT, 429))
    scheduler.in_flight = 20
    assert scheduler.is_full
    for _ in range(21):
        record(make_result())
    assert not scheduler.is_full
    scheduler.in_flight = 21
    assert scheduler.is_full
    for _ in range(10_000):
        record(make_result())
    scheduler.in_flight = 99
    assert not scheduler.is_full


# --- per minute ------------------------------------------------------------------------------------------------------


class JumpingSelector(selectors.DefaultSelector):
    """Selector that adds waits to the time of its loop instead of waiting."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            self.seconds += timeout
            timeout = 0
        return super().select(timeout)


def run_simulated(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a loop whose waits take no time."""
    selector = JumpingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.seconds  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class Buckets:
    """Source of one bucket, on the clock of the loop."""

    def limiter(self, name: str, max_rate: float, time_period: float) -> Buckets:
        self._per_unit, self._period, self._until = time_period / max_rate, time_period, 0.0
        return self

    async def acquire(self, amount: float = 1) -> None:
        now = asyncio.get_running_loop().time()
        self._until = max(self._until, now) + amount * self._per_unit
        await asyncio.sleep(max(0.0, self._until - now - self._period))

    async def pause(self, seconds: float) -> None: ...


def waits(size: tuple[int, ...], *steps: tuple[str, float]) -> list[float]:
    """Take or correct units in turn, and return the seconds that each step took."""

    async def work() -> list[float]:
        rate, found, loop = Rate(Buckets(), "model", *size), [], asyncio.get_running_loop()
        for step, amount in steps:
            started = loop.time()
            if step == "take":
                await rate.take(amount)
            else:
                rate.correct(amount)
            found.append(loop.time() - started)
        return found

    return run_simulated(work())


def test_a_bucket_of_tokens_is_taken_at_once_and_then_at_its_rate() -> None:
    """1,200 a minute are 20 a second."""
    assert waits((1200,), ("take", 1200), ("take", 20), ("take", 40)) == pytest.approx([0, 1, 2], abs=0.05)


def test_what_a_call_used_beyond_its_estimate_is_paid_by_the_next_and_what_it_did_not_use_is_not() -> None:
    steps = (("take", 1200), ("correct", -500), ("take", 500), ("correct", 20), ("take", 0))
    assert waits((1200,), *steps) == pytest.approx([0, 0, 0, 0, 1], abs=0.05)


def test_a_call_larger_than_the_bucket_passes_and_its_rest_is_owed() -> None:
    assert waits((1200,), ("take", 1220), ("take", 0)) == pytest.approx([0, 1], abs=0.05)


def test_requests_are_evenly_spaced() -> None:
    assert waits((120, 1), *[("take", 1)] * 4) == pytest.approx([0, 0.5, 0.5, 0.5], abs=0.05)


async def test_a_model_is_called_at_its_pace(journal: Journal) -> None:
    sent: list[float] = []
    async with client(journal, FakeWire(lambda call: (sent.append(monotonic()), make_result())[1])) as asking:
        await ask_all(asking, range(2), of=model(requests_per_minute=600))
    assert len(sent) == 2
    assert sent[1] - sent[0] > 0.02


# --- turned away -----------------------------------------------------------------------------------------------------


async def test_a_storm_slows_the_whole_model_down_and_no_other(journal: Journal) -> None:
    """The provider rejects all requests for 30 seconds. A hundred calls send far fewer than four thousand requests and all get answers."""
    time = SimulatedTime()

    def shut(call: ModelCall) -> AttemptResult:
        if call.model.name == "oracle" and time.now() < 30:
            return make_failure(Outcome.RATE_LIMIT, 429)
        return make_result()

    async with client(journal, wire := FakeWire(shut), time) as asking:
        found, others = await asyncio.gather(ask_all(asking, range(100)), ask_all(asking, range(20), of=model("other")))
        refusals = asking.stats["oracle"].failures[Outcome.RATE_LIMIT]
    assert all(isinstance(one, Answer) for one in found + others)
    assert refusals <= 25
    assert wire.count == 120 + refusals
    assert 30 <= time.now() < 120


async def test_what_the_provider_asks_to_wait_is_waited_by_all_calls(journal: Journal) -> None:
    time = SimulatedTime()
    sent: list[float] = []

    def script(call: ModelCall) -> AttemptResult:
        sent.append(time.now())
        return make_failure(Outcome.RATE_LIMIT, 429, retry_after=25.0) if len(sent) == 1 else make_result()

    async with client(journal, FakeWire(script), time) as asking:
        await ask_all(asking, range(10), of=model(concurrency=1))
    assert sent[0] == 0
    assert all(at >= 25 for at in sent[1:])


async def test_a_wait_beyond_all_patience_stops_the_model(journal: Journal) -> None:
    wire = FakeWire(lambda call: make_failure(Outcome.RATE_LIMIT, 429, retry_after=86_400.0))
    async with client(journal, wire, time := SimulatedTime()) as asking:
        with pytest.raises(Stopped, match="asks to come back in 86400 s") as stopped:
            await ask(asking)
    assert (stopped.value.kind, wire.count, time.now()) == ("rate_limit", 1, 0)


async def test_a_model_that_turns_everything_away_for_too_long_is_stopped_and_its_calls_stay_open(journal: Journal) -> None:
    wire = FakeWire(lambda call: make_failure(Outcome.RATE_LIMIT, 429))
    async with client(journal, wire, time := SimulatedTime(), retry=Retry(turned_away=1000, patience=300.0)) as asking:
        found = await ask_all(asking, range(50))
    assert {one.kind for one in found if isinstance(one, Stopped)} == {"rate_limit"}
    assert len(found) == 50
    assert 300 < time.now() < 420
    assert wire.count < 60
    assert journal.failures() == []


async def test_a_call_that_is_turned_away_again_and_again_is_left_to_the_next_run(journal: Journal) -> None:
    unlucky = lambda call: make_failure(Outcome.RATE_LIMIT, 429) if call.messages[0]["content"] == "Will event 0 happen?" else make_result()  # noqa: E731
    async with client(journal, FakeWire(unlucky), retry=Retry(turned_away=3)) as asking:
        first, *others = await ask_all(asking, range(10))
    assert isinstance(first, NoAnswer)
    assert (first.outcome, first.attempts, first.final, first.usage.cost) == (Outcome.RATE_LIMIT, 3, False, 0)
    assert all(isinstance(one, Answer) for one in others)


async def test_a_stop_wakes_those_who_wait(journal: Journal) -> None:
    """Calls paced over hours end with the model, not hours later."""
    from bellwether.models.failures import Stop

    bad = make_failure(Outcome.AUTHENTICATION, 401, stop=Stop.AUTHENTICATION, permanent=True)
    async with client(journal, FakeWire(lambda call: bad), sleep=asyncio.sleep, now=asyncio.get_running_loop().time) as asking:
        async with asyncio.timeout(120):
            found = await ask_all(asking, range(5), of=model(requests_per_minute=1))
    assert {one.kind for one in found} == {"authentication"}


# --- asking again ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.one_of(st.none(), st.floats(0, 1e6)), st.integers(0, 2**32))
def test_waits_are_those_that_the_provider_asks_for_or_in_the_upper_half_of_an_exponential(
    failures: int, asked: float | None, seed: int
) -> None:
    retry = Retry()
    wait = retry.wait(failures, Random(seed), asked)
    longest = min(60.0, 2.0 * 2.0 ** min(failures - 1, 30))
    assert wait == min(asked, 600.0) if asked else longest / 2 <= wait <= longest
    assert wait == Retry().wait(failures, Random(seed), asked)


@pytest.mark.parametrize("bad", [{"attempts": 0}, {"turned_away": 0}, {"in_a_row": 0}, {"unreachable": 0}])
def test_bounds_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Retry(**bad)
