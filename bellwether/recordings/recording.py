"""Recording: a folder, local or in an object store, with its request, files of frames (segments), and a final file once it is finished.

An object store contains only finished recordings. A line of a segment is a JSON object with a verbatim frame, its time, connection and number.
A frame that is not one line of UTF-8 between braces is stored as `base64`.
"""

from __future__ import annotations

import gzip
import re
import shutil
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bellwether.errors import ConfigError, LakeError
from bellwether.files import create, folders, local_copy, open_bytes, try_lock, upload
from bellwether.places import is_stored
from bellwether.recordings.exchange_times import format_time
from bellwether.venues.kalshi.stream.frame import Frame

_LINE = re.compile(rb'\{"received_at":(\d+|null),"connection":(\d+),"ordinal":(\d+),"(frame|base64)":')


class CapturedMessage(NamedTuple):
    """Message of a capture: time of receipt (ns since 1970, UTC; None if unknown), number of the connection, and bytes."""

    received_at: int | None
    connection: int
    data: bytes


def format_frame(frame: Frame) -> bytes:
    """Return a frame as a line of a recording, including the end of line."""
    form, data = b"frame", frame.data
    if not (_is_text(data) and data[:1] == b"{" and data[-1:] == b"}" and b"\n" not in data):
        form, data = b"base64", b'"%b"' % b64encode(data)
    at = b"null" if frame.received_at is None else b"%d" % frame.received_at
    return b'{"received_at":%b,"connection":%d,"ordinal":%d,"%b":%b}\n' % (at, frame.connection, frame.ordinal, form, data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse_frame(line: bytes) -> Frame | None:
    """Parse a line of a recording, including its end of line, to a frame. None for any other line."""
    head = _LINE.match(line)
    if head is None or line[-2:] != b"}\n":
        return None
    at, connection, ordinal, form = head.groups()
    data = line[head.end() : -2]
    if form == b"base64":
        try:
            data = b64decode(data.removeprefix(b'"').removesuffix(b'"'), validate=True)
        except ValueError:
            return None
    return Frame(None if at == b"null" else int(at), int(connection), int(ordinal), data)


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, without blank ones. Raises `LakeError` for a truncated or damaged file."""
    try:
        with open_bytes(path) as file:
            for line in file:
                if text := line.strip():
                    yield text
    except (EOFError, gzip.BadGzipFile) as error:
        raise LakeError(f"importing {path}: the file is truncated or damaged ({error}); copy it again") from None


#: Type of the frame in which the recorder stores the close that a market announced at the time of recording.
WATCHED = "watch_market"


def watch_frame(ticker: str, close: int) -> bytes:
    """Return the frame with the announced close of a market, in ns since 1970, UTC.

    The venue overwrites the close of a market that ends early, so the earlier value is not available later.
    """
    body = {"market_ticker": ticker, "close_time": format_time(close).replace("+00:00", "Z")}
    return orjson.dumps({"type": WATCHED, "msg": body})


ABOUT, DONE, LOCK = "recording.json", "done.json", "lock"
SEGMENT = re.compile(r"\d{6,}\.ndjson")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_DEVICE = re.compile(r"CON|PRN|AUX|NUL|(COM|LPT)[0-9]", re.IGNORECASE)


class RecordingStatus(StrEnum):
    """State of a recording: being written, interrupted (can be continued), or finished."""

    RECORDING = "recording"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """Request and origin of a recording.

    source: websocket, rest, or the form of an imported capture. started_at: ISO time, UTC; None if a capture does not state it.
    partial: the subscription carried other markets whose frames are missing, so that holes in the numbers are expected.
    use_yes_price: whether the subscription requested NO levels in prices of YES; None if unknown.
    capture: paths and SHA-256 of the imported files.
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


class Recording:
    """Reader of a recording, finished or not. Raises `ConfigError` for a folder that is not a recording.

    A recording that is being written is read up to its last whole line. version: ETag of a stored recording's last file, as returned by a
    listing; its small files are then read once per process.
    """

    def __init__(self, folder: Path, version: str = "") -> None:
        self.folder, self._version = folder, version
        if not version and not (folder / ABOUT).is_file():
            raise ConfigError(
                f"reading the recording {folder.name}: {folder} has no {ABOUT}; `bellwether episode build` lists the recordings"
            )

    @property
    def name(self) -> str:
        """Name of the recording, which is also its partition in tables."""
        return self.folder.name

    @property
    def about(self) -> RecordingRequest:
        """Request of the recording: its markets, channels and origin. Raises `LakeError` if the file is damaged."""
        names = {field.name for field in fields(RecordingRequest)}
        content = self._json(ABOUT).items()
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in content if name in names}
        try:
            return RecordingRequest(**values)
        except TypeError as error:
            raise LakeError(f"reading {self.folder / ABOUT}: {error}; it was not written by this version") from None

    @property
    def done(self) -> dict[str, Any] | None:
        """End of the recording (`done.json`): ended_at, reason, and counts of frames, segments and connections. None if unfinished."""
        return self._json(DONE) if self._is_finished else None

    @property
    def _is_finished(self) -> bool:
        return bool(self._version) or (self.folder / DONE).is_file()

    def _json(self, name: str) -> dict[str, Any]:
        return _read_cached_json(self.folder / name, self._version) if self._version else read_json(self.folder / name)

    @property
    def status(self) -> RecordingStatus:
        """State of the recording: being written, interrupted or finished."""
        if self._is_finished:
            return RecordingStatus.FINISHED
        return RecordingStatus.RECORDING if is_locked(self.folder) else RecordingStatus.INTERRUPTED

    @property
    def segments(self) -> list[Path]:
        """Files with frames, in order."""
        return sorted(
            (path for path in local_copy(self.folder, DONE).iterdir() if SEGMENT.fullmatch(path.name)), key=lambda path: int(path.stem)
        )

    @property
    def size(self) -> int:
        """Size of the segments in bytes."""
        done = self.done
        return sum(path.stat().st_size for path in self.segments) if done is None else sum(done["segments"].values())

    def frames(self) -> Iterator[Frame]:
        """Yield all frames in order of arrival. Raises `LakeError` for a complete line that is not a frame."""
        for path in self.segments:
            yield from read_segment(path)

    def last(self) -> Frame | None:
        """Return the last complete frame; None in a recording without frames."""
        for path in reversed(self.segments):
            if frames := deque(read_segment(path), maxlen=1):
                return frames[0]
        return None


def read_segment(path: Path) -> Iterator[Frame]:
    """Yield the frames of one segment, without an incomplete last line. Raises `LakeError` for a complete line that is not a frame."""
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                return
            frame = parse_frame(text)
            if frame is None:
                raise LakeError(
                    f"reading line {number} of {path}: the line is not a frame of a recording; the file is damaged or was written by another program"
                )
            yield frame


def check_name(name: str, kind: str = "a recording") -> str:
    """Return `name` if it is a valid folder name on every operating system; otherwise raise `ConfigError`. kind: for the error."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ConfigError(
            f"naming {kind} {name!r}: use up to 128 letters, digits, '.', '_', '+' and '-', a letter or digit first and no '.' last"
        )
    if _DEVICE.fullmatch(name.partition(".")[0]):
        raise ConfigError(f"naming {kind} {name!r}: Windows reserves this name; choose another one")
    return name


def dump_about(about: RecordingRequest) -> bytes:
    """Return the content of `recording.json`."""
    return dump_json({name: value for name, value in asdict(about).items() if value is not None})


def dump_json(value: Any) -> bytes:
    """Return a value as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a recording. Raises `LakeError` if it is damaged."""
    try:
        content: dict[str, Any] = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise LakeError(f"reading {path}: it is not JSON ({error}); restore it or remove the recording") from None
    return content


@lru_cache(maxsize=10_000)
def _read_cached_json(path: Path, version: str) -> dict[str, Any]:
    return read_json(path)


def is_locked(folder: Path) -> bool:
    """Return True if the recording in this folder is being written."""
    path = folder / LOCK
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return not try_lock(file, shared=True)


# --- folders of recordings -----------------------------------------------------------------------------------------------


def list_recordings(root: Path) -> list[Recording]:
    """Return all recordings below `root`, sorted by name. Empty if the folder does not exist."""
    return [Recording(folder, version) for folder, version in folders(root, _marker(root)).items()]


def find_recording(root: Path, name: str) -> Recording:
    """Return the recording of this name. Raises `ConfigError` with the existing names if it does not exist."""
    if not (root / check_name(name) / _marker(root)).is_file():
        names = ", ".join(recording.name for recording in list_recordings(root)) or "none"
        raise ConfigError(f"looking for the recording {name!r}: below {root} there are {names}")
    return Recording(root / name)


def store_finished(local: Path, root: Path) -> list[Recording]:
    """Move the finished recordings below the folder `local` to the object store `root`, and return them. No effect if `root` is local.

    An identical recording there is kept; a different one of the same name raises `ConfigError`.
    """
    moved = []
    for recording in list_recordings(local) if is_stored(root) else []:
        if recording.status is not RecordingStatus.FINISHED:
            continue
        folder, target = recording.folder, root / recording.name
        about = (folder / ABOUT).read_bytes()
        if not create(target / ABOUT, about) and (target / ABOUT).read_bytes() != about:
            raise ConfigError(
                f"storing the recording {folder.name}: {target} is a different recording of the same name; rename {folder}, which the next "
                "`bellwether record` stores"
            )
        (folder / LOCK).unlink(missing_ok=True)
        upload(folder, target, DONE)
        shutil.rmtree(folder)
        moved.append(Recording(target))
    return moved


def _marker(root: Path) -> str:
    return DONE if is_stored(root) else ABOUT
