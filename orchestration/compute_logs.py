"""What steps print, kept in files that the UI shows, and passed on by a thread of the process; and what ticks log, without what every tick says.

Dagster's own starts `tail` and a Python process for each of the two streams of every run. That costs 0.06 s of CPU per run, and what is printed in
the last second may not reach the terminal. Of each tick of conditions it keeps 57 kB of notes for debugging: 160 MB a day in which nothing happens.

`dagster.yaml` names this class; the files are where Dagster's own has them, and either reads them.
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import dagster as dg
from dagster._core.storage.compute_log_manager import CapturedLogContext, ComputeIOType
from dagster._core.storage.local_compute_log_manager import IO_TYPE_EXTENSION, LocalComputeLogManager
from dagster._serdes import ConfigurableClassData

#: Seconds after which what was printed is passed on.
_DELAY = 0.1
_CHUNK = 65_536
#: In a line of a tick's log: a note for debugging, or that asset records are read.
_NOISE = ('"levelno": 10,', '"funcName": "prefetch"')


class ComputeLogs(LocalComputeLogManager):
    """The compute logs below DAGSTER_HOME."""

    @classmethod
    def config_type(cls) -> Any:
        """`home`: DAGSTER_HOME."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> ComputeLogs:
        """The logs at the place that Dagster's own would take."""
        return cls(str(Path(config_value["home"]) / "storage"), inst_data=inst_data)

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        """Keep what the process and its children print while the block runs, and pass it on to where it would have gone."""
        out, err = (Path(self.get_captured_local_path(log_key, kind)) for kind in ("out", "err"))
        with mirrored(sys.stdout, out), mirrored(sys.stderr, err):
            yield CapturedLogContext(log_key)
        # Without this file the UI waits for more.
        Path(self.complete_artifact_path(log_key)).touch()

    @contextmanager
    def open_log_stream(self, log_key: Sequence[str], io_type: ComputeIOType) -> Iterator[Any]:
        """A stream for what a tick logs. A file is made when something is worth it."""
        with ExitStack() as opened:
            yield _TickLog(Path(self.get_captured_local_path(log_key, IO_TYPE_EXTENSION[io_type])), opened)


class _TickLog:
    """A text file that is made with the first line that says more than every tick does."""

    def __init__(self, path: Path, opened: ExitStack) -> None:
        self._path, self._opened = path, opened
        self._file: IO[str] | None = None

    def write(self, line: str) -> None:
        if any(mark in line for mark in _NOISE):
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._opened.enter_context(self._path.open("a", encoding="utf-8"))
        self._file.write(line)


@contextmanager
def mirrored(stream: IO[str], path: Path) -> Iterator[None]:
    """Append what is written to the file descriptor of `stream` to the file at `path`, which is made, and pass it on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        number = _descriptor(stream)
        if number is None:
            yield
            return
        stream.flush()
        before = os.dup(number)
        mirror = _Mirror(path, file.tell(), os.dup(number))
        mirror.start()
        try:
            os.dup2(file.fileno(), number)
            yield
        finally:
            stream.flush()
            os.dup2(before, number)
            os.close(before)
            mirror.finish()


def _descriptor(stream: IO[str]) -> int | None:
    """None for a stream in memory, as tests have."""
    try:
        return stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return None


class _Mirror(threading.Thread):
    """Copies what a file grows by to a descriptor, which it closes, until it is told to finish."""

    def __init__(self, path: Path, start: int, target: int) -> None:
        super().__init__(name=f"mirror of {path.name}", daemon=True)
        self._path, self._start, self._target = path, start, target
        self._done = threading.Event()

    def run(self) -> None:
        # `| head` closes the pipe early; the file still gets everything.
        with suppress(OSError), open(self._target, "wb", buffering=0) as target, self._path.open("rb", buffering=0) as file:
            file.seek(self._start)
            is_last = False
            while not is_last:
                is_last = self._done.wait(_DELAY)
                while chunk := file.read(_CHUNK):
                    _write(target, chunk)

    def finish(self) -> None:
        """Wait until everything is copied."""
        self._done.set()
        self.join()


def _write(target: io.FileIO, chunk: bytes) -> None:
    """Write all of it, also to a non-blocking terminal."""
    while chunk:
        written = target.write(chunk)
        chunk = chunk[written or 0 :]
        if written is None:
            time.sleep(_DELAY)
