"""Import of captures, which are streams recorded by other programs, as recordings. Each import of a capture writes the same bytes."""

from __future__ import annotations

import errno
import math
import os
import secrets
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bellwether import __version__
from bellwether.errors import ConfigError
from bellwether.files import write_durably
from bellwether.places import is_stored
from bellwether.recordings.captures import Capture, event_ticker, find_captures
from bellwether.recordings.exchange_times import format_time, read_exchange_time
from bellwether.recordings.framing import CapturedMessage
from bellwether.recordings.recorder import Recorder, WriteSchedule
from bellwether.recordings.recording import (
    ABOUT,
    DONE,
    Recording,
    RecordingRequest,
    RecordingStatus,
    check_name,
    dump_about,
    is_locked,
    store_recording,
)
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, Frame, parse_message, read_body, read_ticker
from bellwether.venues.kalshi.stream.protocol import CHANNELS

_DRAFTS = ".importing"
_PACE = WriteSchedule(flush_seconds=math.inf, segment_seconds=math.inf)
#: Channel by message type where the names differ, and all message types of a channel.
_CHANNELS = {SNAPSHOT: DELTA}
_PARTS = frozenset({SNAPSHOT, *CHANNELS})


class _CaptureSurvey:
    """Summary of a capture: markets, channels, and times of the first and the last message (ns since 1970, UTC) if known."""

    def __init__(self) -> None:
        self.tickers: set[str] = set()
        self.channels: set[str] = set()
        self.first: int | None = None
        self._latest: tuple[CapturedMessage, dict[str, Any]] | None = None

    def take(self, received: CapturedMessage) -> None:
        """Add a message to the summary."""
        message = parse_message(received.data)
        kind, body = message.get("type"), read_body(message)
        if kind in _PARTS:
            self.channels.add(_CHANNELS.get(kind, kind))
            if (ticker := read_ticker(body)) is not None:
                self.tickers.add(ticker)
        if received.received_at is not None or "ts" in body:
            self._latest = (received, body)
            if self.first is None:
                self.first = self.last

    @property
    def last(self) -> int | None:
        """Time of the last message that states a time."""
        if self._latest is None:
            return None
        received, body = self._latest
        return read_exchange_time(body) if received.received_at is None else received.received_at


def import_captures(root: Path, path: Path, *, name: str | None = None) -> list[Recording]:
    """Import each capture in `path`, a file or a folder, as a recording below `root`, and return the recordings.

    name: of the recording; by default that of the capture. A capture that is already a recording is left unchanged. Raises `ConfigError` when
    no capture is found, when one name is given for several, or when a name is taken.
    """
    captures = find_captures(path)
    if name is not None and len(captures) > 1:
        raise ConfigError(f"importing {path.name}: one name is given for {len(captures)} captures; leave it out, or import single files")
    return [make_recording(root, capture, check_name(capture.name if name is None else name)) for capture in captures]


def make_recording(root: Path, capture: Capture, name: str) -> Recording:
    """Write a capture as the recording `name` below `root`, or return the recording if it was imported before.

    Raises `ConfigError` if the name belongs to the recording of another capture.
    """
    digests = capture.digests()
    target = root / name
    if is_stored(target):
        if (target / DONE).is_file():
            return _find_existing(target, capture, digests)
        with TemporaryDirectory(prefix="bellwether-") as folder:
            _write(Path(folder, name), capture, digests)
            return store_recording(Path(folder, name), target)
    if target.exists():
        return _find_existing(target, capture, digests)
    draft = _create_draft(root) / name
    try:
        _write(draft, capture, digests)
        os.rename(draft, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # Another process has written it meanwhile.
        return _find_existing(target, capture, digests)
    finally:
        shutil.rmtree(draft.parent, ignore_errors=True)
    return Recording(target)


def _find_existing(target: Path, capture: Capture, digests: dict[str, str]) -> Recording:
    """Return the recording in `target`. Raises `ConfigError` if it was made from files with other digests than the capture's."""
    existing = Recording(target)
    if existing.about.capture == digests and existing.status is RecordingStatus.FINISHED:
        return existing
    raise ConfigError(f"importing {capture.name}: the name {target.name} is taken by another recording; choose another one")


def _create_draft(root: Path) -> Path:
    """Create a temporary folder of this process below `root`, and remove those that killed processes left."""
    drafts = root / _DRAFTS
    for draft in drafts.glob("*/*"):
        if not is_locked(draft):
            shutil.rmtree(draft.parent, ignore_errors=True)
    folder = drafts / secrets.token_hex(4)
    folder.mkdir(parents=True)
    return folder


def _write(folder: Path, capture: Capture, digests: dict[str, str]) -> None:
    survey = _CaptureSurvey()
    with Recorder(folder, _build_request(capture, survey, digests), pace=_PACE) as recorder:
        for ordinal, received in enumerate(capture.messages()):
            survey.take(received)
            recorder.write(Frame(received.received_at, received.connection, ordinal, received.data))
        write_durably(folder / ABOUT, dump_about(_build_request(capture, survey, digests)))
        recorder.finish("imported", ended_at="" if survey.last is None else format_time(survey.last))


def _build_request(capture: Capture, survey: _CaptureSurvey, digests: dict[str, str]) -> RecordingRequest:
    tickers = tuple(sorted(survey.tickers))
    return RecordingRequest(
        venue="kalshi",
        source=f"import: {capture.form}",
        events=tuple(sorted(set(map(event_ticker, tickers)))),
        tickers=tickers,
        channels=tuple(sorted(survey.channels)),
        started_at=None if survey.first is None else format_time(survey.first),
        software=f"bellwether {__version__}",
        partial=capture.partial,
        use_yes_price=capture.use_yes_price,
        capture=digests,
    )
