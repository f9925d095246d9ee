"""Writer of recordings, which only appends whole lines.

Lines survive a crash of the recorder, synced lines a crash of the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from bellwether.errors import ConfigError, LakeError
from bellwether.files import sync, try_lock, write_durably
from bellwether.recordings.recording import (
    ABOUT,
    DONE,
    LOCK,
    Recording,
    RecordingRequest,
    RecordingStatus,
    dump_about,
    dump_json,
    format_frame,
)
from bellwether.venues.kalshi.stream.frame import START, Frame, StreamStart


class Recorder:
    """Writer of frames to a recording, as a context manager. Unless `finish` is called, the recording is interrupted and can be continued.

    Opening an interrupted recording begins a new segment; frames continue at `next`.

    Attributes:
        folder: of the recording; created if missing.
        about: the request; a continued recording keeps the first one.

    Raises `ConfigError` when the recording is finished, has other markets, or is being written by another recorder.
    """

    def __init__(self, folder: Path, about: RecordingRequest) -> None:
        self.folder = folder
        self.frames = 0
        self.bytes = 0
        self._failure: LakeError | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _acquire_lock(folder)
        try:
            self._open(about)
        except BaseException:
            self._lock.close()
            raise

    def _open(self, about: RecordingRequest) -> None:
        if not (self.folder / ABOUT).is_file():
            write_durably(self.folder / ABOUT, dump_about(about))
        recording = Recording(self.folder)
        _check_continues(recording, about)
        self._last = last = recording.last()
        segments = recording.segments
        self.next = StreamStart(last.connection + 1, last.ordinal + 1) if last else START
        self._path = self.folder / f"{int(segments[-1].stem) + 1 if segments else 1:06d}.ndjson"
        self._file = FileIO(self._path, "xb")
        sync(self.folder)

    def write(self, frame: Frame) -> None:
        """Append a frame. Raises `LakeError` when that fails, and on every later call."""
        if self._failure:
            raise self._failure
        line = format_frame(frame)
        view = memoryview(line)
        with self._final_failure():
            while view:
                view = view[self._file.write(view) :]
        self._last = frame
        self.frames += 1
        self.bytes += len(line)

    @contextmanager
    def _final_failure(self) -> Iterator[None]:
        """Turn a failed write into a `LakeError` and make later calls raise it again, so that no frame follows missing ones."""
        try:
            yield
        except OSError as error:
            self._failure = LakeError(f"writing {self._path}: {error.strerror}; make room and record under the same name again to continue")
            raise self._failure from error

    def sync(self) -> None:
        """Write all lines to the disk; may run in another thread during `write`. The end of the recording syncs too.

        Raises `LakeError` when that fails; `write` then raises it too.
        """
        try:
            handle = os.dup(self._file.fileno())
        except (ValueError, OSError):
            return
        try:
            with self._final_failure():
                os.fsync(handle)
        finally:
            os.close(handle)

    def _end_segment(self) -> None:
        try:
            self.sync()
        finally:
            self._file.close()

    def finish(self, reason: str, *, ended_at: str | None = None) -> None:
        """Finish the recording with `done.json`: its end (`ended_at`, ISO in UTC; now by default), the reason and the counts.

        Raises `LakeError` after a failed write or sync: the recording is then interrupted, not finished.
        """
        if self._failure:
            raise self._failure
        self._end_segment()
        recording, last = Recording(self.folder), self._last
        end = {
            "ended_at": ended_at or datetime.now(UTC).isoformat(),
            "reason": reason,
            "frames": last.ordinal + 1 if last else 0,
            "connections": last.connection if last else 0,
            "segments": {path.name: path.stat().st_size for path in recording.segments},
        }
        write_durably(self.folder / DONE, dump_json(end))

    def close(self) -> None:
        """Sync and release the lock; after `finish`, only release the lock. May be called repeatedly."""
        try:
            if not self._file.closed:
                self._end_segment()
        finally:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _acquire_lock(folder: Path, *, tries: int = 20) -> FileIO:
    """Lock the recording until the returned file is closed. Retries, because readers lock a recording for an instant to see its status."""
    lock = FileIO(folder / LOCK, "ab+")
    for _ in range(tries):
        if try_lock(lock.fileno()):
            return lock
        time.sleep(0.01)
    lock.close()
    raise ConfigError(f"recording {folder.name}: another recorder is writing it; wait for its end, or choose another name")


def _check_continues(recording: Recording, about: RecordingRequest) -> None:
    """Check that a request can continue a recording. Raises `ConfigError` if the recording is finished or has other markets."""
    if recording.status is RecordingStatus.FINISHED:
        raise ConfigError(f"recording {recording.name}: already finished; choose another name")
    first = recording.about
    begun, requested = (sorted(set(request.events or request.tickers)) for request in (first, about))
    if (first.venue, begun) != (about.venue, requested):
        raise ConfigError(
            f"recording {recording.name}: it was begun for {', '.join(begun)}, not for {', '.join(requested)}; choose another name"
        )
