"""Kills at every statement and every line: no answer is lost or requested again, and every attempt is recorded."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether.journal import Answered, Failed, Journal, Outcome
from tests.journal.calls import LEASE, Clock, begin_call, make_reply, make_request
from tests.processes.journal_crashes import CALLS

pytest_plugins = ("tests.journal.fixtures",)

ROOT = Path(__file__).resolve().parents[2]
#: Every statement, and every 61st line. A stride of 1 takes two minutes and gives the same.
STRIDES = {"statements": 1, "lines": 61}


def killed_at_every(points: str, url: str, log: Path) -> tuple[int, dict[int, list[str]]]:
    """Return the number of the first run that survived, and the effects of each run seen outside."""
    command = [sys.executable, "-m", "tests.processes.journal_crashes", url, str(log), points, str(STRIDES[points])]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr
    saw: dict[int, list[str]] = defaultdict(list)
    for line in log.read_text().splitlines():
        life, words = line.split(" ", 1)
        saw[int(life)].append(words)
    return int(found.stdout), saw


def go_on(journal: Journal, life: int) -> tuple[Answered, bool]:
    """Continue with the first call of a run in a new process. Returns the answer, and whether a request was needed."""
    found = begin_call(journal, make_request(CALLS * life), holder="heir", estimate=100)
    return (found, False) if isinstance(found, Answered) else (found[1].answer(make_reply("heir", cost=40)), True)


def check(journal: Journal, life: int, saw: list[str], before: pl.DataFrame) -> None:
    attempts = before.filter(pl.col("key") == make_request(CALLS * life).key)
    asked = sum(words.startswith("asked") for words in saw)
    answered = journal.answer(make_request(CALLS * life).key)
    assert attempts.height >= asked, "money was spent that no row shows"
    assert (answered is not None) >= ("stored" in saw), "a confirmed answer is lost"
    assert answered is None or answered.content == f"life {life}"
    final, had_to_ask = go_on(journal, life)
    assert had_to_ask == (answered is None), "an answer that was there has been paid for again"
    assert answered in (None, final)


def check_accounts(journal: Journal, lives: int) -> None:
    tables = journal.export()
    attempts, calls = tables["attempts"], tables["calls"]
    first = [make_request(CALLS * life).key for life in range(1, lives + 1)]
    assert calls.filter(pl.col("key").is_in(first))["state"].to_list() == ["answered"] * lives
    assert attempts.filter(pl.col("outcome").is_null(), pl.col("key").is_in(first)).is_empty()
    assert (
        attempts.filter(pl.col("outcome") == "abandoned")["cost_microdollars"].null_count()
        == attempts.filter(pl.col("outcome") == "abandoned").height
    )
    ok = attempts.filter(pl.col("outcome") == "ok", pl.col("key").is_in(first))
    assert ok.group_by("key").len()["len"].to_list() == [1] * lives
    costs = {"ok": {20, 40}, "malformed": {10}, "refusal": {30}}
    for outcome, expected in costs.items():
        found = attempts.filter(pl.col("outcome") == outcome, pl.col("key") != make_request(10**6).key)
        assert set(found["cost_microdollars"]) <= expected
    with_body = attempts.filter(pl.col("outcome").is_in(list(costs))).select("key", "number").sort("key", "number")
    assert with_body.equals(tables["responses"].select("key", "number").sort("key", "number"))


@pytest.mark.slow
@pytest.mark.parametrize("points", ["statements", "lines"])
def test_a_process_killed_at_every_step_loses_and_repeats_nothing(url: str, tmp_path: Path, points: str) -> None:
    lives, saw = killed_at_every(points, url, tmp_path / "log")
    assert lives > 20
    assert saw[lives] == ["asked 1", "asked 2", "stored", "finished"]
    clock = Clock(datetime.now(UTC) + timedelta(hours=1))
    with Journal(url, clock=clock) as journal:
        before = journal.export()["attempts"]
        for life in range(1, lives + 1):
            check(journal, life, saw[life], before)
        clock.advance(LEASE * 2)
        check_second_calls(journal, lives, saw)
        check_accounts(journal, lives)


def check_second_calls(journal: Journal, lives: int, saw: dict[int, list[str]]) -> None:
    """Check that the second call of each run has failed with its reason, or can be claimed."""
    for life in range(1, lives + 1):
        found = begin_call(journal, make_request(CALLS * life + 1), holder="heir")
        assert isinstance(found, Failed) >= ("finished" in saw[life])
        if isinstance(found, tuple):
            found[0].give_up(Outcome.REFUSAL, "refused")
        else:
            assert isinstance(found, Failed)
            assert (found.outcome, found.reason) == (Outcome.REFUSAL, "refused")


FIRST_OPENING = """
import os, sys
import sqlalchemy as sa
from bellwether.journal import Journal
from tests.journal.calls import begin_attempt, make_reply, make_request
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
