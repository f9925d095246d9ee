"""Holders that die, stall and resume: calls continue, costs are recorded, and there is never a second answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bellwether.journal import Answered, Busy, Failed, Journal, LeaseLost, Outcome, Scope, State
from tests.unit.journal.calls import (
    LEASE,
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

PAST_LEASE = LEASE + timedelta(seconds=1)


def test_a_lease_holds_until_its_last_moment(journal: Journal, clock: Clock) -> None:
    claim_call(journal)
    clock.advance(LEASE - timedelta(microseconds=1))
    assert isinstance(begin_call(journal), Busy)
    clock.advance(timedelta(microseconds=1))
    assert claim_call(journal, holder="two").taken_from == "one"


def test_a_call_whose_holder_died_is_taken_over_and_its_attempt_abandoned(journal: Journal, clock: Clock) -> None:
    begin_attempt(journal)
    clock.advance(timedelta(days=2000))
    assert [status.key for status in journal.expired()] == [make_request().key]
    claim = claim_call(journal, holder="two")
    assert (claim.key, claim.taken_from, claim.attempts) == (make_request().key, "one", 1)
    row = journal.export()["attempts"].row(0, named=True)
    assert (row["outcome"], row["abandoned_at"], row["ended_at"], row["cost_microdollars"]) == ("abandoned", clock.now, None, None)
    assert journal.spent().unknown == 1
    assert journal.expired() == []


def test_an_expired_lease_that_nobody_took_still_answers(journal: Journal, clock: Clock) -> None:
    attempt = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    assert attempt.answer(make_reply()).late is False
    assert begin_call(journal) == journal.answer(make_request().key)


def test_a_slow_holder_is_refused_after_another_has_begun_and_its_cost_is_kept(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    quick = begin_attempt(journal, holder="two")
    with pytest.raises(LeaseLost, match="passed on to two") as lost:
        slow.answer(make_reply("0.1", cost=500))
    assert (lost.value.stored, lost.value.answered) == (True, False)
    assert journal.answer(make_request().key) is None
    quick.answer(make_reply("0.9", cost=300))
    stored = journal.answer(make_request().key)
    assert stored is not None
    assert (stored.content, stored.attempt, stored.late) == ("0.9", 2, False)
    assert attempt_outcomes(journal) == [(1, "ok", 500), (2, "ok", 300)]
    assert journal.spent().spent == 800
    assert journal.export()["attempts"]["abandoned_at"].to_list() == [START + PAST_LEASE, None]


def test_a_slow_holder_is_refused_after_the_call_was_answered(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    begin_attempt(journal, holder="two").answer(make_reply("0.9"))
    with pytest.raises(LeaseLost, match="answered meanwhile") as lost:
        slow.answer(make_reply("0.1", cost=500))
    assert (lost.value.stored, lost.value.answered) == (True, True)
    stored = journal.answer(make_request().key)
    assert stored is not None
    assert stored.content == "0.9"
    assert journal.spent().spent == 620


def test_a_late_answer_is_the_calls_when_nobody_has_asked_again(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    claim_call(journal, holder="two").release("stopped")
    with pytest.raises(LeaseLost, match="is the call's answer") as lost:
        slow.answer(make_reply("0.1"))
    assert lost.value.answered
    found = begin_call(journal)
    assert isinstance(found, Answered)
    assert (found.content, found.attempt, found.late) == ("0.1", 1, True)
    assert attempt_outcomes(journal) == [(1, "ok", 120), (2, "abandoned", None)]


def test_a_late_answer_is_taken_before_money_is_spent_again(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    claim, attempt = claim_attempt(journal, holder="two")
    with pytest.raises(LeaseLost):
        slow.answer(make_reply("0.1"))
    attempt.fail(Outcome.TIMEOUT, "slow")
    claim.release("slow")
    found = begin_call(journal)
    assert isinstance(found, Answered)
    assert (found.content, found.attempt) == ("0.1", 1)


def test_giving_up_takes_a_late_answer_instead(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    claim, attempt = claim_attempt(journal, holder="two")
    with pytest.raises(LeaseLost):
        slow.answer(make_reply("0.1"))
    attempt.fail(Outcome.TIMEOUT, "slow")
    with pytest.raises(LeaseLost) as lost:
        claim.give_up(Outcome.TIMEOUT, "three times")
    assert lost.value.answered
    assert isinstance(begin_call(journal), Answered)


def test_a_released_call_takes_the_answer_that_its_attempt_brings_after_all(journal: Journal) -> None:
    claim, attempt = claim_attempt(journal)
    claim.release("interrupted")
    assert attempt_outcomes(journal) == [(1, "abandoned", None)]
    with pytest.raises(LeaseLost, match="is the call's answer"):
        attempt.answer(make_reply())
    assert isinstance(begin_call(journal), Answered)


def test_a_final_failure_stays_final_and_a_late_answer_waits_for_the_reopening(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    claim_call(journal, holder="two").give_up(Outcome.TIMEOUT, "the week is over")
    with pytest.raises(LeaseLost) as lost:
        slow.answer(make_reply("0.1"))
    assert (lost.value.stored, lost.value.answered) == (True, False)
    assert isinstance(begin_call(journal), Failed)
    journal.reopen(make_request().key, by="ana", note="the answer came")
    found = begin_call(journal)
    assert isinstance(found, Answered)
    assert found.content == "0.1"


def test_of_two_late_answers_the_first_attempts_counts(journal: Journal, clock: Clock) -> None:
    attempts = []
    for holder in ("one", "two", "three"):
        attempts.append(begin_attempt(journal, holder=holder))
        clock.advance(PAST_LEASE)
    for attempt, text in ((attempts[1], "0.2"), (attempts[0], "0.1")):
        with pytest.raises(LeaseLost):
            attempt.answer(make_reply(text))
    found = begin_call(journal, holder="four")
    assert isinstance(found, Answered)
    assert (found.content, found.attempt) == ("0.1", 1)


def test_a_late_answer_said_twice_is_stored_once(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    begin_attempt(journal, holder="two")
    for _ in range(2):
        with pytest.raises(LeaseLost) as lost:
            slow.answer(make_reply("0.1"))
        assert lost.value.stored
    assert journal.export()["responses"].height == 1


def test_a_late_failure_is_kept_with_its_cost(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(PAST_LEASE)
    quick = begin_attempt(journal, holder="two")
    with pytest.raises(LeaseLost):
        slow.fail(Outcome.TRUNCATION, "400 tokens", make_reply("0.", cost=90))
    assert attempt_outcomes(journal) == [(1, "truncation", 90), (2, None, None)]
    quick.answer(make_reply())
    assert journal.spent(Scope(purpose="benchmark/forecasts")).spent == 210


def test_a_holder_whose_lease_passed_on_changes_nothing(journal: Journal, clock: Clock) -> None:
    first = claim_call(journal)
    clock.advance(PAST_LEASE)
    claim_call(journal, holder="two")
    before = journal.export()
    for act in (lambda: first.release("mine"), lambda: first.give_up(Outcome.TIMEOUT, "mine")):
        with pytest.raises(LeaseLost, match="passed on to two"):
            act()
    after = journal.export()
    assert all(after[name].equals(before[name]) for name in before)


def test_pending_calls_are_those_without_an_end(journal: Journal, clock: Clock) -> None:
    begin_attempt(journal, make_request(0)).answer(make_reply())
    claim_call(journal, make_request(1)).give_up(Outcome.REFUSAL, "no")
    claim_call(journal, make_request(2)).release("later")
    clock.advance(timedelta(seconds=1))
    claim_call(journal, make_request(3))
    assert [(status.key, status.state) for status in journal.pending()] == [
        (make_request(2).key, State.OPEN),
        (make_request(3).key, State.CLAIMED),
    ]
    assert journal.expired() == []


def test_without_a_clock_of_the_tests_leases_run_on_the_databases(url: str) -> None:
    with Journal(url) as journal:
        claim_call(journal)
        assert journal.expired() == []
        assert isinstance(begin_call(journal), Busy)
        short = claim_call(journal, make_request(1), lease=timedelta(microseconds=1))
        status = journal.status(short.key)
        assert status is not None
        assert status.created_at.utcoffset() == timedelta(0)
        assert [one.key for one in journal.expired()] == [make_request(1).key]


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
