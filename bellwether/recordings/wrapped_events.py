"""Captures that store each type of event in a file of its own, converted back to the messages of the stream.

An event has a type, a payload, a time of receipt and, if the venue numbered the message, its number. Its subscription is not stated, but
follows from its channel. A recorder's clock is coarse, so that several events share a time. Then a *control* (connection opened,
subscription confirmed) precedes the data that it begins, and follows data that continue the numbers of the previous subscription.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import LakeError
from bellwether.recordings.recording import CapturedMessage, read_lines
from bellwether.venues.kalshi.stream.frame import parse_message, read_body

_CONNECTED = "ws_connected"
#: Prefix of the types of the recorder's own events about its connection.
_CONTROL = "ws_"
#: First id of subscriptions that were never confirmed; the venue's ids are small.
_UNCONFIRMED = 1_000_000_000


def is_wrapped(first: dict[str, Any]) -> bool:
    """Return True if a file's first line is a wrapped event."""
    return "payload_json" in first and "event_type" in first


def read_messages(files: Sequence[Path]) -> Iterator[CapturedMessage]:
    """Yield the messages of one capture's files in order of receipt. Raises `LakeError` with the file, record and field of an error."""
    builder = _MessageBuilder()
    merged = heapq.merge(*map(_events, files), key=_received)
    for at, group in groupby(merged, key=_received):
        for event in builder.ordered(list(group)):
            data = builder.frame(event)
            yield CapturedMessage(at, max(1, builder.connections), data)


Event = dict[str, Any]


def _events(path: Path) -> Iterator[Event]:
    for number, line in enumerate(read_lines(path), 1):
        event = parse_message(line)
        kinds = {"local_recv_ns": int, "payload_json": dict, "event_type": str}
        if missing := [name for name, kind in kinds.items() if type(event.get(name)) is not kind]:
            raise LakeError(f"importing {path}: record {number} has no {' and no '.join(missing)}; look at the file, it may be damaged")
        yield event


def _received(event: Event) -> int:
    at: int = event["local_recv_ns"]
    return at


@dataclass(slots=True)
class _MessageBuilder:
    """Builder of messages, which tracks the connection, and the subscription id and the last number of each channel.

    confirmed: ids of subscriptions that have not sent a number yet. A subscription begins with the first number of its channel and with one
    that is not above the last; it has a made-up id if its confirmation was written late or never.
    """

    connections: int = 0
    confirmed: dict[str, int] = field(default_factory=dict)
    sids: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    made_up: Iterator[int] = field(default_factory=lambda: count(_UNCONFIRMED))

    def ordered(self, events: list[Event]) -> Iterable[Event]:
        """Sort events of one time of receipt by their likely order of arrival."""
        if len(events) == 1:
            return events
        controls = [event for event in events if event["event_type"].startswith(_CONTROL)]
        numbered = sorted((event for event in events if _number(event) is not None), key=lambda event: (_channel(event), _number(event)))
        first = self._find_continuing(numbered) if controls else []
        controls.sort(key=lambda event: event["event_type"] != _CONNECTED)
        # Each event once, at its first position.
        return list({id(event): event for event in (*first, *controls, *numbered, *events)}.values())

    def _find_continuing(self, numbered: list[Event]) -> list[Event]:
        """Return the events whose numbers continue the numbers of their channel without a gap. numbered: sorted by channel and number."""
        last, continuing = dict(self.last), []
        for event in numbered:
            channel, number = _channel(event), _number(event)
            if channel in last and number == last[channel] + 1:
                last[channel] += 1
                continuing.append(event)
        return continuing

    def frame(self, event: Event) -> bytes:
        """Return the message of an event: its payload if that is a message, otherwise an envelope built from the event's fields."""
        kind, payload = event["event_type"], event["payload_json"]
        if kind == _CONNECTED:
            self.connections += 1
            self.confirmed, self.sids, self.last = {}, {}, {}
        body = read_body(payload)
        if payload.get("type") == "subscribed" and type(body.get("sid")) is int:
            self.confirmed[str(body.get("channel"))] = body["sid"]
        if "type" in payload and "msg" in payload:
            return orjson.dumps(payload)
        channel, number = _channel(event), _number(event)
        if number is not None and (channel not in self.sids or number <= self.last[channel]):
            self.sids[channel] = self.confirmed.pop(channel, 0) or next(self.made_up)
        sid = self.sids.get(channel, self.confirmed.get(channel))
        envelope: dict[str, Any] = {"type": kind} if sid is None else {"type": kind, "sid": sid}
        if number is not None:
            envelope["seq"] = self.last[channel] = number
        return orjson.dumps(envelope | {"msg": payload})


def _channel(event: Event) -> str:
    return str(event.get("channel"))


def _number(event: Event) -> int | None:
    number = event.get("sequence_number")
    return number if type(number) is int else None
