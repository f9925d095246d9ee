"""Records of the arena: one process makes each, and a stored record never changes."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from bellwether.journal.journal import Journal
from bellwether.journal.records import Records

COHORT = ("cohort", "2026-03-01")


def open_records(journal: Journal, name: str) -> Records:
    return Records(journal, run=name)


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
    assert (row["kind"], row["subject"], row["number"], row["run"]) == (*COHORT, 0, "first")


def test_of_two_processes_that_make_a_record_the_first_counts(journal: Journal) -> None:
    def stall() -> bytes:
        assert open_records(journal, "quick").once(*COHORT, lambda: b"quick") == b"quick"
        return b"slow"

    assert open_records(journal, "slow").once(*COHORT, stall) == b"quick"
    assert journal.export()["records"]["run"].to_list() == ["quick"]


def test_a_failure_leaves_the_record_to_the_next(journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError):
        open_records(journal, "first").once(*COHORT, lambda: bytes(1 // 0))
    assert open_records(journal, "second").once(*COHORT, lambda: b"now") == b"now"


def test_a_commit_whose_confirmation_is_lost_is_done_once(postgres_url: str) -> None:
    with Journal(postgres_url) as journal:
        journal.database.open()
        broken: list[bool] = []

        @sa.event.listens_for(journal.database._engine, "after_cursor_execute")
        def cut(connection, cursor, statement, parameters, context, many) -> None:  # type: ignore[no-untyped-def]
            if statement == "COMMIT" and not broken:
                broken.append(True)
                cursor.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        made: list[int] = []
        assert Records(journal).once(*COHORT, lambda: made.append(1) or b"once") == b"once"  # type: ignore[func-returns-value]
        assert (broken, made, journal.export()["records"]["body"].to_list()) == ([True], [1], [b"once"])
