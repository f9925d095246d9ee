"""Ask a model that searches with a service: `python -m tests.processes.killed_search FOLDER ADDRESS [kill]`.

With `kill` the process is killed without cleanup when the response is stored and its results are not. The program prints the probability.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any

from bellwether.forecasting.tools import Tools
from bellwether.models.keys import Endpoint
from bellwether.models.transport import ModelCall
from tests.unit.forecasting.test_elicitation_run import YES
from tests.unit.forecasting.test_searches import SEARCHED, SearchedWire, ask
from tests.unit.models.stub import KEY
from tests.unit.replay.llm.scripted_models import answer


def main(folder: Path, address: str, *, kills: bool) -> None:
    def script(call: ModelCall) -> Any:
        return answer(content=YES) if call.messages[-1]["role"] == "tool" else answer([SEARCHED])

    if kills:
        Tools.execute = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, return-value, method-assign]
    platform.platform = lambda *_: "Linux"  # type: ignore[assignment]
    found = asyncio.run(ask(folder, SearchedWire(script, Endpoint(address, KEY))))
    sys.stdout.write(f"{found['p_yes']}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], kills=sys.argv[3:] == ["kill"])
