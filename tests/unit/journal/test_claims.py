"""One call from claim to answer, failure, release and reopening."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellwether.errors import ConfigError
from bellwether.journal import CostSource, Failed, Journal, Outcome, Reply, Usage, in_thread
from tests.unit.journal.calls import (
    START,
    Clock,
    attempt_outcomes,
    begin_attempt,
    begin_call,
    claim_attempt,
    claim_call,
    make_reply,
    make_request,
)


def test_the_answer_is_told_to_everybody_who_asks_again(journal: Journal) -> None:
    stored = begin_attempt(journal).answer(make_reply())
    assert begin_call(journal) == stored == journal.answer(make_request().key)
    assert (stored.content, stored.attempt, stored.late) == ("0.7", 1, False)
    assert stored.reply == make_reply()


def test_three_malformed_answers_are_three_attempts_of_one_row_with_bodies_and_costs(journal: Journal) -> None:
    for text in ("no json", "still none"):
        claim, attempt = claim_attempt(journal)
        attempt.fail(Outcome.MALFORMED, "no JSON object", make_reply(text))
        claim.release("no JSON object")
    begin_attempt(journal).answer(make_reply())
    tables = journal.export()
    assert tables["calls"].height == 1
    assert attempt_outcomes(journal) == [(1, "malformed", 120), (2, "malformed", 120), (3, "ok", 120)]
    assert tables["responses"]["content"].to_list() == ["no json", "still none", "0.7"]


def test_a_call_that_was_given_up_stays_failed_with_its_reason(journal: Journal) -> None:
    claim, attempt = claim_attempt(journal)
    attempt.fail(Outcome.REFUSAL, "I cannot help with that")
    claim.give_up(Outcome.REFUSAL, "refused 1 of 1 times")
    assert begin_call(journal) == Failed(make_request().key, Outcome.REFUSAL, "refused 1 of 1 times", START)
    assert [status.key for status in journal.failures()] == [make_request().key]
    assert journal.pending() == []


def test_a_person_reopens_a_failed_call_and_what_had_failed_is_kept(journal: Journal, clock: Clock) -> None:
    claim_call(journal).give_up(Outcome.PROVIDER_ERROR, "500 five times")
    clock.advance(timedelta(hours=1))
    journal.reopen(make_request().key, by="ana", note="the provider is back")
    begin_attempt(journal, holder="two").answer(make_reply())
    row = journal.export()["reopenings"].row(0, named=True)
    assert (row["reopened_by"], row["note"], row["outcome"], row["reason"], row["failed_at"]) == (
        "ana",
        "the provider is back",
        "provider_error",
        "500 five times",
        START,
    )


def test_only_failed_calls_are_reopened(journal: Journal) -> None:
    claim_call(journal, make_request(1))
    claim_call(journal, make_request(2)).release("later")
    begin_attempt(journal, make_request(3)).answer(make_reply())
    for number in range(4):  # unknown, claimed, open and answered
        with pytest.raises(ConfigError, match="only failed calls are reopened"):
            journal.reopen(make_request(number).key, by="ana", note="")


def test_the_same_words_twice_are_no_error(journal: Journal) -> None:
    """A commit may succeed without its confirmation, so that the holder repeats it."""
    attempt = begin_attempt(journal)
    first = attempt.answer(make_reply())
    assert attempt.answer(make_reply()) == first
    claim, failing = claim_attempt(journal, make_request(1))
    failing.fail(Outcome.TIMEOUT, "slow")
    failing.fail(Outcome.TIMEOUT, "slow")
    claim.give_up(Outcome.TIMEOUT, "slow")
    claim.give_up(Outcome.TIMEOUT, "slow")
    assert len(attempt_outcomes(journal)) == 2


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


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ABANDONED])
def test_what_is_no_failure_is_not_recorded_as_one(journal: Journal, outcome: Outcome) -> None:
    claim, attempt = claim_attempt(journal)
    with pytest.raises(ConfigError, match="is no failure"):
        attempt.fail(outcome, "x")
    with pytest.raises(ConfigError, match="is no failure"):
        claim.give_up(outcome, "x")


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
    claim_call(journal)
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
    found = begin_call(journal, request)
    if isinstance(found, tuple):
        claim, attempt = found
        attempt.fail(Outcome.MALFORMED, reason, Reply(body, content, reasoning, reason))
        claim.release(reason)
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


def test_a_release_says_why(journal: Journal) -> None:
    attempt = begin_attempt(journal)
    attempt.fail(Outcome.TIMEOUT, "slow")
    attempt._claim.release("slow", Outcome.TIMEOUT)
    found = journal.status(make_request().key)
    assert found is not None
    assert (found.state, found.outcome, found.reason) == ("open", "timeout", "slow")


def test_an_answer_needs_content(journal: Journal) -> None:
    attempt = begin_attempt(journal)
    with pytest.raises(ConfigError, match="without content"):
        attempt.answer(Reply(b"{}"))
    attempt.answer(Reply(b"{}", ""))
