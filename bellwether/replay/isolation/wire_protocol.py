"""Wire protocol between the simulator and an isolated agent: JSON messages over a socket pair, each with a length prefix of four bytes.

A message of the agent is `[name, argument...]` of `REQUESTS` or `ENDS`, and is validated before use. Integers are below 2^62 in absolute value;
lists of integers become int64 arrays. No message can instantiate a class named by the sender.
"""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import orjson

from bellwether.replay.agents.interface import CALLS, STATE, ArrayShape, MethodSignature, Simulator

#: Maximum size of an agent's message, bytes; enough for a `place_many` of 100,000 orders.
MOST_BYTES = 16 << 20
_LENGTH = struct.Struct(">I")
_LARGEST = 2**62
_LONGEST_TEXT = 10_000
_CHUNK = 1 << 16
_POLL_ERRORS = select.POLLHUP | select.POLLERR


class MalformedMessage(Exception):
    """The process of an agent sent an invalid message."""


class ChannelClosed(Exception):
    """The other process has closed the connection."""


class ChannelTimeout(Exception):
    """A message was not sent or received before its deadline."""


def _integer(value: Any) -> int:
    if type(value) is not int or not -_LARGEST < value < _LARGEST:
        raise MalformedMessage(f"{value!r:.60} instead of an integer below 2^62")
    return value


def _text(value: Any, longest: int = _LONGEST_TEXT) -> str:
    if type(value) is not str or len(value) > longest or (longest < _LONGEST_TEXT and not value.isprintable()):
        raise MalformedMessage(f"{value!r:.60} instead of a string of at most {longest:,} characters")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _array(value: Any, columns: int | None) -> np.ndarray:
    if type(value) is not list:
        raise MalformedMessage(f"{value!r:.60} instead of a list of integers")
    shape = (0,) if columns is None else (0, columns)
    try:
        array = np.array(value) if value else np.zeros(shape, np.int64)
    except (ValueError, OverflowError):
        raise MalformedMessage("a list with rows of different lengths") from None
    if array.dtype != np.int64 or array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        raise MalformedMessage(f"{array.dtype}{list(array.shape)} instead of int64{['n', *shape[1:]]}")
    if array.size and (array.max() >= _LARGEST or array.min() <= -_LARGEST):
        raise MalformedMessage("an integer of 2^62 or more")
    return array


def _converter(hint: Any) -> Callable[[Any], Any]:
    """Return the function that validates and converts a message's argument. hint: type of the argument in `Simulator`."""
    limit = get_args(hint)[1] if get_origin(hint) is Annotated else None
    if isinstance(limit, ArrayShape):
        return partial(_array, columns=limit.columns)
    return partial(_text, longest=limit) if limit is not None else _integer


#: Calls of `Simulator` that an agent can request, and the validators of their arguments. The results of other calls are sent with every message.
REQUESTS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    name: tuple(_converter(hint) for hint in call.arguments) for name, call in CALLS.items() if call.kind != "state"
}
#: Messages that end a phase: `done` (whether the agent has read values that depend on its fills), or `failed` (type, message, traceback). Before the
#: first phase come `confined` (fields of a `Confinement`) or `refused` (reason), then `loaded` (name, parameters, kind, names of callbacks),
#: `refused` or `failed`.
ENDS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "confined": (_optional_text,) * 5,
    "loaded": (_text, _text, _text, _text),
    "refused": (_text,),
    "done": (_integer,),
    "failed": (_text, _text, _text),
}


def check_request(message: Any) -> tuple[str, list[Any]]:
    """Check an agent's message, and return its name and converted arguments. Raises `MalformedMessage` for an invalid message."""
    if type(message) is not list or not message or type(message[0]) is not str:
        raise MalformedMessage(f"{message!r:.60} instead of a list that starts with a name")
    name, *arguments = message
    types = REQUESTS.get(name) if name in REQUESTS else ENDS.get(name)
    if types is None:
        raise MalformedMessage(f"the unknown request {name!r:.60}")
    if len(arguments) != len(types):
        raise MalformedMessage(f"{name} with {len(arguments)} arguments instead of {len(types)}")
    return name, [convert(argument) for convert, argument in zip(types, arguments, strict=True)]


def encode_message(message: Any) -> bytes:
    """Encode a message as JSON with its length prefix. Arrays become lists."""
    body = orjson.dumps(message, default=_to_lists)
    return _LENGTH.pack(len(body)) + body


def _to_lists(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def build_answer(simulator: Simulator, name: str, arguments: list[Any]) -> Any:
    """Call a method of the simulator for an agent. Returns the result; for a method of kind `change`, also the new state and the row of a
    placed order.
    """
    answer = getattr(simulator, name)(*arguments)
    if CALLS[name].kind != "change":
        return answer
    return [answer, read_state(simulator), simulator.order(answer) if name == "place" and answer is not None else None]


def read_state(simulator: Simulator) -> list[Any]:
    """Return the results of all methods in `STATE`, which the agent's process receives at the start of a phase and after each change."""
    return [getattr(simulator, name)() for name in STATE]


def restore_result(value: Any, signature: MethodSignature) -> Any:
    """Convert a result decoded from JSON to the type that the method of the simulator returns."""
    if value is None:
        return None
    shape = signature.shape
    if shape is not None:
        array: np.ndarray = np.array(value, shape.dtype)
        return array if shape.columns is None else array.reshape(-1, shape.columns)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if type(value) is list else value


class MessageChannel:
    """One end of the connection between the simulator and an agent process.

    In the simulator, which reads the process's `output`, no call blocks beyond its deadline. In the agent process calls block without a deadline.

    Args:
        descriptor: Socket of the connection.
        output: Descriptor of the other process's output, whose last part is stored.
    """

    def __init__(self, descriptor: int, output: int | None = None) -> None:
        self._descriptor, self._output, self._received, self._printed = descriptor, output, bytearray(), b""
        self._blocks = output is None
        self._poll = select.poll()
        os.set_blocking(descriptor, self._blocks)
        if output is not None:
            os.set_blocking(output, False)
            for file in (descriptor, output):
                self._poll.register(file, select.POLLIN)

    @property
    def printed(self) -> str:
        """Last part of the agent process's output, with undecodable bytes replaced."""
        self._drain()
        return self._printed.decode("utf-8", "replace")

    def send(self, message: Any, deadline: float = float("inf")) -> None:
        """Send a message. deadline: monotonic clock, seconds. Raises `ChannelClosed`, `ChannelTimeout`."""
        unsent = memoryview(encode_message(message))
        while unsent:
            try:
                unsent = unsent[os.write(self._descriptor, unsent) :]
            except BlockingIOError:
                self._wait_for(select.POLLOUT, deadline)
            except OSError:
                raise ChannelClosed from None

    def receive(self, deadline: float = float("inf")) -> Any:
        """Return the next message. Raises `MalformedMessage`, `ChannelClosed`, `ChannelTimeout`."""
        received = self._received
        while True:
            if len(received) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(received)
                if length > MOST_BYTES:
                    raise MalformedMessage(f"a message of {length:,} bytes; the maximum is {MOST_BYTES:,}")
                end = _LENGTH.size + length
                if len(received) >= end:
                    body = bytes(received[_LENGTH.size : end])
                    del received[:end]
                    try:
                        return orjson.loads(body)
                    except orjson.JSONDecodeError as error:
                        raise MalformedMessage(f"invalid JSON: {error}") from None
            if not self._blocks:
                self._wait_for(select.POLLIN, deadline)
            try:
                fresh = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                raise ChannelClosed from None
            if not fresh:
                raise ChannelClosed
            received += fresh

    def _wait_for(self, event: int, deadline: float) -> None:
        """Wait until the socket is ready for an event or closed, and read the process's output meanwhile."""
        self._poll.modify(self._descriptor, event)
        while True:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise ChannelTimeout
            for descriptor, events in self._poll.poll(None if seconds == float("inf") else min(seconds, 3600.0) * 1000):
                if descriptor == self._descriptor:
                    return
                self._drain()
                if events & _POLL_ERRORS and self._output is not None:
                    self._poll.unregister(self._output)
                    self._output = None

    def _drain(self) -> None:
        """Read the available output of the process, and keep the last 4,000 bytes."""
        while self._output is not None:
            try:
                fresh = os.read(self._output, _CHUNK)
            except OSError:
                return
            if not fresh:
                return
            self._printed = (self._printed + fresh)[-4000:]
