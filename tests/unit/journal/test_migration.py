"""Conversion of journals of version 1, which stored the arena's records as calls: once, complete or not at all, with unchanged keys and bytes.

`version_1.sql` is the dump of such a journal: calls, records that are stored, open or claimed, and one with a late answer.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bellwether.backup import backup, restore
from bellwether.errors import LakeError
from bellwether.journal import Answered, Journal
from bellwether.journal.migration import is_current
from bellwether.journal.records import InProgress, Records, read_unfinished
from bellwether.journal.schema import metadata, records
from bellwether.settings import Settings
from tests.journal.calls import LEASE, START, Clock, make_request
from tests.processes.journal_crashes import Countdown
from tests.processes.journal_racers import Racers, make_records
from tests.shared import wait_for_child

pytest_plugins = ("tests.journal.fixtures",)

DUMP = (Path(__file__).parent / "version_1.sql").read_text()
RECORD = "model = 'arena' AND purpose <> 'arena/decisions'"
TABLES = ("calls", "attempts", "responses", "reopenings")


def write_old_journal(path: Path) -> Path:
    """Write a journal of version 1 to a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP)
    return path


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def whole(path: Path) -> dict[str, list[Any]]:
    return {
        name: rows(path, f"SELECT * FROM {name} ORDER BY 1, 2")
        for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    }


@pytest.fixture
def old(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> str:
    """A journal of version 1 on each database. On Postgres, the current tables contain the rows of the dump."""
    path = write_old_journal(tmp_path / ("journal.db" if url.startswith("sqlite") else "source.db"))
    if url.startswith("sqlite"):
        return url
    source, target = sa.create_engine(f"sqlite:///{path}"), sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    kept = [table for table in metadata.sorted_tables if table is not records]
    with source.connect() as reading, target.begin() as writing:
        metadata.create_all(writing, kept)
        for table in kept:
            writing.execute(table.insert(), [dict(row._mapping) for row in reading.execute(sa.select(table))])
    return url


def test_records_leave_the_calls_with_their_keys_and_bytes(old: str, tmp_path: Path) -> None:
    source = write_old_journal(tmp_path / "untouched.db")
    bodies = dict(
        rows(source, f"SELECT key, body FROM responses JOIN calls USING (key) WHERE {RECORD} AND (answer = number OR answer IS NULL)")
    )
    keys = {key for (key,) in rows(source, f"SELECT key FROM calls WHERE {RECORD}")}
    others = {name: [row for row in rows(source, f"SELECT * FROM {name}") if row[0] not in keys] for name in TABLES}
    with Journal(old, clock=Clock()) as journal:
        exported = journal.export()
        stored = exported["records"]
        assert set(stored["key"]) == keys
        assert {row["key"]: row["body"] for row in stored.iter_rows(named=True) if row["body"] is not None} == bodies
        assert len(bodies) == 6
        assert {name: exported[name].height for name in TABLES} == {name: len(kept) for name, kept in others.items()}
        assert exported["calls"]["model"].to_list().count("arena") == 1, "a model of the user's own may have any name"
        assert isinstance(journal.look(make_request().key), Answered)
        found = Records(journal, LEASE)
        assert found.stored("cohort", "2026-03-01") == '{"lineup":"café"}'.encode()
        assert [found.stored("intervention", "arena", number) for number in range(3)] == [b"first", b"second", None]
        assert found.stored("execution", "2026-03-01/beta/2026-03-01") == b"late"
        assert {row["run"] for row in stored.filter(kind="cohort").iter_rows(named=True)} == {"week"}


def test_what_was_open_or_held_stays_so(old: str) -> None:
    clock = Clock()
    with Journal(old, clock=clock) as journal:
        assert [(one.kind, one.state, one.reason, one.holder) for one in read_unfinished(journal)] == [
            ("intent", "open", "ValueError: no venue", "one"),
            ("execution", "claimed", None, "other"),
        ]
        found = Records(journal, LEASE)
        assert found.once("intent", "2026-03-01/acme/2026-03-01", lambda: b"now") == b"now"
        with pytest.raises(InProgress, match="other is writing it"):
            found.once("execution", "2026-03-01/acme/2026-03-01", lambda: b"second")
        clock.advance(3 * LEASE)
        assert found.once("execution", "2026-03-01/acme/2026-03-01", lambda: b"second") == b"second"


def test_the_second_opening_changes_nothing(tmp_path: Path) -> None:
    path = write_old_journal(tmp_path / "journal.db")
    for _ in range(2):
        with Journal(f"sqlite:///{path}") as journal:
            journal.pending()
        now = whole(path)
        assert [row[0] for row in now["journal_version"]] == [2]
    with Journal(f"sqlite:///{path}") as journal:
        journal.pending()
    assert whole(path) == now


def test_a_process_killed_at_every_statement_leaves_the_old_journal_or_the_new(tmp_path: Path) -> None:
    before, converted = whole(write_old_journal(tmp_path / "0.db")), dict[str, list[Any]]()
    for life in range(1, 200):
        path = write_old_journal(tmp_path / f"{life}.db")
        child = os.fork()
        if child == 0:
            journal = Journal(f"sqlite:///{path}")
            sa.event.listen(journal.database._engine, "after_cursor_execute", Countdown(life).step)
            journal.database.open()
            os._exit(0)
        survived = os.WIFEXITED(wait_for_child(child))
        left = whole(path)
        assert left == before or "records" in left
        with Journal(f"sqlite:///{path}") as journal:
            journal.pending()
        converted = converted or whole(path)
        assert whole(path) == converted
        if survived:
            break
    assert life > 12


def test_an_error_in_the_middle_leaves_the_old_journal(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, Journal(old) as journal:
        patch.setattr("bellwether.journal.migration._GUARD", dict.fromkeys(("sqlite", "postgresql"), "NOT SQL"))
        with pytest.raises(LakeError, match="opening: journal"):
            journal.pending()
    engine = sa.create_engine(old.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        assert not is_current(connection)
        assert "records" not in sa.inspect(connection).get_table_names()
        assert connection.exec_driver_sql("SELECT count(*) FROM calls").scalar_one() == 11
    with Journal(old) as journal:
        assert journal.export()["records"].height == 8


def test_processes_that_open_it_at_once_convert_it_once(old: str, racers: Racers) -> None:
    made = racers.race(make_records, old, 3)
    assert sorted(number for numbers, _ in made for number in numbers) == [0, 1, 2]
    with Journal(old) as journal:
        assert journal.export()["records"].height == 8 + 3


def test_a_process_of_the_earlier_version_that_has_it_open_cannot_repeat_a_record(old: str) -> None:
    with Journal(old) as journal:
        journal.pending()
    columns = "key, model, purpose, scope, sample, request, state, created_at"
    with sa.create_engine(old.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        copied = f"INSERT INTO calls ({columns}) SELECT '{{}}', 'arena', '{{}}', scope, sample, request, 'open', created_at FROM calls WHERE state = 'open'"
        with pytest.raises(sa.exc.IntegrityError, match=r"(?i)newer.bellwether"):
            connection.exec_driver_sql(copied.format("0" * 64, "arena/cohort").replace("%", "%%"))
        connection.rollback()
        connection.exec_driver_sql(copied.format("1" * 64, "arena/decisions").replace("%", "%%"))


def test_an_older_backup_is_converted_when_its_journal_is_opened(tmp_path: Path) -> None:
    first, second = (Settings(home=tmp_path / name, registry=tmp_path / f"registry-{name}") for name in ("first", "second"))
    source = write_old_journal(first.world_home / "journal.db")
    restore(second, backup(first, tmp_path / "backups", at=START))
    restored = second.world_home / "journal.db"
    assert whole(restored) == whole(source)
    with Journal.of(second) as journal:
        assert Records(journal, LEASE).stored("universe", "2026-03-01") == b'{"markets":[]}'
    assert "records" not in whole(source)
