"""Captures, which are streams of Kalshi recorded by other programs: detection of the common file formats, and reading of the messages.

A message has a subscription (`sid`) and a sequence number (`seq`) within its subscription.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import ConfigError, LakeError
from bellwether.files import open_bytes
from bellwether.recordings import order_events, wrapped_events
from bellwether.recordings.exchange_times import read_exchange_time
from bellwether.recordings.framing import CapturedMessage, read_lines
from bellwether.venues.kalshi.stream.frame import SNAPSHOT, parse_message, read_body, read_envelope, read_ticker
from bellwether.venues.wire.times import END_SECOND


@dataclass(frozen=True, slots=True)
class Capture:
    """Files of one uninterrupted capture.

    form: how messages are stored in a file. partial: the files contain only some of the subscription's markets. messages: its messages in order.
    origin: the source of a capture that was not read from files.
    """

    name: str
    form: str
    files: tuple[Path, ...]
    partial: bool
    messages: Callable[[], Iterator[CapturedMessage]]
    origin: dict[str, str] | None = None

    @property
    def use_yes_price(self) -> bool | None:
        """True if the subscription requested NO levels in prices of YES, as stated next to the files; None if unstated or contradictory."""
        stated = {flag for path in self.files if (flag := _stated_flag(path)) is not None}
        return stated.pop() if len(stated) == 1 else None

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its path below their common folder, or `origin` for a capture that was not read from files."""
        if self.origin:
            return self.origin
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

MARKET_FILES, STREAM_FILE, WRAPPED_EVENTS = "market files", "stream file", "wrapped events"
FRAME_LIST, ORDER_EVENTS = "frame list", "order events"

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
    if "type" not in first:
        return None
    return STREAM_FILE if _has_several_markets(path) else MARKET_FILES


def _has_several_markets(path: Path) -> bool:
    """Return True if a file has messages of several markets, and thus everything that the subscription sent."""
    only: bytes | None = None
    with suppress(LakeError):  # The error about a damaged file is raised when it is read.
        for line in read_lines(path):
            if (match := _TICKER.search(line)) is not None:
                if only is not None and match[1] != only:
                    return True
                only = match[1]
    return False


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


# --- one file of a whole stream --------------------------------------------------------------------------------------


def _stream_files(files: list[Path]) -> Iterator[Capture]:
    """Yield one capture per file: all messages of a stream about many markets, in order of arrival.

    A subscription that restarts with number 1 belongs to a new connection.
    """
    for path in files:

        def messages(path: Path = path) -> Iterator[CapturedMessage]:
            connection, last = 1, dict[int, int]()
            for line in read_lines(path):
                _, sid, seq = read_envelope(parse_message(line))
                if sid is not None and seq is not None:
                    if seq == 1 and last.get(sid, 0) > 1:
                        connection, last = connection + 1, {}
                    last[sid] = seq
                yield CapturedMessage(None, connection, line)

        yield Capture(_remove_suffixes(path), STREAM_FILE, (path,), False, messages)


# --- wrapped events --------------------------------------------------------------------------------------------------


def _wrapped_events(files: list[Path]) -> Iterator[Capture]:
    """Yield one capture per data set. Each of its files has one type of event, each line an event with payload, time and number."""
    tagged = sorted((str(parse_message(next(read_lines(path))).get("dataset_tag", _remove_suffixes(path))), path) for path in files)
    for tag, group in groupby(tagged, key=lambda pair: pair[0]):
        members = tuple(path for _, path in group)
        yield Capture(tag, WRAPPED_EVENTS, members, False, partial(wrapped_events.read_messages, members))


# --- one file per market ---------------------------------------------------------------------------------------------


def _market_files(files: list[Path]) -> Iterator[Capture]:
    """Yield one capture per event: one file per market, each line a verbatim message in order of arrival, without time of receipt."""
    named = sorted((event_ticker(_find_ticker(path)), path) for path in files)
    for event, group in groupby(named, key=lambda pair: pair[0]):
        members = tuple(path for _, path in group)
        yield Capture(event, MARKET_FILES, members, True, partial(_merge, members))


def _find_ticker(path: Path) -> str:
    return next((ticker for line in read_lines(path) if (ticker := read_ticker(read_body(parse_message(line))))), _remove_suffixes(path))


#: Exchange time, subscription and sequence number of a message; -1 if it is not numbered.
_Head = tuple[int, int, int]


class _Index:
    """Index of one market's file: connection, subscription, sequence number and exchange time of each message, as columns."""

    def __init__(self, path: Path) -> None:
        self.connections, self.sids, self.seqs, self.times = (array("q") for _ in range(4))
        time, snapshots = 0, list[tuple[int, int]]()
        for place, line in enumerate(read_lines(path)):
            message = parse_message(line)
            kind, sid, seq = read_envelope(message)
            if sid is None or seq is None:
                sid = seq = -1
            elif kind == SNAPSHOT:
                snapshots.append((place, zlib.crc32(line)))
            # Some trades have only whole seconds: a message is never older than the one before it.
            time = max(time, read_exchange_time(read_body(message)) or 0)
            for column, value in ((self.sids, sid), (self.seqs, seq), (self.times, time)):
                column.append(value)
        self._count_connections(snapshots)
        first = next((time for time in self.times if time), 0)
        for place in range(self.times.count(0)):
            # Only the messages before the first exchange time have none.
            self.times[place] = first

    def _count_connections(self, snapshots: list[tuple[int, int]]) -> None:
        """Number the connections: a snapshot whose number is not above earlier ones begins a connection, unless it repeats a line.

        snapshots: position and checksum of each.
        """
        lines, last, connection = set[tuple[int, int, int]](), dict[int, int](), 1
        digests = dict(snapshots)
        for place, (sid, seq) in enumerate(zip(self.sids, self.seqs, strict=True)):
            if place in digests:
                line = (sid, seq, digests[place])
                if seq <= last.get(sid, -1) and not (line in lines and self._continues(place, last)):
                    connection, last = connection + 1, {}
                lines.add(line)
            last[sid] = max(seq, last.get(sid, seq))
            self.connections.append(connection)

    def _continues(self, place: int, last: dict[int, int]) -> bool:
        """Return True if each subscription's next number after `place` is above its last one. last: highest number by subscription."""
        begun = set[int]()
        for sid, seq in zip(self.sids[place + 1 :], self.seqs[place + 1 :], strict=True):
            if sid >= 0 and sid not in begun and seq <= last.get(sid, -1):
                return False
            begun.add(sid)
        return True

    def heads(self, connection: int) -> list[_Head]:
        """Return the messages of a connection, which are contiguous, in order."""
        places = [place for place, own in enumerate(self.connections) if own == connection]
        return [(self.times[place], self.sids[place], self.seqs[place]) for place in places]


def _merge(files: tuple[Path, ...]) -> Iterator[CapturedMessage]:
    """Yield the messages of one event's files in order of arrival."""
    indexes = [_Index(path) for path in files]
    lines = [read_lines(path) for path in files]
    last = max((index.connections[-1] for index in indexes if index.connections), default=0)
    for connection in range(1, last + 1):
        for file in _order_files([index.heads(connection) for index in indexes]):
            yield CapturedMessage(None, connection, next(lines[file]))


def _order_files(messages: list[list[_Head]]) -> Iterator[int]:
    """Yield the file of the next message in order of arrival, once for each message. messages: of each file, in order.

    The next message is the head of a file with the lowest remaining number of its subscription; of several such heads, the oldest.
    """
    numbered = sorted((sid, seq, file) for file, own in enumerate(messages) for _, sid, seq in own if sid >= 0)
    expected = {sid: deque(file for _, _, file in group) for sid, group in groupby(numbered, itemgetter(0))}
    rest = [iter(own) for own in messages]
    heads = {file: (*head, file) for file, own in enumerate(rest) if (head := next(own, None)) is not None}
    while heads:
        # Conflicting files have no next head: the oldest is taken, and the gap report shows the inversion.
        ready = [head for head in heads.values() if head[1] not in expected or expected[head[1]][0] == head[3]]
        _, sid, _, file = min(ready or heads.values())
        if sid in expected:
            expected[sid].remove(file)
            if not expected[sid]:
                del expected[sid]
        yield file
        head = next(rest[file], None)
        if head is None:
            del heads[file]
        else:
            heads[file] = (*head, file)


_FORMS: dict[str, Callable[[list[Path]], Iterator[Capture]]] = {
    MARKET_FILES: _market_files,
    STREAM_FILE: _stream_files,
    ORDER_EVENTS: _order_events,
    WRAPPED_EVENTS: _wrapped_events,
    FRAME_LIST: _frame_lists,
}
