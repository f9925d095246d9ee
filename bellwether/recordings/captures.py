"""Captures, which are streams of Kalshi recorded by other programs: detection of the common file formats, reading of the messages, and import
as recordings. Each import of a capture writes the same bytes.

A message has a subscription (`sid`) and a sequence number (`seq`) within its subscription.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from bellwether import __version__
from bellwether.errors import ConfigError, LakeError
from bellwether.files import atomic_folder, open_bytes, write_durably
from bellwether.places import is_stored
from bellwether.recordings import order_events, wrapped_events
from bellwether.recordings.exchange_times import format_time, read_exchange_time
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import (
    ABOUT,
    DONE,
    LOCK,
    CapturedMessage,
    Recording,
    RecordingRequest,
    RecordingStatus,
    check_name,
    dump_about,
    read_lines,
)
from bellwether.venues.kalshi.stream.frame import CHANNELS, DELTA, SNAPSHOT, Frame, parse_message, read_body, read_envelope, read_ticker
from bellwether.venues.wire.times import END_SECOND


@dataclass(frozen=True, slots=True)
class Capture:
    """Files of one uninterrupted capture.

    form: how messages are stored in a file. partial: the files contain only some of the subscription's markets. messages: its messages in order.
    """

    name: str
    form: str
    files: tuple[Path, ...]
    partial: bool
    messages: Callable[[], Iterator[CapturedMessage]]

    @property
    def use_yes_price(self) -> bool | None:
        """True if the subscription requested NO levels in prices of YES, as stated next to the files; None if unstated or contradictory."""
        stated = {flag for path in self.files if (flag := _stated_flag(path)) is not None}
        return stated.pop() if len(stated) == 1 else None

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its path below their common folder."""
        folder = Path(os.path.commonpath([path.parent for path in self.files]))
        return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files}


def _stated_flag(path: Path) -> bool | None:
    """Read from a file's `.meta.json` whether its subscription requested NO levels in prices of YES; None if not stated.

    The flag is `use_yes_price` of `subscribe_cmd`.
    """
    try:
        meta = orjson.loads(path.with_name(f"{_remove_suffixes(path)}.meta.json").read_bytes())
        flag = meta["subscribe_cmd"]["params"]["use_yes_price"]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return flag if type(flag) is bool else None


def find_captures(path: Path) -> list[Capture]:
    """Find the captures in a file, or in a folder and its subfolders, by their content. Raises `ConfigError` if no file is a capture."""
    if not path.exists():
        raise ConfigError(f"importing a capture: {path} does not exist; check the path")
    if not path.is_dir() and not path.is_file():
        raise ConfigError(f"importing a capture: {path} is neither a file nor a folder; save the stream to a file first")
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    by_form: dict[str, list[Path]] = {}
    for file in files:
        form = _detect_form(file)
        if form is not None:
            by_form.setdefault(form, []).append(file)
    captures = [capture for form, members in by_form.items() for capture in _FORMS[form](members)]
    if not captures:
        forms = "lines of messages, lines with payload_json, a JSON object with a list of frames, or a CSV list of order events"
        raise ConfigError(f"importing a capture: {path} has no file of a known form ({forms})")
    return sorted(captures, key=lambda capture: capture.name)


# --- files -----------------------------------------------------------------------------------------------------------

MARKET_FILES, STREAM_FILE = "market files", "stream file"
MESSAGE_LINES, WRAPPED_EVENTS, FRAME_LIST, ORDER_EVENTS = "message lines", "wrapped events", "frame list", "order events"

_TICKER = re.compile(rb'"market_ticker"\s*:\s*"([^"]+)"')


def _detect_form(path: Path) -> str | None:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix == ".json":
        return FRAME_LIST if _read_frame_list(path) is not None else None
    if suffix == ".csv":
        return ORDER_EVENTS if order_events.is_order_events(path) else None
    if suffix not in (".ndjson", ".jsonl"):
        return None
    first = parse_message(next(read_lines(path), b""))
    if wrapped_events.is_wrapped(first):
        return WRAPPED_EVENTS
    return MESSAGE_LINES if "type" in first else None


def _first_tickers(path: Path) -> list[str]:
    """Return the first two tickers in a file, or the only one. A file with several has everything that the subscription sent."""
    tickers: dict[str, None] = {}
    with suppress(LakeError):  # The error about a damaged file is raised when it is read.
        for line in read_lines(path):
            if (match := _TICKER.search(line)) is not None:
                tickers[match[1].decode()] = None
                if len(tickers) > 1:
                    break
    return list(tickers)


def event_ticker(ticker: str) -> str:
    """Return the event of a market, derived from its ticker."""
    return ticker.rpartition("-")[0] or ticker


def _remove_suffixes(path: Path) -> str:
    return path.name.split(".")[0]


# --- a list of frames ------------------------------------------------------------------------------------------------


def _read_frame_list(path: Path) -> list[Any] | None:
    with open_bytes(path) as file:
        items = parse_message(file.read()).get("frames")
    is_valid = isinstance(items, list) and all(isinstance(item, dict) and isinstance(item.get("frame"), dict) for item in items)
    return items if is_valid and items else None


def _frame_lists(files: list[Path]) -> Iterator[Capture]:
    """Yield one capture per JSON file: an object with a list `frames`, each item with a time of receipt (received_ms) and a frame.

    Frames are written as compact JSON.
    """
    for path in files:

        def messages(path: Path = path) -> Iterator[CapturedMessage]:
            for item in _read_frame_list(path) or []:
                at = item.get("received_ms")
                yield CapturedMessage(
                    at * 1_000_000 if type(at) is int and 0 <= at < END_SECOND * 1000 else None, 1, orjson.dumps(item["frame"])
                )

        yield Capture(_remove_suffixes(path), FRAME_LIST, (path,), False, messages)


# --- a list of order events ------------------------------------------------------------------------------------------


def _order_events(files: list[Path]) -> Iterator[Capture]:
    """Yield one capture per CSV list of order events."""
    for path in files:
        name = _remove_suffixes(path)
        yield Capture(name, ORDER_EVENTS, (path,), False, partial(order_events.read_messages, path, name))


# --- wrapped events --------------------------------------------------------------------------------------------------


def _wrapped_events(files: list[Path]) -> Iterator[Capture]:
    """Yield one capture per data set. Each of its files has one type of event, each line an event with payload, time and number."""
    tagged = sorted((str(parse_message(next(read_lines(path))).get("dataset_tag", _remove_suffixes(path))), path) for path in files)
    for tag, group in groupby(tagged, key=lambda pair: pair[0]):
        members = tuple(path for _, path in group)
        yield Capture(tag, WRAPPED_EVENTS, members, False, partial(wrapped_events.read_messages, members))


# --- lines of messages -----------------------------------------------------------------------------------------------


def _message_lines(files: list[Path]) -> Iterator[Capture]:
    """Yield a capture per file with messages of several markets (all that a stream sent), and one per event of the other files.

    Each line is a verbatim message in order of arrival, without time of receipt.
    """
    named = []
    for path in files:
        tickers = _first_tickers(path)
        if len(tickers) > 1:
            yield Capture(_remove_suffixes(path), STREAM_FILE, (path,), False, partial(_merge, (path,)))
        else:
            named.append((event_ticker(tickers[0] if tickers else _remove_suffixes(path)), path))
    for event, group in groupby(sorted(named), key=itemgetter(0)):
        members = tuple(path for _, path in group)
        yield Capture(event, MARKET_FILES, members, True, partial(_merge, members))


#: Connection, exchange time, subscription and sequence number of a message; the last two are -1 if it is not numbered.
_Head = tuple[int, int, int, int]


def _read_heads(path: Path) -> list[_Head]:
    """Read the heads of a file's messages. A snapshot whose number is not above earlier ones begins a connection, unless it repeats a line."""
    numbers, snapshots, latest = list[tuple[int, int, int]](), dict[int, int](), 0
    for place, line in enumerate(read_lines(path)):
        message = parse_message(line)
        kind, sid, seq = read_envelope(message)
        if sid is None or seq is None:
            sid = seq = -1
        elif kind == SNAPSHOT:
            snapshots[place] = zlib.crc32(line)
        # Some trades have only whole seconds: a message is never older than the one before it.
        latest = max(latest, read_exchange_time(read_body(message)) or 0)
        numbers.append((latest, sid, seq))
    first = next((time for time, _, _ in numbers if time), 0)
    heads, lines, last, connection = list[_Head](), set[tuple[int, int, int]](), dict[int, int](), 1
    for place, (time, sid, seq) in enumerate(numbers):
        if place in snapshots:
            line_key = sid, seq, snapshots[place]
            if seq <= last.get(sid, -1) and not (line_key in lines and _continues(numbers, place, last)):
                connection, last = connection + 1, {}
            lines.add(line_key)
        last[sid] = max(seq, last.get(sid, seq))
        heads.append((connection, time or first, sid, seq))
    return heads


def _continues(numbers: list[tuple[int, int, int]], place: int, last: dict[int, int]) -> bool:
    """Return True if each subscription's next number after `place` is above its last one. last: highest number by subscription."""
    begun = set[int]()
    for _, sid, seq in islice(numbers, place + 1, None):
        if sid >= 0 and sid not in begun and seq <= last.get(sid, -1):
            return False
        begun.add(sid)
    return True


def _merge(files: tuple[Path, ...]) -> Iterator[CapturedMessage]:
    """Yield the messages of one event's files in order of arrival."""
    lines = [read_lines(path) for path in files]
    for file, connection in _order_files([_read_heads(path) for path in files]):
        yield CapturedMessage(None, connection, next(lines[file]))


def _order_files(messages: list[list[_Head]]) -> Iterator[tuple[int, int]]:
    """Yield file and connection of the next message in order of arrival, once for each message. messages: heads of each file, in order.

    The next message is the head of a file with the lowest remaining number of its subscription; of several such heads, the oldest.
    """
    numbered = sorted((connection, sid, seq, file) for file, own in enumerate(messages) for connection, _, sid, seq in own if sid >= 0)
    expected = {key: deque(file for *_, file in group) for key, group in groupby(numbered, itemgetter(0, 1))}
    rest = [iter(own) for own in messages]
    heads = {file: (*head, file) for file, own in enumerate(rest) if (head := next(own, None)) is not None}
    while heads:
        connection = min(head[0] for head in heads.values())
        current = [head for head in heads.values() if head[0] == connection]
        # Conflicting files have no next head: the oldest is taken, and the gap report shows the inversion.
        ready = [head for head in current if (connection, head[2]) not in expected or expected[connection, head[2]][0] == head[4]]
        _, _, sid, _, file = min(ready or current)
        if (key := (connection, sid)) in expected:
            expected[key].remove(file)
            if not expected[key]:
                del expected[key]
        yield file, connection
        head = next(rest[file], None)
        if head is None:
            del heads[file]
        else:
            heads[file] = (*head, file)


_FORMS: dict[str, Callable[[list[Path]], Iterator[Capture]]] = {
    MESSAGE_LINES: _message_lines,
    ORDER_EVENTS: _order_events,
    WRAPPED_EVENTS: _wrapped_events,
    FRAME_LIST: _frame_lists,
}


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
    with Recorder(folder, about) as recorder:
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
