"""Batched work has the results of sequential work, and shares a transaction if there is one writer."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bellwether.errors import LakeError
from bellwether.journal import Answered, Budget, BudgetExceeded, Journal, LeaseLost, Outcome, Scope, Usage
from bellwether.journal.values import CostSource
from bellwether.journal.writer import Urgency, Writer
from tests.unit.journal.calls import LEASE, Clock, attempt_outcomes, begin_attempt, make_reply, make_request

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


async def test_a_work_is_done_though_nobody_waits_for_it_any_more(journal: Journal) -> None:
    _, attempt = start(journal)
    writer = Writer(journal)
    waiting = asyncio.create_task(writer.do(partial(attempt.answer, make_reply())))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await writer.settle()
    assert isinstance(journal.look(make_request().key), Answered)


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


def test_a_work_over_the_budget_is_not_even_claimed(journal: Journal) -> None:
    budgets = (Budget(100, RUN),)
    start(journal, 0, estimate=60, budgets=budgets)
    with pytest.raises(BudgetExceeded):
        start(journal, 1, estimate=60, budgets=budgets)
    assert journal.status(make_request(1).key) is None


async def test_at_most_sixteen_waiting_works_share_a_transaction_of_the_one_writer(journal: Journal) -> None:
    journal.database.open()
    ended, writer = commits(journal), Writer(journal)
    begun_calls = await asyncio.gather(*(writer.do(partial(start, journal, number), Urgency.BEGIN) for number in range(16)))
    assert len(ended) == (1 if journal.shares else 16)
    await asyncio.gather(*(writer.do(partial(attempt.answer, make_reply())) for _, attempt in begun_calls))
    assert len(ended) == (2 if journal.shares else 32)
    await asyncio.gather(*(writer.do(partial(start, journal, number), Urgency.BEGIN) for number in range(16, 33)))
    assert len(ended) == (4 if journal.shares else 49)
    assert set(journal.usage("outcome").select("outcome", "attempts").rows()) == {(None, 17), ("ok", 16)}


async def test_eight_works_run_at_once_where_writers_do_not_wait_for_each_other(postgres_url: str) -> None:
    together, running, most = threading.Barrier(8, timeout=10), 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait()
        with lock:
            running -= 1

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
    with Journal(postgres_url) as journal:
        journal.database.open()
        writer = Writer(journal)
        await asyncio.gather(*(writer.do(work) for _ in range(16)))
    assert most == 8
