"""Captures that store each type of event in a file of its own, converted back to the messages of the stream.

An event has a type, a payload, a time of receipt and, if the venue numbered the message, its number. Its subscription is not stated, but
follows from its channel. A recorder's clock is coarse, so that several events share a time. Then a *control* (connection opened,
subscription confirmed) precedes the data that it begins, and follows data that continue the numbers of the previous subscription.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import LakeError
from bellwether.recordings.framing import CapturedMessage, read_lines
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
    replay = _MessageBuilder([event for path in files if _is_of_controls(path) for event in _events(path)])
    merged = heapq.merge(*map(_events, files), key=_received)
    for at, group in groupby(merged, key=_received):
        for event in replay.ordered(list(group)):
            data = replay.frame(event)
            yield CapturedMessage(at, max(1, replay.connections), data)


Event = dict[str, Any]


def _is_of_controls(path: Path) -> bool:
    return str(parse_message(next(read_lines(path), b"")).get("event_type")).startswith(_CONTROL)


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


def _confirmed(event: Event) -> tuple[str, int] | None:
    """Return (channel, subscription id) if an event confirms a subscription, else None."""
    payload = event["payload_json"]
    body = read_body(payload)
    if payload.get("type") != "subscribed" or type(body.get("sid")) is not int:
        return None
    return str(body.get("channel")), body["sid"]


@dataclass(slots=True)
class _MessageBuilder:
    """Builder of messages, which tracks the connection, the subscription id and the last number of each channel.

    controls: the recorder's events about its connections. A confirmation written late also applies to the data before it.
    """

    controls: list[Event]
    connections: int = 0
    sids: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.controls.sort(key=lambda event: (_received(event), event["event_type"] != _CONNECTED))

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
            self.sids, self.last = {}, {}
        if (confirmed := _confirmed(event)) is not None:
            channel, self.sids[channel] = confirmed
            self.last.pop(channel, None)
        if "type" in payload and "msg" in payload:
            return orjson.dumps(payload)
        channel, number = _channel(event), _number(event)
        envelope: dict[str, Any] = {"type": kind}
        if number is not None:
            envelope["sid"] = self._sid(channel, _received(event))
            envelope["seq"] = self.last[channel] = number
        elif channel in self.sids:
            envelope["sid"] = self.sids[channel]
        return orjson.dumps(envelope | {"msg": payload})

    def _sid(self, channel: str, at: int) -> int:
        """Return the subscription id of a channel. If it is not confirmed yet, use the id that the connection confirms after `at`."""
        if channel not in self.sids:
            self.sids[channel] = self._later(channel, at) or _UNCONFIRMED + len(self.sids)
        return self.sids[channel]

    def _later(self, channel: str, at: int) -> int | None:
        """Return the subscription id that the connection confirms for a channel after time `at`; None if it confirms none."""
        for event in self.controls:
            if _received(event) < at:
                continue
            if event["event_type"] == _CONNECTED and _received(event) > at:
                return None
            if (confirmed := _confirmed(event)) is not None and confirmed[0] == channel:
                return confirmed[1]
        return None


def _channel(event: Event) -> str:
    return str(event.get("channel"))


def _number(event: Event) -> int | None:
    number = event.get("sequence_number")
    return number if type(number) is int else None
