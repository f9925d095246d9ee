"""Import of captures, which are streams recorded by other programs, as recordings. Each import of a capture writes the same bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from bellwether import __version__
from bellwether.errors import ConfigError
from bellwether.files import atomic_folder, write_durably
from bellwether.places import is_stored
from bellwether.recordings.captures import Capture, event_ticker, find_captures
from bellwether.recordings.exchange_times import format_time, read_exchange_time
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import ABOUT, DONE, LOCK, Recording, RecordingRequest, RecordingStatus, check_name, dump_about
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, Frame, parse_message, read_body, read_ticker
from bellwether.venues.kalshi.stream.protocol import CHANNELS

#: Channel by message type where the names differ, and all message types of a channel.
_CHANNELS = {SNAPSHOT: DELTA}
_PARTS = frozenset({SNAPSHOT, *CHANNELS})


def import_captures(root: Path, path: Path, *, name: str | None = None) -> list[Recording]:
    """Import each capture in `path`, a file or a folder, as a recording below `root`, and return the recordings.

    name: of the recording; by default that of the capture. A capture that is already a recording is left unchanged. Raises `ConfigError` when
    no capture is found, when one name is given for several, or when a name is taken.
    """
    captures = find_captures(path)
    if name is not None and len(captures) > 1:
        raise ConfigError(f"importing {path.name}: one name is given for {len(captures)} captures; leave it out, or import single files")
    return [_import_capture(capture, root / check_name(capture.name if name is None else name)) for capture in captures]


def _import_capture(capture: Capture, target: Path) -> Recording:
    digests = capture.digests()
    if (target / DONE if is_stored(target) else target).exists():
        existing = Recording(target)
        if existing.about.capture != digests or existing.status is not RecordingStatus.FINISHED:
            raise ConfigError(f"importing {capture.name}: the name {target.name} is taken by another recording; choose another one")
        return existing
    with atomic_folder(target, DONE) as draft:
        _write(draft, capture, digests)
    return Recording(target)


def _write(folder: Path, capture: Capture, digests: dict[str, str]) -> None:
    """Write the messages of a capture as a finished recording in `folder`."""
    tickers, channels = set[str](), set[str]()
    first = last = None
    about = RecordingRequest(
        venue="kalshi",
        source=f"import: {capture.form}",
        events=(),
        tickers=(),
        channels=(),
        software=f"bellwether {__version__}",
        partial=capture.partial,
        use_yes_price=capture.use_yes_price,
        capture=digests,
    )
    with Recorder(folder, about, flush_seconds=math.inf) as recorder:
        for ordinal, received in enumerate(capture.messages()):
            recorder.write(Frame(received.received_at, received.connection, ordinal, received.data))
            message = parse_message(received.data)
            kind, body = message.get("type"), read_body(message)
            if kind in _PARTS:
                channels.add(_CHANNELS.get(kind, kind))
                if (ticker := read_ticker(body)) is not None:
                    tickers.add(ticker)
            if received.received_at is not None or "ts" in body:
                last = read_exchange_time(body) if received.received_at is None else received.received_at
                first = last if first is None else first
        about = replace(
            about,
            events=tuple(sorted(set(map(event_ticker, tickers)))),
            tickers=tuple(sorted(tickers)),
            channels=tuple(sorted(channels)),
            started_at=None if first is None else format_time(first),
        )
        write_durably(folder / ABOUT, dump_about(about))
        recorder.finish("imported", ended_at="" if last is None else format_time(last))
    (folder / LOCK).unlink()
