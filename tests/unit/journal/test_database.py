"""Unusable databases: error messages without passwords, and files left unchanged."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bellwether.database import Database, Transaction
from bellwether.errors import ConfigError, LakeError
from bellwether.journal.journal import Journal
from bellwether.journal.records import Records
from bellwether.journal.tables import SCHEMA, VERSION
from bellwether.journal.values import Busy, Outcome
from bellwether.settings import Settings
from deploy.loopback import Process
from tests.unit.journal.calls import answered_lake, begin_attempt, begin_call, make_reply, make_request

PASSWORD = "pa55-w0rd/secret"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not a database URL"),
        ("/srv/journal.db", "not a database URL"),
        ("postgresql://u:s3cret@h:port/db", "not a database URL"),
        ("mysql://u:s3cret@h/db", "no driver for 'mysql'"),
        ("postgres://u:s3cret@h/db", "no driver for 'postgres'"),
        ("postgresql+psycopg2://u:s3cret@h/db", "no driver for 'postgresql\\+psycopg2'"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///file:x?mode=memory&uri=true", "name a file"),
    ],
)
def test_a_wrong_url_is_refused_without_being_quoted(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        Journal(url)
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))


def test_a_file_that_is_not_there_is_read_as_an_empty_journal_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal.db"
    journal = Journal(f"sqlite:///{path}")
    assert journal.look(make_request(1).key) is None
    assert journal.pending() == journal.failures() == []
    assert journal.counts().is_empty()
    assert all(frame.is_empty() for name, frame in journal.export().items() if name != "version")
    assert list(tmp_path.iterdir()) == []
    begin_attempt(journal, make_request(1))
    assert path.is_file()
    assert [one.key for one in journal.pending()] == [make_request(1).key]
    assert isinstance(journal.look(make_request(1).key), Busy)


@pytest.mark.parametrize("rest", ["nothing", "an empty file"])
def test_a_log_without_its_file_is_not_thrown_away(tmp_path: Path, rest: str) -> None:
    path, log = tmp_path / "journal.db", tmp_path / "journal.db-wal"
    if rest == "an empty file":
        path.touch()
    log.write_bytes(b"answers")
    with pytest.raises(LakeError, match="restore the file next to it"):
        begin_attempt(Journal(f"sqlite:///{path}"))
    assert log.read_bytes() == b"answers"


def test_another_programs_sqlite_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (id INTEGER)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="is not a journal, it contains the table 'runs'"):
        begin_attempt(Journal(f"sqlite:///{path}"))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["other.db"]


def test_on_postgres_other_tables_are_neighbours_but_ours_must_be_ours(postgres_url: str) -> None:
    with sa.create_engine(postgres_url).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE runs (id integer)")
    begin_attempt(Journal(postgres_url))
    with sa.create_engine(postgres_url).begin() as connection:
        connection.exec_driver_sql("DROP TABLE journal_version")
    with pytest.raises(ConfigError, match="is not a journal, it contains the table 'attempts'"):
        begin_attempt(Journal(postgres_url))


@pytest.mark.parametrize("version", [VERSION + 1, VERSION - 1])
def test_a_journal_of_another_version_is_neither_read_nor_written(url: str, version: int) -> None:
    with Journal(url) as journal:
        begin_attempt(journal)
    with sa.create_engine(url).begin() as connection:
        connection.exec_driver_sql(f"UPDATE journal_version SET version = {version}")
    with pytest.raises(LakeError, match=f"version {version}, this Bellwether reads version {VERSION}; use the Bellwether that made it"):
        begin_attempt(Journal(url))


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as journal:
        attempt = begin_attempt(journal)
        with journal.database._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        with pytest.raises(LakeError, match="the disk is full; nothing was changed"):
            attempt.answer(make_reply("x" * 100_000))
        with journal.database._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        assert attempt.answer(make_reply("x" * 100_000)).attempt == 1


def test_sqlite_commits_are_on_the_disk_before_they_are_confirmed(tmp_path: Path) -> None:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as journal:
        begin_attempt(journal)
        with journal.database._engine.connect() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous", "foreign_keys")
            }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_postgres_commits_are_on_the_disk_even_where_the_server_would_not_wait(postgres_url: str) -> None:
    eager = postgres_url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    with Journal(eager) as journal:
        begin_attempt(journal)
        with journal.database._engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "30s"


def test_a_process_that_freezes_in_a_transaction_does_not_stop_the_others(postgres_url: str) -> None:
    """Half of the patience after the freeze the server ends the transaction; the frozen process does it again when it continues."""
    began, order = threading.Event(), []

    def write(name: str, freeze: float) -> None:
        database = Database(postgres_url, SCHEMA, patience=1.0)

        def work(transaction: Transaction) -> None:
            transaction.lock("limits")
            if freeze and not began.is_set():
                began.set()
                time.sleep(freeze)
            transaction.now()
            order.append(name)

        database.write("freezing", work)
        database.close()

    frozen = threading.Thread(target=write, args=("frozen", 1.2))
    frozen.start()
    assert began.wait(60)
    write("other", 0.0)
    frozen.join(60)
    assert order == ["other", "frozen"]


@pytest.mark.parametrize("step", ["begin", "fail", "answer", "abandon", "give up", "reopen"])
def test_a_commit_whose_confirmation_is_lost_is_done_once(postgres_url: str, step: str) -> None:
    """The connection breaks after the server's commit and before its confirmation. The journal repeats the statement and finds the result."""
    with Journal(postgres_url) as journal:
        subject = None if step == "begin" else begin_attempt(journal)
        if step == "reopen":
            subject.fail(Outcome.TIMEOUT, "x", final=True)  # type: ignore[union-attr]
        broken = _break_after_next_commit(journal)
        _act(journal, step, subject)
        assert broken == [True]
        tables = journal.export()
        assert tables["calls"].height == 1
        assert tables["attempts"].height == 1
        assert tables["responses"].height == (step == "answer")
        assert tables["reopenings"].height == (step == "reopen")


def _act(journal: Journal, step: str, subject) -> None:  # type: ignore[no-untyped-def]
    match step:
        case "begin":
            assert begin_attempt(journal).number == 1
        case "fail":
            subject.fail(Outcome.TIMEOUT, "slow")
        case "answer":
            assert subject.answer(make_reply()).attempt == 1
        case "abandon":
            subject.abandon("later")
        case "give up":
            subject.fail(Outcome.TIMEOUT, "slow", final=True)
        case "reopen":
            journal.reopen(make_request().key, by="ana", note="again")


def _break_after_next_commit(journal: Journal) -> list[bool]:
    broken: list[bool] = []

    @sa.event.listens_for(journal.database._engine, "after_cursor_execute")
    def cut(connection, cursor, statement, parameters, context, many) -> None:  # type: ignore[no-untyped-def]
        if statement == "COMMIT" and not broken:
            broken.append(True)
            cursor.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    return broken


@pytest.fixture
def careful_url(postgres_url: str) -> str:
    """URL of a user with a password and a schema of their own."""
    from urllib.parse import quote

    with sa.create_engine(postgres_url).begin() as connection:
        schema = connection.exec_driver_sql("SELECT current_schema()").scalar_one()
        connection.exec_driver_sql("DO $$ BEGIN CREATE ROLE careful LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
        connection.exec_driver_sql(f"ALTER ROLE careful PASSWORD '{PASSWORD}'")
        connection.exec_driver_sql(f"GRANT ALL ON SCHEMA {schema} TO careful")
    return f"postgresql://careful:{quote(PASSWORD, safe='')}@{postgres_url.rpartition('@')[2]}"


def test_the_password_is_shown_nowhere(careful_url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    with Journal(careful_url) as journal:
        attempt = begin_attempt(journal)
        shown += [repr(journal), str(journal), journal.where, repr(attempt), repr(journal.database._url)]
        attempt.answer(make_reply())
        with sa.create_engine(careful_url).connect() as connection:
            connection.exec_driver_sql("ALTER TABLE attempts RENAME TO gone")
            connection.commit()
        with pytest.raises(LakeError) as broken:
            journal.spent()
        shown += traceback.format_exception(broken.value)
    wrong = careful_url.replace("pa55", "pa56")
    with pytest.raises(ConfigError, match="password authentication failed") as refused:
        begin_attempt(Journal(wrong))
    shown += traceback.format_exception(refused.value)
    shown += [caplog.text, *capfd.readouterr()]
    secrets = [PASSWORD, PASSWORD.replace("/", "%2F"), PASSWORD.replace("55", "56")]
    assert not [text for text in shown for secret in secrets if secret in text]
    assert re.fullmatch(r"postgresql://careful@127\.0\.0\.1:\d+/bellwether", journal.where)


def test_a_credential_in_a_providers_words_is_not_stored(url: str, tmp_path: Path) -> None:
    words = "Incorrect API key provided: sk-proj-abcdef123456; header was Bearer abc.def; others: gsk_abcDEF123456, tgp_v1_abc-DEF_123456"
    with Journal(url) as journal:
        begin_attempt(journal).fail(Outcome.AUTHENTICATION, words, final=True)
        tables = journal.export()
    kept = ["Incorrect API key provided: ***; header was *** others: ***, ***"]
    assert tables["attempts"]["reason"].to_list() == tables["calls"]["reason"].to_list() == kept


def test_a_journal_whose_folder_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a ?b" / "journal.db"
    with Journal(f"sqlite:///{str(place).replace('?', '%3F')}") as journal:
        key = begin_attempt(journal).key
    assert place.is_file()
    monkeypatch.setattr(os, "access", lambda path, mode: path != place.parent)
    with Journal(f"sqlite:///{str(place).replace('?', '%3F')}") as journal:
        assert journal.look(key) is not None
        with pytest.raises(ConfigError, match="must be writable"):
            begin_attempt(journal, make_request("another question"))


def test_a_journal_that_everybody_could_read_is_limited_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(f"sqlite:///{path}") as journal:
        begin_attempt(journal, make_request())
    assert path.stat().st_mode & 0o777 == 0o600
    for mode, expected in ((0o644, 0o600), (0o660, 0o660)):
        path.chmod(mode)
        with Journal(f"sqlite:///{path}") as journal:
            journal.counts()
            assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("journal.db*")} == {expected}


@pytest.mark.parametrize("damage", ["another file", "a header alone", "torn pages"])
def test_a_damaged_file_is_reported_and_left_as_it_is(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "journal.db"
    with Journal(f"sqlite:///{path}") as journal:
        for number in range(50):
            begin_attempt(journal, make_request(number)).answer(make_reply("x" * 500))
    whole = path.read_bytes()
    content = {
        "another file": b"this is no database" * 300,
        "a header alone": b"SQLite format 3\x00" + b"\xff" * 5000,
        "torn pages": whole[:4096] + b"\x5a" * (len(whole) - 4096),
    }[damage]
    path.write_bytes(content)
    with Journal(f"sqlite:///{path}") as journal, pytest.raises(LakeError, match="damaged"):
        begin_attempt(journal, make_request(99))
    assert path.read_bytes() == content


def test_a_locked_database_is_waited_for_and_then_reported(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "journal.db"
    with Journal(f"sqlite:///{path}", patience=0.1) as journal:
        begin_attempt(journal)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LakeError, match="another process keeps it locked"):
            begin_attempt(journal, make_request(1))
        assert journal.status(make_request(0).key) is not None
        other.execute("ROLLBACK")
        begin_attempt(journal, make_request(1))
        other.close()
        assert journal.database._writing.acquire(timeout=1)
        with pytest.raises(LakeError, match="another thread has been writing"):
            begin_attempt(journal, make_request(2))
        journal.database._writing.release()
        begin_attempt(journal, make_request(2))
    with Journal(postgres_url, patience=0.2) as journal:
        attempt = begin_attempt(journal)
        with sa.create_engine(postgres_url).connect() as other_connection:
            other_connection.exec_driver_sql("SELECT * FROM calls FOR UPDATE")
            with pytest.raises(LakeError, match="another process keeps it locked"):
                attempt.answer(make_reply())
        assert attempt.answer(make_reply()).attempt == 1


def test_the_tables_refuse_half_a_call_and_half_a_record(url: str) -> None:
    """Constraints of the tables apply to writers that bypass the journal."""
    with Journal(url) as journal:
        begin_attempt(journal).answer(make_reply())
        Records(journal).once("cohort", "2026-03-01", lambda: b"x")
    key = make_request().key
    engine = sa.create_engine(url)
    sa.event.listen(engine, "connect", lambda connection, record: _enforce(connection))
    for statement in (
        "UPDATE calls SET answer = NULL",
        "UPDATE calls SET state = 'open'",
        "UPDATE calls SET state = 'done'",
        "UPDATE attempts SET outcome = 'fine'",
        "UPDATE attempts SET cost_microdollars = -1",
        "UPDATE attempts SET cost_source = NULL",
        "UPDATE attempts SET outcome = NULL",
        f"INSERT INTO responses (key, number, body, sha256, stored_at) SELECT '{key}', 2, body, sha256, stored_at FROM responses",
        f"INSERT INTO responses (key, number, body, sha256, stored_at) SELECT '{key}', 1, body, sha256, stored_at FROM responses",
        f"INSERT INTO attempts (key, number, model, purpose, scope, token, started_at, expires_at, leased_until) "
        f"SELECT '{'0' * 64}', 1, model, purpose, scope, token, started_at, expires_at, leased_until FROM attempts",
        "UPDATE records SET body = NULL",
        "UPDATE records SET stored_at = NULL",
        "UPDATE records SET kind = NULL",
    ):
        with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
            connection.exec_driver_sql(statement)


def _enforce(connection: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA foreign_keys=ON")


def test_unreachable_servers_and_missing_rights_name_the_setting(postgres_url: str, postgres_server: Process, tmp_path: Path) -> None:
    with sa.create_engine(postgres_url).begin() as connection:
        connection.exec_driver_sql("DO $$ BEGIN CREATE ROLE poor LOGIN PASSWORD 'poor'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    unusable = (
        f"postgresql://u:s3cret@/db?host={tmp_path}",
        postgres_server.url.rpartition("/")[0] + "/nowhere",
        f"postgresql://poor:poor@{postgres_url.rpartition('@')[2].partition('?')[0]}",
    )
    for url in unusable:
        with pytest.raises(ConfigError) as refused:
            begin_attempt(Journal(url))
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("name", ["benchmark/forecasts", "arena/decisions"])
def test_no_new_journal_is_created_next_to_stored_answers(tmp_path: Path, name: str) -> None:
    config = Settings(home=tmp_path)
    answered_lake(config, name)
    path = config.world_home / "journal.db"
    for _ in range(2):
        with Journal.of(config) as journal, pytest.raises(LakeError, match="Restore the journal from a backup"):
            begin_attempt(journal)
        assert not (path.exists() and path.stat().st_size)
        path.touch()
    (tmp_path / "answers.jsonl").touch()
    with Journal.of(config) as journal:
        assert journal.import_answers(tmp_path / "answers.jsonl") == 0
        begin_attempt(journal, make_request())
    with Journal.of(config) as journal:
        assert isinstance(begin_call(journal), Busy)
