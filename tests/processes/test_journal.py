"""Processes that share a journal and are killed: no answer is lost or requested again, and every attempt, record and cost has one owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa

from bellwether.journal.journal import Journal
from bellwether.journal.records import Records
from bellwether.journal.tables import Scope
from tests.processes.journal_crashes import check_kills
from tests.processes.journal_racers import (
    ESTIMATE,
    RUNNERS,
    Racers,
    ask_model,
    make_records,
    open_first,
    reserve,
    spend,
    stall_or_take_over,
    win,
)
from tests.shared import wait_for_child
from tests.unit.journal.calls import begin_attempt, make_reply, make_request
from tests.unit.models.failing_provider import provider

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    opened = Racers()
    yield opened
    opened.close()


FIRST_OPENING = """
import os, sys
import sqlalchemy as sa
from bellwether.journal.journal import Journal
from tests.unit.journal.calls import begin_attempt, make_reply, make_request
from tests.processes.journal_crashes import Countdown
url = sys.argv[1]
for life in range(1, 200):
    child = os.fork()
    if child == 0:
        journal = Journal(url.format(life=life))
        sa.event.listen(journal.database._engine, "after_cursor_execute", Countdown(life).step)
        journal.database.open()
        os._exit(0)
    if os.WIFEXITED(os.waitpid(child, 0)[1]):
        print(life)
        break
"""


def test_a_process_killed_while_it_makes_the_tables_leaves_a_database_that_opens(tmp_path: Path) -> None:
    pattern = f"sqlite:///{tmp_path}/journal-{{life}}.db"
    found = subprocess.run(
        [sys.executable, "-c", FIRST_OPENING, pattern], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    lives = int(found.stdout)
    assert lives > 10
    for life in range(1, lives + 1):
        with Journal(pattern.format(life=life)) as journal:
            assert journal.pending() == []


def check_one_answer_each(journal: Journal, keys: range) -> None:
    tables = journal.export()
    assert tables["calls"]["state"].to_list() == ["answered"] * len(keys)
    assert tables["attempts"]["outcome"].to_list() == ["ok"] * len(keys)
    assert tables["responses"]["key"].n_unique() == tables["responses"].height == len(keys)


def test_each_call_is_won_by_exactly_one_of_all_processes(url: str, racers: Racers) -> None:
    for turn in range(3):
        keys = range(turn * 25, turn * 25 + 25)
        won = racers.race(win, url, keys)
        assert sorted(key for one in won for key in one) == list(keys)
    with Journal(url) as journal:
        check_one_answer_each(journal, range(75))
        answers = journal.answers(make_request(key).key for key in keys)
        for number, one in enumerate(won):
            assert {answers[make_request(key).key].content for key in one} <= {f"runner {number}"}


def test_processes_that_open_a_new_journal_at_once_make_one(tmp_path: Path, postgres_url: str, racers: Racers) -> None:
    schema = postgres_url.rsplit("%3D", 1)[1]
    for turn in range(3):
        with sa.create_engine(postgres_url).begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {schema}_{turn}")
        for url in (f"sqlite:///{tmp_path}/new/{turn}/journal.db", f"{postgres_url}_{turn}"):
            assert len(set(racers.race(open_first, url))) == RUNNERS
            with Journal(url) as journal:
                check_one_answer_each(journal, range(RUNNERS))


def test_a_budget_holds_whoever_spends(url: str, racers: Racers) -> None:
    limit = 60 * ESTIMATE + 99
    begins = racers.race(spend, url, limit)
    with Journal(url) as journal:
        found = journal.spent(Scope(run="race"))
    assert limit - ESTIMATE < found.committed <= limit
    assert sum(begins) > 60


@pytest.mark.parametrize(("budget", "answers"), [(10**6, 20), (6 * 350 + 1015, 7)])
def test_processes_on_one_model_pay_each_call_once_within_its_limits(url: str, racers: Racers, budget: int, answers: int) -> None:
    """A call costs 350 millionths of a dollar, and before its end may cost 1,010: the second budget suffices for seven."""
    with provider(latency=0.05) as (served, address):
        answered = racers.race(ask_model, url, address, 20, Decimal(budget) / 10**6)
    assert (served.calls("calibrated"), served.most("calibrated")) == (answers, 1)
    assert served.most_at_once <= 3
    assert max(answered) <= answers and (answers < 20 or answered == [20] * RUNNERS)
    with Journal(url) as journal:
        check_one_answer_each(journal, range(answers))
        assert journal.spent(Scope(run="race")).committed == answers * 350


def test_reservations_of_a_rate_never_overlap(url: str, racers: Racers) -> None:
    began = time.monotonic()
    racers.race(reserve, url, 20, 5.0)
    with Journal(url) as journal:
        lead = journal.limits.reserve("venue", 5.0)
    whole = (RUNNERS * 20 + 1) * 5.0
    assert whole - (time.monotonic() - began) <= lead <= whole


def test_a_process_that_wakes_while_others_begin_again_never_makes_a_second_answer(url: str, racers: Racers) -> None:
    keys = range(60)
    slow, *others = racers.race(stall_or_take_over, url, keys)
    with Journal(url) as journal:
        tables = journal.export()
        assert tables["calls"]["state"].to_list() == ["answered"] * len(keys)
        for key in keys:
            answer = journal.answer(make_request(key).key)
            assert answer is not None
            heard = {one[key] for one in (slow, *others)} - {"busy"}
            assert heard <= {answer.content}
        brought = tables["attempts"].filter(tables["attempts"]["outcome"] == "ok").height
        assert journal.spent().spent == tables["responses"].height == brought
        assert tables["attempts"]["outcome"].n_unique() == 1


def test_of_each_record_all_processes_read_the_same_bytes(url: str, racers: Racers) -> None:
    made = racers.race(make_records, url, 40)
    assert {number for numbers, _ in made for number in numbers} == set(range(40))
    with Journal(url) as journal:
        stored = journal.export()["records"].sort("number")["body"].to_list()
    for _, seen in made:
        assert len(seen) == 40
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
    while _killed_at(url, life, lambda journal, life=life: Records(journal).once("prompt", f"life {life}", lambda: b"own")):  # type: ignore[misc]
        life += 1
    assert life > 2
    with Journal(url) as journal:
        heir = [Records(journal).once("prompt", f"life {one}", lambda: b"heir") for one in range(1, life + 1)]
        assert heir == sorted(heir)
        assert set(heir) == {b"heir", b"own"}
        assert journal.export()["records"].height == life


READONLY = """
import os, sys
from bellwether.errors import ConfigError
from bellwether.journal.journal import Journal
from tests.unit.journal.calls import begin_attempt, make_request
begin_attempt(Journal("sqlite:///" + sys.argv[2]))
os.setgid(65534); os.setuid(65534)
try:
    begin_attempt(Journal("sqlite:///" + sys.argv[1]), make_request(1))
except ConfigError as error:
    print("ConfigError", error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without rights")
@pytest.mark.parametrize("what", ["folder", "new folder", "file"])
def test_what_may_not_be_written_is_one_clear_error(what: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / ("new/journal.db" if what == "new folder" else "journal.db")
        if what == "file":
            begin_attempt(Journal(f"sqlite:///{path}"))
        command = [sys.executable, "-c", READONLY, str(path), str(folder / "own.db")]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout.startswith("ConfigError"), found.stdout + found.stderr
    assert "journal.db" in found.stdout
    assert "BELLWETHER_JOURNAL" in found.stdout


FULL = """
import resource, signal, sys
from bellwether.errors import LakeError
from bellwether.journal.journal import Journal
from tests.unit.journal.calls import begin_attempt, make_reply, make_request
journal = Journal("sqlite:///" + sys.argv[1])
stored = 0
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    while True:
        begin_attempt(journal, make_request(stored)).answer(make_reply("x" * 20_000))
        stored += 1
except LakeError as error:
    print(stored, error)
"""


def test_a_file_that_cannot_grow_keeps_every_answer_that_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    found = subprocess.run([sys.executable, "-c", FULL, str(path)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    stored = int(found.stdout.split()[0])
    assert stored > 3
    assert "nothing was changed" in found.stdout
    with Journal(f"sqlite:///{path}") as journal:
        assert len(journal.answers(make_request(number).key for number in range(stored))) == stored
        begin_attempt(journal, make_request(999)).answer(make_reply())


def test_a_fork_opens_connections_of_its_own(url: str) -> None:
    with Journal(url) as journal:
        attempt = begin_attempt(journal)
        child = os.fork()
        if child == 0:
            try:
                begin_attempt(journal, make_request(1)).answer(make_reply())
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert wait_for_child(child) == 0
        attempt.answer(make_reply())
        assert journal.counts()["calls"].to_list() == [2]


def test_a_process_killed_at_any_statement_loses_and_repeats_nothing(tmp_path: Path) -> None:
    check_kills("statements", 8, f"sqlite:///{tmp_path}/journal.db", tmp_path / "log")
