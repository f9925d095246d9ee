"""Kill runs in the middle: `python -m tests.processes.killed_runs FOLDER REQUESTS...`.

The run in FOLDER/N is killed without cleanup when it sends request N. The program prints the exit code of each, as from `os.waitstatus_to_exitcode`.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path

from bellwether.models.response import AttemptResult
from tests.unit.replay.llm.scripted_models import Scripted, trade, trading


def main(folder: Path, last: int) -> None:
    numbers = itertools.count(1)

    def says(state: str, number: int) -> AttemptResult:
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return trading(state, number)

    trade(Scripted(folder / "journal.db", says), folder / "run.jsonl")


if __name__ == "__main__":
    for requests in sys.argv[2:]:
        folder = Path(sys.argv[1]) / requests
        folder.mkdir()
        if (child := os.fork()) == 0:
            main(folder, int(requests))
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
