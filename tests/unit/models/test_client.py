"""The client makes each call once: stored answers, retries, final failures, and failures that end an evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.journal.journal import Journal
from bellwether.journal.tables import Scope
from bellwether.journal.values import Outcome, Request, State, Usage
from bellwether.models.client import Answer, Limits, NoAnswer, Retry, Stopped, journal_model_name
from bellwether.models.failures import Stop
from bellwether.models.keys import Endpoint
from bellwether.models.response import AttemptResult, ToolCall
from bellwether.models.transport import ModelCall
from tests.shared import until
from tests.unit.journal.calls import Clock, begin_attempt
from tests.unit.models.scripted_client import (
    COST,
    MOST,
    FakeWire,
    SimulatedTime,
    ask,
    ask_all,
    client,
    make_failure,
    make_result,
    model,
    question,
)

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as opened:
        yield opened


def attempts(journal: Journal) -> list[tuple[Any, ...]]:
    return journal.export()["attempts"].select("number", "outcome", "cost_microdollars").rows()


def state(journal: Journal, key: str) -> tuple[Any, ...]:
    found = journal.status(key)
    assert found is not None
    return found.state, found.outcome, found.reason


# --- once ------------------------------------------------------------------------------------------------------------


async def test_an_answer_is_stored_with_its_cost_and_given_back(journal: Journal) -> None:
    async with client(journal, FakeWire()) as asking:
        answer = await ask(asking)
    assert isinstance(answer, Answer)
    assert (answer.content, answer.reply.finish_reason, answer.attempts, answer.reused, answer.reply.latency_ms) == (
        "0.7",
        "stop",
        1,
        False,
        900,
    )
    assert answer.reply.usage.cost == COST
    stored = journal.answer(answer.key)
    assert stored is not None
    assert stored.content == "0.7"
    assert journal.spent(Scope(run="run")).spent == COST


async def test_what_was_answered_is_never_sent_again(journal: Journal) -> None:
    async with client(journal, FakeWire()) as asking:
        first = await ask(asking)
    wire = FakeWire()
    async with client(journal, wire, run="another") as asking:
        again = await ask(asking)
        assert asking.stats["oracle"].reused == 1
    assert wire.count == 0
    assert again == Answer(**{**{name: getattr(first, name) for name in first.__slots__}, "reused": True})


async def test_the_same_call_asked_twice_at_once_is_sent_once(journal: Journal) -> None:
    async def slowly(call: ModelCall) -> AttemptResult:
        await asyncio.sleep(0.05)
        return make_result()

    wire = FakeWire(slowly)
    async with client(journal, wire) as asking:
        answers = await ask_all(asking, [0] * 20)
        assert asking.stats["oracle"].answered == 1
    assert wire.count == 1
    assert {answer.content for answer in answers} == {"0.7"}


async def test_the_models_parameters_and_the_calls_own_are_sent(journal: Journal) -> None:
    wire = FakeWire()
    entry = model(temperature=0.0, max_tokens=50, parameters={"top_p": 0.9})
    async with client(journal, wire) as asking:
        await ask(asking, of=entry, parameters={"response_format": {"type": "json_object"}})
    assert wire.calls[0].parameters == {"temperature": 0.0, "max_tokens": 50, "top_p": 0.9, "response_format": {"type": "json_object"}}
    assert wire.calls[0].messages == question()


async def test_models_at_addresses_of_your_own_share_no_answers(journal: Journal) -> None:
    at_home, at_work = (model(name, model="openai/llama", api_base="http://127.0.0.1:1/v1") for name in ("home", "work"))
    wire = FakeWire()
    async with client(journal, wire) as asking:
        await ask(asking, of=at_home)
        await ask(asking, of=at_work)
    assert wire.count == 2
    assert journal_model_name(at_home) == "openai/llama@home"


# --- again -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.PROVIDER_ERROR, Outcome.MALFORMED, Outcome.RATE_LIMIT])
async def test_what_may_pass_is_asked_again(journal: Journal, outcome: Outcome) -> None:
    async with client(journal, FakeWire([make_failure(outcome), make_failure(outcome), make_result()])) as asking:
        answer = await ask(asking)
        assert asking.stats["oracle"].failures == {outcome: 2}
    assert (answer.content, answer.attempts) == ("0.7", 3)


async def test_a_call_that_keeps_failing_is_left_to_the_next_run(journal: Journal) -> None:
    wire = FakeWire(lambda call: make_failure(Outcome.TIMEOUT, None))
    async with client(journal, wire, retry=Retry(attempts=3)) as asking:
        missed = await ask(asking)
    assert isinstance(missed, NoAnswer)
    assert (missed.outcome, missed.reason, missed.attempts, missed.final, missed.usage) == (Outcome.TIMEOUT, "HTTP None", 3, False, Usage())
    assert wire.count == 3
    assert state(journal, missed.key) == (State.OPEN, Outcome.TIMEOUT, "HTTP None")
    async with client(journal, FakeWire()) as asking:
        answer = await ask(asking)
    assert (answer.content, answer.attempts) == ("0.7", 4)


async def test_waits_grow_jitter_and_honour_what_the_provider_asks_for(journal: Journal) -> None:
    time = SimulatedTime()
    results = [
        make_failure(Outcome.PROVIDER_ERROR),
        make_failure(Outcome.PROVIDER_ERROR, 503, retry_after=17.0),
        make_failure(Outcome.PROVIDER_ERROR),
        make_result(),
    ]
    async with client(journal, FakeWire(results), time) as asking:
        await ask(asking)
    first, second, third = time.slept
    assert 1.0 <= first <= 2.0
    assert second == 17.0
    assert 4.0 <= third <= 8.0


async def test_pauses_after_rate_limits_stay_as_long_as_the_provider_asks(journal: Journal) -> None:
    time = SimulatedTime()
    limited = [make_failure(Outcome.RATE_LIMIT, 429, retry_after=3.0)] * 6
    async with client(journal, FakeWire([*limited, make_result()]), time) as asking:
        await ask(asking)
    assert time.now() == pytest.approx(18.0)


async def test_an_answer_after_failures_keeps_the_money_of_all_attempts(journal: Journal) -> None:
    cut = AttemptResult(Outcome.MALFORMED, make_result(None, finish=None).reply, "cut")
    broken = AttemptResult(Outcome.PROVIDER_ERROR, make_result("0.", finish="error", cost=7).reply, "broke off")
    async with client(journal, FakeWire([broken, make_result()])) as asking:
        await ask(asking)
        assert asking.stats["oracle"].cost == 7 + COST
    assert attempts(journal) == [(1, "provider_error", 7), (2, "ok", COST)]
    assert cut.reply.usage.cost == COST


async def test_a_request_that_is_called_wrong_is_asked_once_in_each_run(journal: Journal) -> None:
    refused = make_failure(Outcome.PROVIDER_ERROR, 400, permanent=True)
    for count in (1, 2):
        wire = FakeWire([refused])
        async with client(journal, wire) as asking:
            missed = await ask(asking)
        assert (missed.outcome, missed.final, missed.attempts, wire.count) == (Outcome.PROVIDER_ERROR, False, count, 1)
        assert missed.usage.cost == 0


# --- the model's last word -------------------------------------------------------------------------------------------

LAST_WORDS = {
    "empty": (make_result(""), Outcome.MALFORMED),
    "blank": (make_result(" \n"), Outcome.MALFORMED),
    "none": (make_result(None), Outcome.MALFORMED),
    "without text, as the wire says": (make_result("", outcome=Outcome.MALFORMED), Outcome.MALFORMED),
    "only reasoning": (make_result(None, finish="length", outcome=Outcome.TRUNCATION), Outcome.TRUNCATION),
    "filtered": (make_result(None, finish="content_filter", outcome=Outcome.REFUSAL), Outcome.REFUSAL),
    "filtered at the door": (make_failure(Outcome.REFUSAL, 400, permanent=True), Outcome.REFUSAL),
}


@pytest.mark.parametrize(("result", "outcome"), LAST_WORDS.values(), ids=LAST_WORDS)
async def test_the_models_last_word_is_a_row_with_its_cost_and_never_paid_twice(
    journal: Journal, result: AttemptResult, outcome: Outcome
) -> None:
    wire = FakeWire([result])
    async with client(journal, wire) as asking:
        missed = await ask(asking)
        again = await ask(asking)
    assert wire.count == 1
    assert (missed.outcome, missed.final, missed.reused, again.reused) == (outcome, True, False, True)
    assert missed.usage.cost == result.reply.usage.cost == again.usage.cost
    assert (again.reason, again.attempts, again.usage) == (missed.reason, missed.attempts, missed.usage)
    assert missed.reason
    assert [failure.key for failure in journal.failures()] == [missed.key]


@pytest.mark.parametrize(("finish", "outcome"), [("length", Outcome.TRUNCATION), ("content_filter", Outcome.REFUSAL)])
async def test_a_text_that_was_cut_or_filtered_is_given_to_the_parser(journal: Journal, finish: str, outcome: Outcome) -> None:
    async with client(journal, FakeWire([make_result("<answer>yes", finish=finish, outcome=outcome)])) as asking:
        answer = await ask(asking)
        assert asking.stats["oracle"].failures == {outcome: 1}
    assert (answer.content, answer.reply.finish_reason) == ("<answer>yes", finish)


async def test_an_answer_that_only_calls_tools_is_one_and_so_it_is_from_the_journal(journal: Journal) -> None:
    body = b'{"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [{"id": "1", "type": "function", '
    body += b'"function": {"name": "submit", "arguments": "{\\"p\\": 0.7}"}}]}}]}'
    calls = (ToolCall("1", "submit", '{"p": 0.7}'),)
    reply = make_result(None, finish="tool_calls").reply
    result = AttemptResult(Outcome.OK, type(reply)(body, None, None, "tool_calls", reply.usage, 200), tool_calls=calls)
    async with client(journal, FakeWire([result])) as asking:
        answers = [await ask(asking), await ask(asking)]
    assert [(answer.content, answer.tool_calls) for answer in answers] == [("", calls)] * 2


# --- what ends an evaluation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", list(Stop))
async def test_what_no_call_can_pass_stops_the_model_and_no_other(journal: Journal, stop: Stop) -> None:
    outcome = {Stop.OUT_OF_CREDIT: Outcome.OUT_OF_CREDIT, Stop.AUTHENTICATION: Outcome.AUTHENTICATION}.get(stop, Outcome.PROVIDER_ERROR)
    bad = make_failure(outcome, 402, stop=stop, permanent=True)
    wire = FakeWire(lambda call: bad if call.model.name == "oracle" else make_result())
    async with client(journal, wire) as asking:
        found = await ask_all(asking, range(50), of=model(concurrency=2))
        others = await ask_all(asking, range(5), of=model("other"))
        assert asking.stats["oracle"].stopped == f"{stop.value}: HTTP 402"
    assert all(isinstance(one, Stopped) and one.kind == stop.value for one in found)
    assert all(isinstance(one, Answer) for one in others)
    assert wire.count <= 4 + 5
    assert journal.failures() == []
    assert {status.state for status in journal.pending()} == {State.OPEN}
    assert "HTTP 402; " in str(found[0])


async def test_after_a_stop_what_is_under_way_is_finished_and_stored_and_answers_are_still_read(journal: Journal) -> None:
    gate = asyncio.Event()

    async def script(call: ModelCall) -> AttemptResult:
        if call.messages == question(0):
            gate.set()
            return make_failure(Outcome.OUT_OF_CREDIT, 402, stop=Stop.OUT_OF_CREDIT, permanent=True)
        await gate.wait()
        return make_result()

    async with client(journal, wire := FakeWire(script)) as asking:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                for number in range(1, 4):
                    group.create_task(ask(asking, number))
                await until(lambda: wire.count == 3)
                group.create_task(ask(asking, 0))
        assert isinstance(caught.value.exceptions[0], Stopped)
    async with client(journal, wire := FakeWire()) as asking:
        assert [answer.reused for answer in await ask_all(asking, range(1, 4))] == [True] * 3
        assert not (await ask(asking, 0)).reused
    assert wire.count == 1


async def test_a_missing_key_stops_the_model_in_its_words_but_not_what_is_in_the_journal(journal: Journal) -> None:
    def endpoint(entry: Any) -> Endpoint:
        raise ConfigError("calling oracle: ACME_API_KEY is not set; set it to your key for Acme")

    async with client(journal, FakeWire()) as asking:
        await ask(asking, 0)
    async with client(journal, FakeWire(), endpoint=endpoint) as asking:
        assert (await ask(asking, 0)).reused
        with pytest.raises(Stopped, match="ACME_API_KEY is not set") as stopped:
            await ask(asking, 1)
    assert stopped.value.kind == "authentication"
    assert journal.pending() == []


async def test_a_model_that_fails_call_after_call_is_stopped(journal: Journal) -> None:
    wire = FakeWire(lambda call: make_failure(Outcome.PROVIDER_ERROR, 503))
    async with client(journal, wire, retry=Retry(attempts=2, in_a_row=5, patience=1.0)) as asking:
        found = await ask_all(asking, range(100), of=model(concurrency=2))
    assert wire.count < 150
    stopped = [one for one in found if isinstance(one, Stopped)]
    assert {one.kind for one in stopped} == {"unavailable"}
    assert len(stopped) + sum(isinstance(one, NoAnswer) for one in found) == 100


async def test_connection_errors_among_answers_stop_nothing(journal: Journal) -> None:
    """A server that starts late or restarts is no dead endpoint; without any answer the third round of errors stops the model."""
    lost = make_failure(Outcome.PROVIDER_ERROR, None, unreachable=True)
    late = iter([lost] * 2)
    async with client(journal, FakeWire(lambda call: next(late, make_result()))) as asking:
        assert all(isinstance(one, Answer) for one in await ask_all(asking, range(12), of=model(concurrency=2)))
        assert asking.stats["oracle"].failures[Outcome.PROVIDER_ERROR] == 2
    numbers = iter(range(1000))
    async with client(journal, FakeWire(lambda call: make_result() if next(numbers) % 7 else lost)) as asking:
        assert all(isinstance(one, Answer) for one in await ask_all(asking, range(12, 60), of=model(concurrency=2)))
    async with client(journal, wire := FakeWire(lambda call: lost)) as asking:
        ends = await ask_all(asking, range(60, 100), of=model(concurrency=2))
    assert {one.kind for one in ends if isinstance(one, Stopped)} == {"unreachable"}
    assert wire.count <= 6


async def test_with_random_failures_every_call_is_answered_and_paid_once(journal: Journal) -> None:
    rng = Random(3)
    failures = [make_failure(Outcome.RATE_LIMIT, 429), make_failure(Outcome.PROVIDER_ERROR), make_failure(Outcome.MALFORMED, 200)]
    wire = FakeWire(lambda call: rng.choice(failures) if rng.random() < 0.2 else make_result())
    async with client(journal, wire) as asking:
        found = await ask_all(asking, range(60))
        stats = asking.stats["oracle"]
    assert all(isinstance(one, Answer) for one in found)
    assert (stats.answered, wire.count) == (60, 60 + stats.failures.total())
    assert len(stats.failures) == 3
    assert journal.spent().spent == 60 * COST
    async with client(journal, again := FakeWire()) as asking:
        assert all(one.reused for one in await ask_all(asking, range(60)))
    assert again.count == 0


# --- money -----------------------------------------------------------------------------------------------------------


async def test_the_budget_of_a_run_is_a_hard_stop_that_keeps_what_was_done(journal: Journal) -> None:
    limits = Limits(dollars=Decimal(MOST + 10 * COST) / 10**6)
    wire = FakeWire()
    async with client(journal, wire, limits=limits) as asking:
        found = await ask_all(asking, range(100))
    answers = [one for one in found if isinstance(one, Answer)]
    assert len(answers) == wire.count == 11
    assert {one.kind for one in found if isinstance(one, Stopped)} == {"budget"}
    assert journal.spent().committed <= MOST + 10 * COST
    assert journal.failures() == []
    async with client(journal, wire, limits=Limits(dollars=Decimal(1)), run="run") as asking:
        found = await ask_all(asking, range(100))
    assert wire.count == 100
    assert sum(one.reused for one in found) == 11


async def test_a_budget_counts_what_its_run_spent_before(journal: Journal) -> None:
    limits = Limits(dollars=Decimal(MOST) / 10**6)
    async with client(journal, FakeWire(), limits=limits) as asking:
        await ask(asking, 0)
    async with client(journal, wire := FakeWire(), limits=limits) as asking:
        with pytest.raises(Stopped, match=r"the budget of run run is \$0.000100, of which \$0.000020 are spent"):
            await ask(asking, 1)
    async with client(journal, wire, limits=limits, run="another") as asking:
        await ask(asking, 1)
    assert wire.count == 1


async def test_the_budget_of_a_model_stops_that_model_only(journal: Journal) -> None:
    limits = Limits(dollars_per_model=Decimal(MOST + COST) / 10**6)
    async with client(journal, FakeWire(), limits=limits) as asking:
        first = await ask_all(asking, range(10))
        second = await ask_all(asking, range(10), of=model("other"))
    for found in (first, second):
        assert sum(isinstance(one, Answer) for one in found) == 2
    assert {one.model for one in first + second if isinstance(one, Stopped)} == {"oracle", "other"}


async def test_what_is_free_is_asked_although_a_budget_is_overdrawn(journal: Journal) -> None:
    most = {"oracle": COST, "free": 0}
    options: dict[str, Any] = {"most_cost": lambda asked, messages, parameters: most[asked.name]}
    limits = Limits(dollars=Decimal(COST) / 10**6)
    dearer = FakeWire(lambda call: make_result(cost=0 if call.model.name == "free" else 5 * COST))
    async with client(journal, dearer, limits=limits, **options) as asking:
        assert isinstance(await ask(asking), Answer)
        with pytest.raises(Stopped, match="budget"):
            await ask(asking, 1)
        assert isinstance(await ask(asking, of=model("free")), Answer)


async def test_an_unknown_price_within_a_budget_is_refused_before_anything_is_sent(journal: Journal) -> None:
    unknown = lambda model, messages, parameters: None  # noqa: E731
    async with client(journal, wire := FakeWire(), limits=Limits(dollars=Decimal(1)), most_cost=unknown) as asking:
        with pytest.raises(ConfigError, match="the price of acme/oracle is unknown; give input_price"):
            await ask(asking)
    assert wire.count == 0
    async with client(journal, wire, most_cost=unknown) as asking:
        assert isinstance(await ask(asking), Answer)


# --- interruptions ---------------------------------------------------------------------------------------------------


async def test_an_interruption_keeps_what_came_back_and_releases_the_rest_at_once(journal: Journal) -> None:
    async def script(call: ModelCall) -> AttemptResult:
        if cut.count <= 2:
            return make_result()
        await asyncio.Event().wait()
        return make_result()

    async def evaluate() -> None:
        async with client(journal, cut) as asking, asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(ask(asking, number))

    cut = FakeWire(script)
    work = asyncio.create_task(evaluate())
    await until(lambda: cut.count == 12)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert {status.state for status in journal.pending()} == {State.OPEN}
    async with client(journal, wire := FakeWire()) as asking:
        found = await ask_all(asking, range(30))
    assert sum(one.reused for one in found) == 2
    assert wire.count == 28


def test_a_loop_that_is_torn_down_with_all_its_tasks_at_once_leaves_no_call_claimed(journal: Journal) -> None:
    """All tasks are cancelled at the same moment, as when a signal handler raises while the loop runs."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def script(call: ModelCall) -> AttemptResult:
        if wire.count == 9:
            asyncio.get_running_loop().call_soon(interrupt)
        if wire.count <= 2:
            return make_result()
        await asyncio.Event().wait()
        return make_result()

    async def evaluate() -> None:
        async with client(journal, wire) as asking:
            await ask_all(asking, range(30))

    wire = FakeWire(script)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(evaluate())
    assert {status.state for status in journal.pending()} == {State.OPEN}
    assert journal.counts().filter(state="answered")["calls"].sum() == 2
    assert wire.closed


async def test_a_reply_that_is_there_when_the_run_is_cancelled_is_stored(journal: Journal) -> None:
    async def evaluate() -> None:
        async with client(journal, FakeWire(lambda call: (stop(), make_result())[1])) as asking:
            await ask(asking)

    def stop() -> None:
        asyncio.get_running_loop().call_soon(work.cancel)

    work = asyncio.create_task(evaluate())
    with pytest.raises(asyncio.CancelledError):
        await work
    assert attempts(journal) == [(1, "ok", COST)]


async def test_a_call_that_is_cancelled_alone_is_stored_when_it_comes_and_read_by_the_next(journal: Journal) -> None:
    gate = asyncio.Event()

    async def slowly(call: ModelCall) -> AttemptResult:
        await gate.wait()
        return make_result()

    async with client(journal, wire := FakeWire(slowly)) as asking:
        first = asyncio.create_task(ask(asking))
        await until(lambda: wire.count == 1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(ask(asking))
        await asyncio.sleep(0.01)
        gate.set()
        answer = await second
    assert first.cancelled()
    assert (answer.content, answer.reused, wire.count) == ("0.7", True, 1)


async def test_calls_that_wait_for_their_turn_are_not_sent_once_they_are_cancelled(journal: Journal) -> None:
    gate = asyncio.Event()

    async def slowly(call: ModelCall) -> AttemptResult:
        await gate.wait()
        return make_result()

    async with client(journal, wire := FakeWire(slowly)) as asking:
        tasks = [asyncio.create_task(ask(asking, number, model(concurrency=1))) for number in range(10)]
        await until(lambda: wire.count == 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        gate.set()
        assert isinstance(await ask(asking, 20, model(concurrency=1)), Answer)
    assert wire.count == 2


async def test_a_transport_that_breaks_leaves_no_call_claimed(journal: Journal) -> None:
    def broken(call: ModelCall) -> AttemptResult:
        raise RuntimeError("a bug")

    async with client(journal, FakeWire(broken)) as asking:
        with pytest.raises(RuntimeError):
            await ask(asking)
    assert [status.state for status in journal.pending()] == [State.OPEN]


@pytest.mark.parametrize("error", [LakeError("the disk is full"), ConfigError("connection refused; check that the server runs")])
async def test_a_journal_that_cannot_be_written_for_a_while_loses_no_answer(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, error: BellwetherError
) -> None:
    write, broken = journal.database.write, iter([True, True])

    def flaky(doing: str, work: Any) -> Any:
        if wire.count and next(broken, False):
            raise error
        return write(doing, work)

    monkeypatch.setattr(journal.database, "write", flaky)
    async with client(journal, wire := FakeWire()) as asking:
        assert (await ask(asking)).content == "0.7"
    assert wire.count == 1


# --- others ----------------------------------------------------------------------------------------------------------


async def test_what_another_process_is_asking_is_waited_for(journal: Journal) -> None:
    entry = model()
    request = Request(journal_model_name(entry), question(), "benchmark/forecasts", entry.request_parameters)
    attempt = begin_attempt(journal, request)
    time = SimulatedTime()

    async def sleep(seconds: float) -> None:
        time.slept.append(seconds)
        if len(time.slept) == 3:
            attempt.answer(make_result("0.2").reply)

    async with client(journal, wire := FakeWire(), sleep=sleep) as asking:
        answer = await ask(asking)
    assert (answer.content, answer.reused, wire.count, len(time.slept)) == ("0.2", True, 0, 3)


async def test_a_call_whose_holder_never_comes_back_is_repeated_when_its_time_is_over(tmp_path: Path) -> None:
    clock, entry = Clock(), model()
    journal = Journal(f"sqlite:///{tmp_path}/journal.db", clock=clock)
    request = Request(journal_model_name(entry), question(), "benchmark/forecasts", entry.request_parameters)
    begin_attempt(journal, request)

    async def sleep(seconds: float) -> None:
        clock.advance(timedelta(seconds=seconds))

    async with client(journal, wire := FakeWire(), sleep=sleep) as asking:
        answer = await ask(asking)
    assert (answer.content, answer.attempts, wire.count) == ("0.7", 2, 1)
    assert [outcome for _, outcome, _ in attempts(journal)] == ["abandoned", "ok"]


@pytest.mark.parametrize(("late", "end"), [("0.9", "answer"), (None, "final"), (None, "again")])
async def test_an_attempt_that_was_outrun_gives_the_answer_that_counts(tmp_path: Path, late: str | None, end: str) -> None:
    clock, entry = Clock(), model()
    journal = Journal(f"sqlite:///{tmp_path}/journal.db", clock=clock)
    request = Request(journal_model_name(entry), question(), "benchmark/forecasts", entry.request_parameters)

    def script(call: ModelCall) -> AttemptResult:
        clock.advance(timedelta(hours=1))
        begin_attempt(journal, request).answer(make_result("0.2").reply)
        return make_failure(Outcome.TIMEOUT, None) if end == "again" else make_result(late)

    async with client(journal, wire := FakeWire(script)) as asking:
        answer = await ask(asking)
    assert (answer.content, answer.reused, wire.count) == ("0.2", True, 1)
    assert [outcome for _, outcome, _ in attempts(journal)] == [{"answer": "ok", "final": "malformed", "again": "timeout"}[end], "ok"]


async def test_two_entries_of_one_name_are_refused(journal: Journal) -> None:
    async with client(journal, FakeWire()) as asking:
        await ask(asking)
        with pytest.raises(ConfigError, match="another entry of this name"):
            await ask(asking, of=model(temperature=1.0))


@pytest.mark.parametrize("bad", [{"dollars": 1.5}, {"dollars_per_model": Decimal("NaN")}])
def test_limits_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Limits(**bad)


async def test_an_interrupted_client_brings_home_what_is_under_way_and_begins_no_more(journal: Journal) -> None:
    sent, reply = asyncio.Event(), asyncio.Event()

    async def later() -> AttemptResult:
        sent.set()
        await reply.wait()
        return make_result("0.4")

    wire = FakeWire(lambda call: later())
    async with client(journal, wire) as opened:
        under_way = asyncio.create_task(ask(opened, 1))
        await sent.wait()
        opened.interrupt()
        for of in (model(), model("another")):
            with pytest.raises(Stopped) as stopped:
                await ask(opened, 2, of)
            assert stopped.value.kind == "interrupted"
        reply.set()
        assert (await under_way).content == "0.4"
    assert wire.count == 1
    assert not journal.pending()
