"""Records of the arena: one process makes each, also after kills, and a stored record never changes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa

from bellwether.journal import Journal
from bellwether.journal.records import InProgress, Records, read_unfinished
from tests.journal.calls import LEASE, Clock, begin_attempt, make_reply
from tests.processes.journal_racers import RUNNERS, Racers, make_records
from tests.shared import wait_for_child

pytest_plugins = ("tests.journal.fixtures",)

COHORT = ("cohort", "2026-03-01")


def open_records(journal: Journal, name: str) -> Records:
    return Records(journal, LEASE, run="week", holder=name)


def never() -> bytes:
    raise AssertionError("a stored record is made again")


def test_a_record_is_made_once_and_read_by_all(journal: Journal) -> None:
    first, second = open_records(journal, "first"), open_records(journal, "second")
    assert second.stored(*COHORT) is None
    assert first.once(*COHORT, lambda: b"\x00caf\xc3\xa9") == b"\x00caf\xc3\xa9"
    assert second.once(*COHORT, never) == second.stored(*COHORT) == b"\x00caf\xc3\xa9"
    assert second.once(*COHORT, lambda: b"", 1) == second.stored(*COHORT, 1) == b""
    assert journal.counts().is_empty()
    assert journal.usage()["attempts"].item() == 0
    (row, _) = journal.export()["records"].sort("number").iter_rows(named=True)
    assert (row["kind"], row["subject"], row["number"], row["run"], row["holder"]) == (*COHORT, 0, "week", "first")
    assert "lease_token" not in row


def test_while_it_is_made_others_are_told_by_whom_and_until_when(journal: Journal, clock: Clock) -> None:
    def make() -> bytes:
        with pytest.raises(
            InProgress, match=f"cohort of 2026-03-01: first is writing it, with a lease until {(clock.now + LEASE).isoformat()[:19]}"
        ):
            open_records(journal, "second").once(*COHORT, never)
        return b"first"

    assert open_records(journal, "first").once(*COHORT, make) == b"first"


def test_the_holder_of_an_expired_lease_stores_nothing_once_another_has_taken_it(journal: Journal, clock: Clock) -> None:
    def stall() -> bytes:
        clock.advance(2 * LEASE)
        assert open_records(journal, "quick").once(*COHORT, lambda: b"quick") == b"quick"
        return b"slow"

    assert open_records(journal, "slow").once(*COHORT, stall) == b"quick"
    assert open_records(journal, "slow").stored(*COHORT) == b"quick"


def test_the_holder_of_an_expired_lease_waits_for_the_process_that_has_taken_it(journal: Journal, clock: Clock) -> None:
    def stall() -> bytes:
        clock.advance(2 * LEASE)
        assert open_records(journal, "quick")._claim(*COHORT, 0, "token") is None
        return b"slow"

    with pytest.raises(InProgress, match="quick is writing it"):
        open_records(journal, "slow").once(*COHORT, stall)
    assert open_records(journal, "slow").stored(*COHORT) is None


def test_an_expired_lease_that_nobody_took_still_stores(journal: Journal, clock: Clock) -> None:
    def stall() -> bytes:
        clock.advance(2 * LEASE)
        return b"late"

    assert open_records(journal, "slow").once(*COHORT, stall) == b"late"


@pytest.mark.parametrize("error", [ValueError("key sk-proj-abcdef123456 refused"), KeyboardInterrupt()])
def test_a_failure_leaves_the_record_open_with_its_reason(journal: Journal, error: BaseException) -> None:
    def fail() -> bytes:
        raise error

    with pytest.raises(type(error)):
        open_records(journal, "first").once(*COHORT, fail)
    (left,) = read_unfinished(journal)
    assert (left.state, left.reason) == ("open", "ValueError: key *** refused" if isinstance(error, ValueError) else "KeyboardInterrupt: ")
    assert open_records(journal, "second").once(*COHORT, lambda: b"now") == b"now"
    assert read_unfinished(journal) == []
    assert journal.export()["records"]["reason"].to_list() == [None]


def test_a_failure_after_the_lease_was_taken_leaves_the_lease_to_its_new_holder(journal: Journal, clock: Clock) -> None:
    def fail() -> bytes:
        clock.advance(2 * LEASE)
        assert open_records(journal, "quick")._claim(*COHORT, 0, "token") is None
        raise ValueError("slow")

    with pytest.raises(ValueError, match="slow"):
        open_records(journal, "slow").once(*COHORT, fail)
    (left,) = read_unfinished(journal)
    assert (left.state, left.holder) == ("claimed", "quick")


def test_the_lease_of_a_killed_process_of_this_machine_is_free_at_once(url: str) -> None:
    child = os.fork()
    if child == 0:
        with Journal(url) as own:
            Records(own, timedelta(hours=1)).once(*COHORT, lambda: os.kill(os.getpid(), signal.SIGKILL) or b"")
    assert os.WIFSIGNALED(wait_for_child(child))
    with Journal(url) as journal:
        assert [one.state for one in read_unfinished(journal)] == ["claimed"]
        assert Records(journal, LEASE).once(*COHORT, lambda: b"heir") == b"heir"


@pytest.mark.slow
def test_each_record_is_made_by_exactly_one_of_all_processes(url: str, racers: Racers) -> None:
    made = racers.race(make_records, url, 40)
    assert sorted(number for numbers, _ in made for number in numbers) == list(range(40))
    with Journal(url) as journal:
        stored = journal.export()["records"].sort("number")["body"].to_list()
    for runner, (numbers, _) in enumerate(made):
        assert all(stored[number] == f"runner {runner}".encode() for number in numbers)
    for _, seen in made:
        assert len(made) == RUNNERS
        assert all(body == stored[number] for number, body in seen.items())


def _killed_at(url: str, number: int, work: Callable[[Journal], object]) -> bool:
    """Return True if a process that does `work` is killed after statement `number`, counted from 1."""
    child = os.fork()
    if child == 0:
        with Journal(url) as journal:
            journal.database.open()
            left = [number]

            def step(*_: object) -> None:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

            sa.event.listen(journal.database._engine, "after_cursor_execute", step)
            work(journal)
        os._exit(0)
    return os.WIFSIGNALED(wait_for_child(child))


def test_a_process_killed_at_every_statement_stores_the_whole_record_or_none(url: str) -> None:
    with Journal(url) as journal:
        begin_attempt(journal).answer(make_reply())
    life = 1
    while _killed_at(url, life, lambda journal, life=life: Records(journal, LEASE).once("prompt", f"life {life}", lambda: b"own")):  # type: ignore[misc]
        life += 1
    assert life > 5
    with Journal(url) as journal:
        heir = [Records(journal, LEASE).once("prompt", f"life {one}", lambda: b"heir") for one in range(1, life + 1)]
        assert heir == sorted(heir)
        assert set(heir) == {b"heir", b"own"}
        assert journal.export()["records"].height == life


@pytest.mark.parametrize("commit", [1, 2])
def test_a_commit_whose_confirmation_is_lost_is_done_once(postgres_url: str, commit: int) -> None:
    with Journal(postgres_url) as journal:
        journal.database.open()
        seen = [0]

        @sa.event.listens_for(journal.database._engine, "after_cursor_execute")
        def cut(connection, cursor, statement, parameters, context, many) -> None:  # type: ignore[no-untyped-def]
            seen[0] += statement == "COMMIT"
            if statement == "COMMIT" and seen[0] == commit:
                cursor.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        made: list[int] = []
        assert Records(journal, LEASE).once(*COHORT, lambda: made.append(1) or b"once") == b"once"  # type: ignore[func-returns-value]
        assert (made, journal.export()["records"]["body"].to_list()) == ([1], [b"once"])


def test_the_table_refuses_half_a_record(url: str) -> None:
    with Journal(url) as journal:
        open_records(journal, "first").once(*COHORT, lambda: b"x")
    for change in ("body = NULL", "stored_at = NULL", "holder = NULL", "kind = NULL"):
        with pytest.raises(sa.exc.IntegrityError), sa.create_engine(url).begin() as connection:
            connection.exec_driver_sql(f"UPDATE records SET {change}")
