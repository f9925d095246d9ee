"""A run that is killed in the middle: `python -m tests.replay.agents.llm.killed FOLDER REQUESTS` dies without a word when it sends that request."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path

from bellwether.models.wire.call import Result
from tests.replay.agents.llm.scripted import Scripted, trade, trading


def main(folder: Path, last: int) -> None:
    numbers = itertools.count(1)

    def says(state: str, number: int) -> Result:
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return trading(state, number)

    trade(Scripted(folder / "journal.db", says), folder / "run")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
