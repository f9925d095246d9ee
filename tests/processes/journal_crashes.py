"""A program that is killed at every step: `python -m tests.processes.journal_crashes URL LOG statements|lines STRIDE`.

Each run makes its own calls and is killed STRIDE steps later than the previous one, until a run survives. LOG records the effects visible outside.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

import bellwether.journal.journal
from bellwether.journal import Journal, Outcome
from tests.journal.calls import begin_attempt, claim_attempt, make_reply, make_request

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
    claim, attempt = claim_attempt(journal, make_request(CALLS * life), f"life {life}", estimate=100)
    saw(f"{life} asked 1")
    attempt.fail(Outcome.MALFORMED, "no JSON", make_reply("?", cost=10))
    claim.release("no JSON")
    attempt = begin_attempt(journal, make_request(CALLS * life), f"life {life}", estimate=100)
    saw(f"{life} asked 2")
    attempt.answer(make_reply(f"life {life}", cost=20))
    saw(f"{life} stored")
    second, attempt = claim_attempt(journal, make_request(CALLS * life + 1), f"life {life}", estimate=100)
    attempt.fail(Outcome.REFUSAL, "no", make_reply("no", cost=30))
    second.give_up(Outcome.REFUSAL, "refused")
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


if __name__ == "__main__":
    main(*sys.argv[1:])
