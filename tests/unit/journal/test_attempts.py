"""One call from its first attempt to its answer or failure: attempts that are repeated, late, abandoned or reopened."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellwether.concurrency import in_thread
from bellwether.errors import ConfigError
from bellwether.journal.journal import Attempt, Journal, NewAttempt
from bellwether.journal.tables import Scope
from bellwether.journal.values import Answered, Busy, CostSource, Failed, Outcome, Reply, Usage
from tests.unit.journal.calls import START, TIMEOUT, Clock, attempt_outcomes, begin_attempt, begin_call, make_reply, make_request


def test_the_answer_is_told_to_everybody_who_asks_again(journal: Journal) -> None:
    stored = begin_attempt(journal).answer(make_reply())
    assert begin_call(journal) == stored == journal.answer(make_request().key)
    assert (stored.content, stored.attempt, stored.late) == ("0.7", 1, False)
    assert stored.reply == make_reply()


def test_three_malformed_answers_are_three_attempts_of_one_row_with_bodies_and_costs(journal: Journal) -> None:
    for text in ("no json", "still none"):
        assert begin_attempt(journal).fail(Outcome.MALFORMED, "no JSON object", make_reply(text)) is None
        found = journal.status(make_request().key)
        assert found is not None
        assert (found.state, found.outcome, found.reason) == ("open", "malformed", "no JSON object")
    begin_attempt(journal).answer(make_reply())
    tables = journal.export()
    assert tables["calls"].height == 1
    assert attempt_outcomes(journal) == [(1, "malformed", 120), (2, "malformed", 120), (3, "ok", 120)]
    assert tables["responses"]["content"].to_list() == ["no json", "still none", "0.7"]


def test_a_final_failure_is_told_until_a_person_reopens_the_call_and_is_kept(journal: Journal, clock: Clock) -> None:
    failed = Failed(make_request().key, Outcome.REFUSAL, "I cannot help with that", START)
    assert begin_attempt(journal).fail(Outcome.REFUSAL, "I cannot help with that", final=True) == failed
    assert begin_call(journal) == journal.look(failed.key) == failed
    assert [status.key for status in journal.failures()] == [failed.key]
    assert journal.pending() == []
    clock.advance(timedelta(hours=1))
    for _ in range(2):  # the commit of the first may not have been confirmed
        journal.reopen(failed.key, by="ana", note="another wording")
    begin_attempt(journal).answer(make_reply())
    (row,) = journal.export()["reopenings"].iter_rows(named=True)
    found = (row["reopened_by"], row["note"], row["outcome"], row["reason"], row["failed_at"])
    assert found == ("ana", "another wording", "refusal", failed.reason, START)


def test_only_failed_calls_are_reopened(journal: Journal) -> None:
    begin_attempt(journal, make_request(1))
    begin_attempt(journal, make_request(2)).abandon("later")
    begin_attempt(journal, make_request(3)).answer(make_reply())
    for number in range(4):  # unknown, in progress, open and answered
        with pytest.raises(ConfigError, match="only failed calls are reopened"):
            journal.reopen(make_request(number).key, by="ana", note="")


def test_the_same_words_twice_are_no_error(journal: Journal) -> None:
    """A commit may succeed without its confirmation, so that the client repeats it."""
    attempt, failing = begin_attempt(journal), begin_attempt(journal, make_request(1))
    assert attempt.answer(make_reply()) == attempt.answer(make_reply())
    ends = [failing.fail(Outcome.TIMEOUT, "slow", final=True) for _ in range(2)]
    assert ends[0] == ends[1] == journal.look(failing.key)
    assert len(attempt_outcomes(journal)) == 2


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ABANDONED])
def test_what_is_no_failure_is_not_recorded_as_one(journal: Journal, outcome: Outcome) -> None:
    with pytest.raises(ConfigError, match="is no failure"):
        begin_attempt(journal).fail(outcome, "x")


def test_an_attempt_ends_once(journal: Journal) -> None:
    attempt = begin_attempt(journal)
    attempt.answer(make_reply())
    with pytest.raises(ConfigError, match="has ended already"):
        attempt.answer(make_reply("0.9"))
    with pytest.raises(ConfigError, match="has ended already"):
        attempt.fail(Outcome.TIMEOUT, "no")
    stored = journal.answer(make_request().key)
    assert stored is not None
    assert stored.content == "0.7"


def test_an_answer_needs_content(journal: Journal) -> None:
    attempt = begin_attempt(journal)
    with pytest.raises(ConfigError, match="without content"):
        attempt.answer(Reply(b"{}"))
    attempt.answer(Reply(b"{}", ""))


# --- time that is over -------------------------------------------------------------------------------------------------


def test_no_other_attempt_begins_until_the_time_of_the_first_is_over(journal: Journal, clock: Clock) -> None:
    begin_attempt(journal)
    clock.advance(TIMEOUT - timedelta(microseconds=1))
    assert begin_call(journal) == journal.look(make_request().key) == Busy(make_request().key, START + TIMEOUT)
    clock.advance(timedelta(microseconds=1))
    assert journal.look(make_request().key) is None
    assert begin_attempt(journal).number == 2
    row = journal.export()["attempts"].row(0, named=True)
    assert (row["outcome"], row["abandoned_at"], row["ended_at"], row["cost_microdollars"]) == ("abandoned", clock.now, None, None)
    assert journal.spent().unknown == 1


def test_an_answer_after_the_time_that_nobody_took_is_not_late(journal: Journal, clock: Clock) -> None:
    attempt = begin_attempt(journal)
    clock.advance(2 * TIMEOUT)
    assert attempt.answer(make_reply()).late is False
    assert begin_call(journal) == journal.answer(make_request().key)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_of_two_answers_the_first_is_the_calls_and_both_are_paid_for(journal: Journal, clock: Clock, order: tuple[int, int]) -> None:
    attempts = {1: begin_attempt(journal)}
    clock.advance(TIMEOUT)
    attempts[2] = begin_attempt(journal)
    for _ in range(2):  # the commit of the first may not have been confirmed
        answers = [attempts[number].answer(make_reply(f"0.{number}", cost=number * 100)) for number in order]
    assert {(answer.attempt, answer.content, answer.late) for answer in answers} == {(order[0], f"0.{order[0]}", order[0] == 1)}
    assert begin_call(journal) == answers[0]
    assert attempt_outcomes(journal) == [(1, "ok", 100), (2, "ok", 200)]
    assert journal.spent().spent == 300


def test_a_late_answer_is_the_calls_although_it_was_abandoned_or_had_failed(journal: Journal, clock: Clock) -> None:
    for number, end in enumerate(("abandoned", "repeated", "failed")):
        slow = begin_attempt(journal, make_request(number))
        clock.advance(TIMEOUT)
        match end:
            case "abandoned":
                slow.abandon("interrupted")
            case "repeated":
                begin_attempt(journal, make_request(number)).fail(Outcome.TIMEOUT, "slow")
            case "failed":
                begin_attempt(journal, make_request(number)).fail(Outcome.REFUSAL, "no", final=True)
        answer = slow.answer(make_reply("0.1"))
        assert (answer.attempt, answer.late, begin_call(journal, make_request(number))) == (1, True, answer)


def test_an_answer_that_waits_for_the_attempt_that_replaces_its_own_is_late(
    postgres_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, replaced = NewAttempt._insert, threading.Event()

    def insert_until_another_waits(*given: Any, **more: Any) -> Any:
        inserted = insert(*given, **more)
        replaced.set()
        with sa.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")).connect() as watcher:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            while not watcher.exec_driver_sql(waiting).scalar():
                watcher.rollback()
        return inserted

    with Journal(postgres_url, clock=clock) as one, Journal(postgres_url, clock=clock) as two, ThreadPoolExecutor(1) as threads:
        attempt = begin_attempt(one)
        clock.advance(TIMEOUT)
        monkeypatch.setattr(NewAttempt, "_insert", insert_until_another_waits)
        second = threads.submit(begin_attempt, two)
        assert replaced.wait(60)
        assert attempt.answer(make_reply()).late
        assert second.result(60).number == 2


def test_a_late_failure_is_kept_with_its_cost_and_decides_nothing(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(TIMEOUT)
    quick = begin_attempt(journal)
    assert slow.fail(Outcome.TRUNCATION, "400 tokens", make_reply("0.", cost=90), final=True) is None
    assert attempt_outcomes(journal) == [(1, "truncation", 90), (2, None, None)]
    answer = quick.answer(make_reply())
    assert slow.fail(Outcome.TRUNCATION, "400 tokens", make_reply("0.", cost=90), final=True) == answer
    assert journal.spent(Scope(purpose="benchmark/forecasts")).spent == 210


def test_a_call_is_free_at_once_when_its_attempt_is_abandoned(journal: Journal) -> None:
    begin_attempt(journal).abandon("interrupted")
    found = journal.status(make_request().key)
    assert found is not None
    assert (found.state, found.reason, found.attempts) == ("open", "interrupted", 1)
    assert begin_attempt(journal).number == 2


def test_without_a_clock_of_the_tests_time_runs_on_the_databases(url: str) -> None:
    with Journal(url) as journal:
        begin_attempt(journal)
        assert isinstance(begin_call(journal), Busy)
        begin_attempt(journal, make_request(1), timeout=timedelta(microseconds=1))
        assert begin_attempt(journal, make_request(1)).number == 2
        assert [status.created_at.utcoffset() for status in journal.pending()] == [timedelta(0)] * 2


def test_on_postgres_the_servers_clock_counts_and_not_this_machines(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import bellwether.database as database

    class Wrong(database.datetime):
        @classmethod
        def now(cls, tz=None):  # type: ignore[no-untyped-def]
            raise AssertionError("this machine's clock was asked")

    monkeypatch.setattr(database, "datetime", Wrong)
    with Journal(postgres_url) as journal:
        begin_attempt(journal).answer(make_reply())
        assert isinstance(begin_call(journal), Answered)


# --- contents ----------------------------------------------------------------------------------------------------------


def test_what_a_call_used_is_the_sum_of_its_attempts(journal: Journal) -> None:
    assert journal.used(make_request().key) == (0, Usage())
    ends = [(Outcome.RATE_LIMIT, "429", None), (Outcome.MALFORMED, "no JSON", make_reply("?", cost=10))]
    for outcome, reason, reply in ends:
        begin_attempt(journal).fail(outcome, reason, reply)
        assert outcome is not Outcome.RATE_LIMIT or journal.used(make_request().key)[1] == Usage(0, 0, 0, 0, CostSource.UNBILLED)
    begin_attempt(journal).answer(make_reply(cost=20))
    assert journal.used(make_request().key) == (3, Usage(200, 40, 10, 30, CostSource.PROVIDER))


def test_a_cost_that_is_not_known_makes_the_sum_unknown_and_tokens_are_those_that_are_known(journal: Journal) -> None:
    begin_attempt(journal).fail(Outcome.TIMEOUT, "slow")
    begin_attempt(journal).answer(make_reply(cost=20))
    assert journal.used(make_request().key) == (2, Usage(100, 20, 5))


@pytest.mark.parametrize(
    "bad",
    [
        {"cost": 5},
        {"cost_source": CostSource.PROVIDER},
        {"cost": -1, "cost_source": CostSource.PROVIDER},
        {"prompt_tokens": 1.5},
        {"completion_tokens": 2**63},
        {"reasoning_tokens": True},
    ],
)
def test_usage_that_is_no_whole_number_is_refused(bad: dict) -> None:
    with pytest.raises(ConfigError):
        Usage(**bad)


def test_more_keys_than_one_statement_takes(journal: Journal) -> None:
    begin_attempt(journal, make_request(1)).answer(make_reply("1"))
    keys = [f"{number:064x}" for number in range(1200)]
    assert list(journal.answers([*keys, make_request(1).key])) == [make_request(1).key]


def test_a_key_is_found_by_its_beginning(journal: Journal) -> None:
    begin_attempt(journal)
    key = make_request().key
    assert journal.find(key[:8]) == journal.find(key) == key
    for odd in (key[:7], "zzzzzzzzzz", "0" * 10 if not key.startswith("0" * 10) else "1" * 10, "%%%%%%%%"):
        with pytest.raises(ConfigError):
            journal.find(odd)


HOSTILE = st.text(alphabet=st.characters(exclude_categories=()), max_size=30) | st.sampled_from(
    ["\x00", "\x1a", "\x1a0000", "\ud800", "a\x1a\x00\udfffz", "''; DROP TABLE calls;--", "%(x)s :k ?", "😀\u2028"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=HOSTILE, reasoning=HOSTILE | st.none(), reason=HOSTILE, body=st.binary(min_size=1, max_size=40), number=st.integers(0, 10**9)
)
def test_whatever_a_model_says_is_kept_exactly(
    journal: Journal, content: str, reasoning: str | None, reason: str, body: bytes, number: int
) -> None:
    request = make_request(number, sample=number, messages=[{"role": "user", "content": content}], parameters={"stop": [reason]})
    attempt = begin_call(journal, request)
    if isinstance(attempt, Attempt):
        attempt.fail(Outcome.MALFORMED, reason, Reply(body, content, reasoning, reason))
        reply = Reply(body, content, reasoning, reason, request_id=reason)
        begin_attempt(journal, request).answer(reply)
        stored = journal.answer(request.key)
        assert stored is not None
        assert stored.reply == reply


async def test_a_task_that_is_cancelled_while_it_stores_an_answer_loses_nothing(journal: Journal) -> None:
    for number in range(20):
        attempt = await in_thread(begin_attempt, journal, make_request(number))
        storing = asyncio.create_task(in_thread(attempt.answer, make_reply()))
        await asyncio.sleep(0)
        storing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await storing
    await asyncio.get_running_loop().shutdown_default_executor()
    assert journal.counts().select("state", "calls").rows() == [("answered", 20)]
