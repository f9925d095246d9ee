"""Protocol between the comparison and its workers: one JSON line per request and per reply. It needs only the standard library, since peers import
it too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Handler = Callable[..., dict[str, Any]]


def serve(handlers: dict[str, Handler]) -> None:
    """Answer requests from standard input until it ends. A request {"do": name, …} calls `handlers[name]`. What a handler prints goes to standard
    error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Run `work` after a garbage collection. Returns the CPU seconds that all threads of this process used, and the result of `work`."""
    gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peak_mb() -> float:
    """Return the peak memory of this process in MB. On Linux `ru_maxrss` is not used, since it includes the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class Worker:
    """Process that measures one engine on request. log: file for the standard error of the process."""

    def __init__(self, command: Sequence[str | Path], log: Path, cwd: Path | None = None) -> None:
        self.log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=cwd
            )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the reply. do: name of the measurement. Raises `RuntimeError` with the worker's message if it failed or ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"it ended with code {self._process.wait()}; see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """Close the standard input of the process, upon which the process ends."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
