"""A program that is killed at every step: `python -m tests.processes.journal_crashes URL LOG statements|lines STRIDE`.

Each run makes its own calls and is killed STRIDE steps later than the previous one, until a run survives. LOG records the effects visible outside.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa

import bellwether.journal.journal
from bellwether.journal.journal import Attempt, Journal
from bellwether.journal.values import Answered, Failed, Outcome
from tests.unit.journal.calls import TIMEOUT, Clock, begin_attempt, begin_call, make_reply, make_request

ROOT = Path(__file__).resolve().parents[2]
CODE = str(Path(bellwether.journal.journal.__file__).parent)
#: Calls per run: one is answered at the second attempt, one is given up.
CALLS = 2


class Countdown:
    """Kill this process without cleanup after `last` steps."""

    def __init__(self, last: int) -> None:
        self._left = last

    def step(self, *_: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event == "line":
            self.step()
        return self.trace


def live(journal: Journal, life: int, saw: Callable[[str], object]) -> None:
    """Make the calls of one run. `saw` receives a message when money is spent and when the journal has confirmed an answer."""
    attempt = begin_attempt(journal, make_request(CALLS * life), estimate=100)
    saw(f"{life} asked 1")
    attempt.fail(Outcome.MALFORMED, "no JSON", make_reply("?", cost=10))
    attempt = begin_attempt(journal, make_request(CALLS * life), estimate=100)
    saw(f"{life} asked 2")
    attempt.answer(make_reply(f"life {life}", cost=20))
    saw(f"{life} stored")
    attempt = begin_attempt(journal, make_request(CALLS * life + 1), estimate=100)
    attempt.fail(Outcome.REFUSAL, "refused", make_reply("no", cost=30), final=True)
    saw(f"{life} finished")


def run(url: str, log: int, life: int, points: str, stride: int) -> None:
    """Execute one run with its own connections."""
    countdown = Countdown(life * stride)
    with Journal(url) as journal:
        journal.database.open()
        if points == "statements":
            sa.event.listen(journal.database._engine, "after_cursor_execute", countdown.step)
        else:
            sys.settrace(countdown.trace)
        live(journal, life, lambda words: os.write(log, f"{words}\n".encode()))
        sys.settrace(None)


def main(url: str, path: str, points: str, stride: str) -> None:
    with Journal(url) as journal:
        begin_attempt(journal, make_request(10**6)).answer(make_reply())
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for life in range(1, 5000):
        child = os.fork()
        if child == 0:
            try:
                run(url, log, life, points, int(stride))
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            sys.stdout.write(f"{life}\n")
            sys.stdout.flush()
            sys.exit(os.WEXITSTATUS(status))


def killed_at_every(points: str, stride: int, url: str, log: Path) -> tuple[int, dict[int, list[str]]]:
    """Return the number of the first run that survived, and the effects of each run seen outside."""
    command = [sys.executable, "-m", "tests.processes.journal_crashes", url, str(log), points, str(stride)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr
    saw: dict[int, list[str]] = defaultdict(list)
    for line in log.read_text().splitlines():
        life, words = line.split(" ", 1)
        saw[int(life)].append(words)
    return int(found.stdout), saw


def check_kills(points: str, stride: int, url: str, log: Path) -> None:
    """Kill processes at every `stride`-th step, and check what they leave."""
    lives, saw = killed_at_every(points, stride, url, log)
    assert lives > 4
    assert saw[lives] == ["asked 1", "asked 2", "stored", "finished"]
    clock = Clock(datetime.now(UTC) + timedelta(hours=1))
    with Journal(url, clock=clock) as journal:
        before = journal.export()["attempts"]
        for life in range(1, lives + 1):
            check(journal, life, saw[life], before)
        clock.advance(TIMEOUT * 2)
        check_second_calls(journal, lives, saw)
        check_accounts(journal, lives)


def go_on(journal: Journal, life: int) -> tuple[Answered, bool]:
    """Continue with the first call of a run in a new process. Returns the answer, and whether a request was needed."""
    found = begin_call(journal, make_request(CALLS * life), estimate=100)
    return (found, False) if isinstance(found, Answered) else (found.answer(make_reply("heir", cost=40)), True)


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


def check_second_calls(journal: Journal, lives: int, saw: dict[int, list[str]]) -> None:
    """Check that the second call of each run has failed with its reason, or is open."""
    for life in range(1, lives + 1):
        found = begin_call(journal, make_request(CALLS * life + 1))
        assert isinstance(found, Failed) >= ("finished" in saw[life])
        if isinstance(found, Attempt):
            found.fail(Outcome.REFUSAL, "refused", make_reply("no", cost=30), final=True)
        else:
            assert isinstance(found, Failed)
            assert (found.outcome, found.reason) == (Outcome.REFUSAL, "refused")


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


if __name__ == "__main__":
    main(*sys.argv[1:])
