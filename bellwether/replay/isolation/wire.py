"""Messages between the simulator and the process of an isolated agent, each with a length prefix of four bytes.

The simulator sends pickles, which the agent's process can trust. The agent's process sends JSON lists, which are untrusted: a name and
arguments of a call of the port (`agents.port`) or of `REPORTS`, checked field by field. Integers are below 2^62 in absolute value; lists of pairs become int64 arrays.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from bellwether.replay.agents.arguments import LONGEST_TAG
from bellwether.replay.agents.port import READS, SENDS

#: Maximum size of an agent's message, bytes.
MOST_BYTES = 16 << 20
_LENGTH = struct.Struct(">I")
_LARGEST = 2**62
_LONGEST_TEXT = 10_000
_CHUNK = 1 << 16

#: Observations that the simulator sends with each phase and after each order, so that reading them needs no message.
STATE = ("now", "sent", "cash", "available", "bids", "positions", "status")
_CALLS = {"read": READS, "send": SENDS}
#: Numbers of texts in the other messages: the process is ready, the agent is loaded (name, parameters, names of callbacks), cannot be loaded
#: (reason) or failed (type, message, traceback), a phase is done.
REPORTS = {"ready": 0, "loaded": 3, "refused": 1, "failed": 3, "done": 0}


class MalformedMessage(Exception):
    """The process of an agent sent an invalid message."""


class ChannelClosed(Exception):
    """The other process has closed the connection."""


class ChannelTimeout(Exception):
    """A message was not sent or received before its deadline."""


def parse_message(body: bytes, markets: int = 0, series: int = 0) -> tuple[str, list[Any]]:
    """Parse a message of an agent's process. markets, series: their numbers in the episode.

    Returns:
        `read` or `send` and the name and arguments of a call, or the name of a report and its texts.

    Raises:
        MalformedMessage: The message is invalid.
    """
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedMessage(f"invalid JSON: {error}") from None
    if type(message) is not list or not message or type(message[0]) is not str:
        raise MalformedMessage(f"{message!r:.60} instead of a list that starts with a name")
    kind, *values = message
    if kind in REPORTS:
        types = "x" * REPORTS[kind]
        return kind, _convert_all(kind, values, types, {})
    name = values[0] if values and type(values[0]) is str else ""
    types = _CALLS.get(kind, {}).get(name, "unknown")
    if types == "unknown":
        raise MalformedMessage(f"the unknown request {message!r:.60}")
    ranges = {"m": (0, markets), "M": (-1, markets), "s": (0, series), "i": (1 - _LARGEST, _LARGEST), "n": (0, _LARGEST)}
    return kind, [name, *_convert_all(name, values[1:], types, ranges)]


def _convert_all(name: str, values: list[Any], types: str, ranges: dict[str, tuple[int, int]]) -> list[Any]:
    if len(values) != len(types):
        raise MalformedMessage(f"{name} with {len(values)} arguments instead of {len(types)}")
    return [_convert(value, kind, ranges) for value, kind in zip(values, types, strict=True)]


def _convert(value: Any, kind: str, ranges: dict[str, tuple[int, int]]) -> Any:
    if kind == "p":
        return _pairs(value)
    if kind in "xt":
        longest = LONGEST_TAG if kind == "t" else _LONGEST_TEXT
        if type(value) is not str or len(value) > longest or (kind == "t" and not value.isprintable()):
            raise MalformedMessage(f"{value!r:.60} instead of a string of at most {longest:,} characters")
        return value
    least, end = ranges[kind]
    if type(value) is not int or not least <= value < end:
        raise MalformedMessage(f"{value!r:.60} instead of an integer from {least} to {end - 1}")
    return value


def _pairs(value: Any) -> np.ndarray:
    """Convert a list of pairs of integers to an array, int64[n, 2]."""
    if type(value) is not list:
        raise MalformedMessage(f"{value!r:.60} instead of a list of pairs")
    try:
        array = np.array(value) if value else np.zeros((0, 2), np.int64)
    except (ValueError, OverflowError):
        raise MalformedMessage("a list with rows of different lengths") from None
    if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] != 2:
        raise MalformedMessage(f"{array.dtype}{list(array.shape)} instead of int64[n, 2]")
    if array.size and (array.max() >= _LARGEST or array.min() <= -_LARGEST):
        raise MalformedMessage("an integer of 2^62 or more")
    return array


class Channel:
    """One end of the connection between the simulator and an agent's process.

    Args:
        connection: Socket of the connection.
        most_bytes: Maximum size of a received message; None for any, if the other end can be trusted.
    """

    def __init__(self, connection: socket.socket, most_bytes: int | None = None) -> None:
        self._socket, self._most, self._received = connection, most_bytes, bytearray()

    def send(self, body: bytes, deadline: float = float("inf")) -> None:
        """Send a message. deadline: monotonic clock, seconds. Raises `ChannelClosed`, `ChannelTimeout`."""
        self._within(deadline, self._socket.sendall, _LENGTH.pack(len(body)) + body)

    def receive(self, deadline: float = float("inf")) -> bytes:
        """Return the next message. Raises `MalformedMessage`, `ChannelClosed`, `ChannelTimeout`."""
        received = self._received
        while True:
            if len(received) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(received)
                if self._most is not None and length > self._most:
                    raise MalformedMessage(f"a message of {length:,} bytes; the maximum is {self._most:,}")
                end = _LENGTH.size + length
                if len(received) >= end:
                    body = bytes(received[_LENGTH.size : end])
                    del received[:end]
                    return body
            fresh = self._within(deadline, self._socket.recv, _CHUNK)
            if not fresh:
                raise ChannelClosed
            received += fresh

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _within(self, deadline: float, call: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function of the socket, which blocks until the deadline at most."""
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise ChannelTimeout
        try:
            self._socket.settimeout(None if seconds == float("inf") else seconds)
            return call(argument)
        except TimeoutError:
            raise ChannelTimeout from None
        except OSError:
            raise ChannelClosed from None
