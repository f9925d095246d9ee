"""Batched work has the results of sequential work, and shares a transaction if there is one writer."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bellwether.errors import ConfigError, LakeError
from bellwether.journal import Answered, Attempt, Budget, BudgetExceeded, Busy, Claim, Failed, Journal, LeaseLost, Outcome, Scope, Usage
from bellwether.journal.values import CostSource
from bellwether.journal.writer import Urgency, Writer
from tests.journal.calls import LEASE, Clock, attempt_outcomes, begin_attempt, make_reply, make_request

pytest_plugins = ("tests.journal.fixtures",)

RUN = Scope(run="week-9")


def start(journal: Journal, number: int = 0, **options: Any) -> Any:
    return journal.begin(make_request(number), lease=LEASE, holder=options.pop("holder", "one"), run="week-9", **options)


def commits(journal: Journal) -> list[str]:
    """List of the statements that end transactions."""
    found: list[str] = []

    @sa.event.listens_for(journal.database._engine, "before_cursor_execute")
    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement == "COMMIT":
            found.append(statement)

    return found


# --- begin -----------------------------------------------------------------------------------------------------------


def test_a_call_is_claimed_and_begun_at_once(journal: Journal, clock: Clock) -> None:
    claim, attempt = start(journal, estimate=50)
    assert isinstance(claim, Claim)
    assert isinstance(attempt, Attempt)
    assert (attempt.number, claim.expires_at, journal.spent(RUN).reserved) == (1, clock.now + LEASE, 50)
    assert start(journal, holder="two") == Busy(make_request().key, "one", clock.now + LEASE)
    attempt.answer(make_reply())
    assert isinstance(start(journal), Answered)


def test_a_call_that_was_released_failed_or_lost_is_begun_again(journal: Journal, clock: Clock) -> None:
    claim, attempt = start(journal)
    attempt.fail(Outcome.TIMEOUT, "slow")
    claim.release("slow")
    claim, attempt = start(journal)
    assert attempt.number == 2
    clock.advance(LEASE + timedelta(seconds=1))
    taken_over, attempt = start(journal, holder="two")
    assert (attempt.number, taken_over.taken_from) == (3, "one")
    attempt.fail(Outcome.REFUSAL, "no")
    taken_over.give_up(Outcome.REFUSAL, "no")
    assert isinstance(start(journal), Failed)
    assert [outcome for _, outcome, _ in attempt_outcomes(journal)] == ["timeout", "abandoned", "refusal"]


def test_what_does_not_fit_the_budget_is_not_even_claimed(journal: Journal) -> None:
    budgets = (Budget(100, RUN),)
    start(journal, 0, estimate=60, budgets=budgets)
    with pytest.raises(BudgetExceeded):
        start(journal, 1, estimate=60, budgets=budgets)
    assert journal.status(make_request(1).key) is None
    with pytest.raises(ConfigError, match="a budget needs an estimate"):
        start(journal, 1, budgets=budgets)


# --- together --------------------------------------------------------------------------------------------------------


def test_works_share_one_transaction_where_there_is_one_writer(journal: Journal) -> None:
    journal.database.open()
    ended = commits(journal)
    found = journal.together([partial(start, journal, number) for number in range(10)])
    assert [len(one) for one in found] == [2] * 10
    assert len(ended) == (1 if journal.shares else 10)


def test_a_work_that_raises_leaves_the_others(journal: Journal) -> None:
    budgets = (Budget(100, RUN),)
    works = [partial(start, journal, number, estimate=40, budgets=budgets) for number in range(4)]
    found = journal.together(works)
    assert [isinstance(one, BudgetExceeded) for one in found] == [False, False, True, True]
    assert {status.key for status in journal.pending()} == {make_request(0).key, make_request(1).key}


def test_what_a_work_kept_before_it_raised_is_kept(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal)
    clock.advance(LEASE + timedelta(seconds=1))
    begin_attempt(journal, holder="two")
    (lost,) = journal.together([lambda: slow.answer(make_reply("0.1", cost=500))])
    assert isinstance(lost, LeaseLost)
    assert lost.stored
    assert attempt_outcomes(journal) == [(1, "ok", 500), (2, None, None)]


def test_a_work_sees_what_those_before_it_did(journal: Journal) -> None:
    def whole() -> Any:
        claim, attempt = start(journal)
        attempt.answer(make_reply())
        return journal.look(claim.key)

    first, second = journal.together([whole, lambda: start(journal)])
    assert first == second
    assert isinstance(first, Answered)


def test_costs_that_come_while_a_transaction_is_shared_count_in_its_budgets(journal: Journal) -> None:
    budgets = (Budget(100, RUN), Budget(10**6))

    def work(number: int, cost: int | None) -> int:
        _, attempt = start(journal, number, estimate=40, budgets=budgets)
        if cost is not None:
            attempt.answer(make_reply(cost=cost))
        return number

    found = journal.together([partial(work, number, cost) for number, cost in enumerate([10, 50, None, None])])
    assert found[:3] == [0, 1, 2]
    assert isinstance(found[3], BudgetExceeded)
    assert found[3].spending == journal.spent(RUN)
    assert journal.spent(RUN).committed == 100


def test_nothing_of_any_work_is_kept_when_the_transaction_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(f"sqlite:///{tmp_path}/journal.db")
    journal.database.open()

    def full() -> Any:
        start(journal, 1)
        raw: Any = journal.database._shared_transaction.connection.connection.driver_connection  # type: ignore[union-attr]
        raw.execute("ROLLBACK")  # like SQLite on a full disk
        raise LakeError("the disk is full")

    with pytest.raises(LakeError, match="the disk is full"):
        journal.together([lambda: start(journal, 0), full, lambda: start(journal, 2)])
    assert journal.pending() == []
    start(journal, 3)
    assert [status.key for status in journal.pending()] == [make_request(3).key]


# --- used ------------------------------------------------------------------------------------------------------------


def test_what_a_call_used_is_the_sum_of_its_attempts(journal: Journal) -> None:
    assert journal.used(make_request().key) == (0, Usage())
    ends = [(Outcome.RATE_LIMIT, "429", None), (Outcome.MALFORMED, "no JSON", make_reply("?", cost=10))]
    for outcome, reason, reply in ends:
        claim, attempt = start(journal)
        attempt.fail(outcome, reason, reply)
        claim.release(reason)
        assert outcome is not Outcome.RATE_LIMIT or journal.used(make_request().key)[1] == Usage(0, 0, 0, 0, CostSource.UNBILLED)
    begin_attempt(journal).answer(make_reply(cost=20))
    assert journal.used(make_request().key) == (3, Usage(200, 40, 10, 30, CostSource.PROVIDER))


def test_a_cost_that_is_not_known_makes_the_sum_unknown_and_tokens_are_those_that_are_known(journal: Journal) -> None:
    claim, attempt = start(journal)
    attempt.fail(Outcome.TIMEOUT, "slow")
    claim.release("slow")
    begin_attempt(journal).answer(make_reply(cost=20))
    assert journal.used(make_request().key) == (2, Usage(100, 20, 5))


# --- from asyncio ----------------------------------------------------------------------------------------------------


async def test_what_waits_at_the_same_time_is_written_at_once(journal: Journal) -> None:
    journal.database.open()
    ended, writer = commits(journal), Writer(journal)
    begun_calls = await asyncio.gather(*(writer.do(partial(start, journal, number), Urgency.BEGIN) for number in range(10)))
    await asyncio.gather(*(writer.do(partial(attempt.answer, make_reply())) for _, attempt in begun_calls))
    assert len(ended) == (2 if journal.shares else 20)
    assert journal.counts().row(0)[-1] == 10


async def test_a_work_is_done_though_nobody_waits_for_it_any_more(journal: Journal) -> None:
    _, attempt = start(journal)
    writer = Writer(journal)
    waiting = asyncio.create_task(writer.do(partial(attempt.answer, make_reply())))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await writer.settle()
    assert isinstance(journal.look(make_request().key), Answered)


async def test_what_is_handed_in_at_the_moment_in_which_the_last_work_ends_is_done_too(journal: Journal) -> None:
    writer = Writer(journal)
    for _ in range(50):
        seconds: list[asyncio.Future[Any]] = []
        first = writer.submit(journal.pending)
        first.add_done_callback(lambda _: seconds.append(writer.submit(journal.pending)))  # noqa: B023
        await first
        await asyncio.wait_for(seconds[0], 60)


async def test_errors_come_back_to_who_asked(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal(f"sqlite:///{path}", patience=0.1)
    _, attempt = start(journal)
    writer = Writer(journal)
    with sqlite3.connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        found = await asyncio.gather(
            writer.do(partial(attempt.answer, make_reply())), writer.do(partial(start, journal, 1)), return_exceptions=True
        )
        assert [type(one) for one in found] == [LakeError, LakeError]
        other.rollback()
    assert isinstance(await writer.do(partial(attempt.answer, make_reply())), Answered)


async def test_what_has_come_is_kept_before_more_is_asked_for_and_looked_up(tmp_path: Path) -> None:
    """Otherwise a slow disk would delay the storage of paid replies."""
    writer, done = Writer(Journal(f"sqlite:///{tmp_path}/journal.db")), list[str]()
    order = {"look": Urgency.READ, "begin": Urgency.BEGIN, "keep": Urgency.STORE}
    works = [writer.submit(partial(done.append, name), urgency) for name, urgency in order.items() for _ in range(2)]
    await asyncio.gather(*works)
    assert done == ["keep", "keep", "begin", "begin", "look", "look"]
