"""Records of the arena: one process makes each, and a stored record never changes."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from bellwether.journal import Journal
from bellwether.journal.records import InProgress, Records, read_unfinished
from tests.unit.journal.calls import LEASE, Clock

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
