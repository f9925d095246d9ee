"""A recording: a folder, local or in an object store, with the request, segments of frames, and its end."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import ConfigError, LakeError
from bellwether.files import local_copy, try_lock
from bellwether.recordings import framing
from bellwether.venues.kalshi.stream.frame import Frame

ABOUT, DONE, LOCK = "recording.json", "done.json", "lock"
SEGMENT = re.compile(r"\d{6,}\.ndjson")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_DEVICE = re.compile(r"CON|PRN|AUX|NUL|(COM|LPT)[0-9]", re.IGNORECASE)


class RecordingStatus(StrEnum):
    """State of a recording: being written, broken off (it can be continued), or finished."""

    RECORDING = "recording"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """Request of a recording.

    source: websocket, rest, or what an imported capture was. started_at: ISO time, UTC, None where a capture does not tell.
    partial: the subscription carried other markets whose frames are not here, so that holes in the numbers are expected.
    use_yes_price: whether the subscription asked for NO levels in prices of YES; None where that is unknown.
    capture: paths and SHA-256 of the files that were imported.
    """

    venue: str
    source: str
    events: tuple[str, ...]
    tickers: tuple[str, ...]
    channels: tuple[str, ...]
    software: str
    started_at: str | None = None
    partial: bool = False
    use_yes_price: bool | None = None
    capture: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TornSegment:
    """The end of a segment that a killed recorder left without its end of line: it is not read."""

    segment: str
    bytes: int


class Recording:
    """Reads a recording, finished or not. Raises `ConfigError` for a folder without one.

    A recording that is being written is read up to its last whole line. version: ETag of a stored recording's last file, as a listing returned it: its small
    files are then read once per process.
    """

    def __init__(self, folder: Path, version: str = "") -> None:
        self.folder, self._version = folder, version
        if not version and not (folder / ABOUT).is_file():
            raise ConfigError(
                f"reading the recording {folder.name}: {folder} holds no {ABOUT}; `bellwether recordings` lists what there is"
            )

    @property
    def name(self) -> str:
        """Its name, the partition of the tables made from it."""
        return self.folder.name

    @property
    def about(self) -> RecordingRequest:
        """The request. Raises `LakeError` when the file is damaged."""
        found = self._json(ABOUT)
        names = {field.name for field in fields(RecordingRequest)}
        given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items() if name in names}
        try:
            return RecordingRequest(**given)
        except TypeError as error:
            raise LakeError(f"reading {self.folder / ABOUT}: {error}; it was not written by this version") from None

    @property
    def done(self) -> dict[str, Any] | None:
        """Its end: ended_at, reason, frames, segments and connections; None while it has not."""
        return self._json(DONE) if self._is_finished else None

    @property
    def _is_finished(self) -> bool:
        return bool(self._version) or (self.folder / DONE).is_file()

    def _json(self, name: str) -> dict[str, Any]:
        return _kept_json(self.folder / name, self._version) if self._version else read_json(self.folder / name)

    @property
    def status(self) -> RecordingStatus:
        """Return its state: being written, broken off or finished."""
        if self._is_finished:
            return RecordingStatus.FINISHED
        return RecordingStatus.RECORDING if is_locked(self.folder) else RecordingStatus.INTERRUPTED

    @property
    def segments(self) -> list[Path]:
        """Files of frames in order."""
        return sorted(
            (path for path in local_copy(self.folder, DONE).iterdir() if SEGMENT.fullmatch(path.name)), key=lambda path: int(path.stem)
        )

    @property
    def size(self) -> int:
        """Bytes of its segments."""
        done = self.done
        return sum(path.stat().st_size for path in self.segments) if done is None else sum(done["segments"].values())

    @property
    def torn(self) -> list[TornSegment]:
        """Ends of segments that are not read."""
        found = ((path.name, _torn_bytes(path)) for path in self.segments)
        return [TornSegment(name, size) for name, size in found if size]

    def frames(self) -> Iterator[Frame]:
        """All frames in order of arrival, one at a time. Raises `LakeError` for a whole line of another form."""
        for path in self.segments:
            yield from read_segment(path)

    def last(self) -> Frame | None:
        """The last whole frame; None in a recording without any."""
        for path in reversed(self.segments):
            if found := deque(read_segment(path), maxlen=1):
                return found[0]
        return None


def read_segment(path: Path) -> Iterator[Frame]:
    """The frames of one segment; a last line without its end is dropped."""
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                return
            frame = framing.parse_frame(text)
            if frame is None:
                raise LakeError(
                    f"reading line {number} of {path}: it is no line of a recording; the file was damaged or written by something else"
                )
            yield frame


def check_name(name: str, what: str = "a recording") -> str:
    """Return `name` if it can be the name of a folder on every system. Raises `ConfigError` otherwise."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ConfigError(
            f"naming {what} {name!r}: use up to 128 letters, digits, '.', '_', '+' and '-', a letter or digit first and no '.' last"
        )
    if _DEVICE.fullmatch(name.partition(".")[0]):
        raise ConfigError(f"naming {what} {name!r}: Windows reserves this name; choose another one")
    return name


def dump_about(about: RecordingRequest) -> bytes:
    """The bytes of recording.json."""
    return dump_json({name: value for name, value in asdict(about).items() if value is not None})


def dump_json(value: Any) -> bytes:
    """JSON for people and programs."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_json(path: Path) -> dict[str, Any]:
    """A small file of a recording. Raises `LakeError` when it is damaged."""
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise LakeError(f"reading {path}: it is no JSON ({error}); restore it or remove the recording") from None
    return found


@lru_cache(maxsize=10_000)
def _kept_json(path: Path, version: str) -> dict[str, Any]:
    return read_json(path)


def is_locked(folder: Path) -> bool:
    """Return whether the recording in this folder is being written."""
    path = folder / LOCK
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return not try_lock(file, shared=True)


def _torn_bytes(path: Path, block: int = 1 << 16) -> int:
    """Bytes behind the last end of line."""
    with path.open("rb") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - block)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return size - (start + found + 1)
            end = start
    return size
