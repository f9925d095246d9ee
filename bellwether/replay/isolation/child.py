"""Program of an isolated agent's process: it limits its resources, loads the agent, and runs one phase (such as a decision) per message of
the simulator.

Messages sent before the agent's file is loaded can be trusted, later messages cannot.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import pickle
import platform
import resource
import socket
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import orjson

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import FRAMES, Agent, call_phase, callbacks_of
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.limits import describe_error, format_traceback
from bellwether.replay.agents.loader import AgentSource, check_isolable, load_agent_class
from bellwether.replay.agents.port import store_tag
from bellwether.replay.isolation.wire import Channel
from bellwether.replay.settings import Limits

#: Part of numba's error message without a writable cache.
_UNCACHED = "cannot cache function"
_OPEN_FILES, _PROCESSES = 256, 64
#: Number of the system call keyctl, and its operation that joins a new keyring (man keyctl(2)).
_KEYCTL, _JOIN = {"x86_64": 250, "aarch64": 219}, 1


class RemotePort:
    """Port to the simulator's process. The state of books and account arrives at the start of a phase and with the result of each order.

    Attributes:
        tags: Labels of orders by id.
        state: Results of the reads in `wire.STATE`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.tags: dict[int, str] = {}
        self.state: dict[str, Any] = {}
        self._points: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def read(self, name: str, *arguments: Any) -> Any:
        """Return an observation."""
        if name == "points":
            return self._read_points(arguments[0])
        return self.state[name] if name in self.state else self._request("read", name, *arguments)

    def send(self, name: str, *arguments: Any) -> Any:
        """Send orders or set a timer, and return the result."""
        answer, self.state = self._request("send", name, *arguments)
        if isinstance(arguments[-1], str):
            store_tag(self.tags, answer, arguments[-1])
        return answer

    def _read_points(self, series: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all known points of a series, of which only new ones are requested."""
        known = self._points.get(series, (np.zeros(0, np.int64), np.zeros(0)))
        fresh = self._request("read", "points", series, len(known[0]))
        if len(fresh[0]):
            known = self._points[series] = np.concatenate([known[0], fresh[0]]), np.concatenate([known[1], fresh[1]])
        return known

    def _request(self, *message: Any) -> Any:
        _send(self._channel, *message)
        return _receive(self._channel)


def _send(channel: Channel, *message: Any) -> None:
    channel.send(orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY))


def _receive(channel: Channel) -> Any:
    return pickle.loads(channel.receive())  # noqa: S301


def main(descriptor: int) -> NoReturn:
    """Run the agent process until it exits. descriptor: socket to the simulator."""
    channel = Channel(socket.socket(fileno=descriptor))
    source, limits = _receive(channel)
    _limit_resources(limits)
    _send(channel, "ready")
    try:
        _serve(channel, _load(channel, source))
    except BaseException as error:
        kind, message = describe_error(error)
        _send(channel, "failed", kind, message, format_traceback(error, (*FRAMES, __file__)))
    os._exit(0)


def _limit_resources(limits: Limits) -> None:
    """Set limits that the process cannot raise, and leave the keyring of the user's session."""
    with suppress(KeyError):
        ctypes.CDLL(None).syscall(ctypes.c_long(_KEYCTL[platform.machine()]), ctypes.c_long(_JOIN), None)
    values = {
        resource.RLIMIT_AS: limits.memory,
        resource.RLIMIT_CPU: math.ceil(limits.run) + 1,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_NPROC: _PROCESSES,
    }
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lower, lower))


def _load(channel: Channel, source: AgentSource) -> Agent:
    """Load the agent and send its description to the simulator.

    If the agent cannot be isolated, the process exits. Raises the errors of the agent's own code.
    """
    reference = source.reference
    try:
        cls = load_agent_class(reference)
        agent = source.make()
        check_isolable(cls)
        params = json.dumps(agent.params, sort_keys=True, default=str, ensure_ascii=False)
    except ConfigError as error:
        message, cause = describe_error(error)[1], error.__cause__
        if _UNCACHED in message:
            message = (
                f"isolating the agent {reference}: it uses numba with cache=True, and an isolated agent cannot write files. "
                "Remove cache=True; compiled agents run within the simulator and cannot be isolated"
            )
        elif cause is not None and not (
            isinstance(cause, ModuleNotFoundError) and f"{reference.replace(':', '.')}".startswith(f"{cause.name}.")
        ):
            raise cause from None
        _send(channel, "refused", message)
        os._exit(0)
    _send(channel, "loaded", agent.name, params, " ".join(callbacks_of(cls)))
    return agent


def _serve(channel: Channel, agent: Agent) -> None:
    """Run each phase that the simulator requests, until the simulator closes the connection."""
    info, seed = _receive(channel)
    port = RemotePort(channel)
    ctx = AgentContext(port, info, seed=seed)
    while True:
        phase, step, news, port.state = _receive(channel)
        call_phase(agent, ctx, phase, step, news)
        _send(channel, "done")
