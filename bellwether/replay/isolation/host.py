"""Simulator side of an isolated agent: it starts the agent process, enforces time limits and answers requests."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

import bellwether
from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import CALLBACKS, default_name
from bellwether.replay.agents.limits import STEP_TIMEOUT, Failure, sanitize_line, sanitize_text
from bellwether.replay.agents.loader import AgentSource
from bellwether.replay.agents.port import News
from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.isolation.bwrap import build_arguments, find_bwrap, interpreter
from bellwether.replay.isolation.wire import MOST_BYTES, STATE, Channel, ChannelClosed, ChannelTimeout, MalformedMessage, parse_message
from bellwether.replay.local_port import LocalPort
from bellwether.replay.settings import Limits

_PROGRAM = (
    "import sys; from ast import literal_eval; sys.path[:] = literal_eval(sys.argv[1]); "
    "from bellwether.replay.isolation.child import main; main(int(sys.argv[2]))"
)
#: Environment of the agent's process, in addition to the search path of shared libraries.
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
}
_LIBRARIES = "LD_LIBRARY_PATH"
#: Limit of the start of Python and its packages, before any code of the agent, real seconds.
_STARTING = 600.0
#: Exit code of bubblewrap if a signal ended the agent process, less the signal.
_SIGNALLED = 128
_CHUNK, _MOST_PRINTED = 1 << 16, 4000


class IsolatedAgent:
    """Context manager that runs an agent in its own process: started on entry, killed on exit.

    An agent that cannot be loaded counts as failed before its first decision. Raises `ConfigError` on entry if this system cannot isolate
    agents or if the agent's file is missing.

    Attributes:
        name: Name of the agent; as its own process sent it, if it could be loaded, and therefore untrusted, as the others.
        params: Parameters, parsed from JSON.
        callbacks: Names of the callbacks that the agent defines.
    """

    def __init__(self, source: AgentSource, limits: Limits) -> None:
        self._source, self._limits, self._left = source, limits, limits.run
        self.name, self.params = source.name or default_name(source.reference.rpartition(":")[2]), source.params
        self.callbacks: tuple[str, ...] = ()
        self._failure: Failure | None = None

    def __enter__(self) -> Self:
        self._start()
        try:
            self._load()
        except ConfigError as error:
            self._failure = Failure("ConfigError", sanitize_line(str(error)), -1, 0)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def find_name(self) -> str:
        """Load the agent in a process of its own and return its name. Raises `ConfigError` if this system cannot isolate agents, and for agents
        that cannot be isolated or refuse their parameters.
        """
        with self:
            if self._failure is not None and self._failure.type == ConfigError.__name__:
                raise ConfigError(self._failure.message)
            return self.name

    # The process.

    def _start(self) -> None:
        """Start the process, and wait until it has limited itself; none of the agent's code runs before."""
        program, source = find_bwrap(), self._locate()
        plan = self._encode_plan(source)
        options = "\0".join(build_arguments(source.reference)).encode()
        environment = {name: os.environ[name] for name in (_LIBRARIES,) if name in os.environ} | _ENVIRONMENT
        # An editable installation is found by a hook, which the process does not have.
        paths = [*(os.path.abspath(entry) for entry in sys.path if entry), str(Path(bellwether.__file__).parents[1])]
        ours, theirs = socket.socketpair()
        with theirs, os.fdopen(os.memfd_create("options"), "w+b") as file:
            file.write(options)
            file.seek(0)
            descriptors = theirs.fileno(), file.fileno()
            command = [program, "--args", str(descriptors[1]), "--", interpreter(), "-P", "-s", "-c", _PROGRAM, repr(paths)]
            try:
                self._process = subprocess.Popen(  # noqa: S603
                    [*command, str(descriptors[0])],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=descriptors,
                    env=environment,
                    cwd="/",
                )
            except BaseException:
                ours.close()
                raise
        self._channel = Channel(ours, MOST_BYTES)
        self._printed = bytearray()
        self._reader = threading.Thread(target=self._read_output, name="agent-output", daemon=True)
        self._reader.start()
        try:
            self._await_ready(plan)
        except BaseException:
            self._stop()
            raise

    def _locate(self) -> AgentSource:
        """Return the agent's source with an absolute path. Raises `ConfigError` if the file is missing."""
        where, _, name = self._source.reference.rpartition(":")
        if not where.endswith(".py"):
            return self._source
        where = os.path.abspath(where)
        if not os.path.isfile(where):
            raise ConfigError(f"loading the agent: the file {where} does not exist; correct its name")
        return replace(self._source, reference=f"{where}:{name}")

    def _encode_plan(self, source: AgentSource) -> bytes:
        try:
            return pickle.dumps((source, self._limits))
        except Exception as error:
            raise ConfigError(
                f"isolating the agent {self._source.reference}: its parameters {dict(self._source.params)!r:.200} cannot be sent to another "
                f"process ({error}); give plain values"
            ) from None

    def _await_ready(self, plan: bytes) -> None:
        deadline = time.monotonic() + _STARTING
        try:
            self._channel.send(plan, deadline)
            self._channel.receive(deadline)
        except (ChannelClosed, ChannelTimeout, MalformedMessage):
            end = self._describe_end()
            raise ConfigError(
                f"isolating the agent {self._source.reference}: bubblewrap could not start it: {self._output() or end}. Allow "
                "unprivileged user namespaces (docs/operating.md), or run an agent that you trust without isolation"
            ) from None

    def _stop(self) -> None:
        """Kill the process and wait for its end. Its namespace, and every process in it, ends with it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._channel.close()

    def _read_output(self) -> None:
        """Keep the last 4,000 bytes that the process prints, until it ends."""
        output: Any = self._process.stdout
        with output:
            while fresh := output.read1(_CHUNK):
                self._printed = (self._printed + fresh)[-_MOST_PRINTED:]

    def _output(self) -> str:
        """End the process, and return the last part of its output."""
        self._stop()
        return sanitize_text(self._printed.decode("utf-8", "replace"))

    def _load(self) -> None:
        """Receive the description of the loaded agent, or store the failure of loading. Raises `ConfigError` for agents that cannot be isolated."""
        begun = time.monotonic()
        try:
            name, values = parse_message(self._channel.receive(begun + min(self._limits.decision, self._left)))
            if name == "loaded":
                self._describe(*values)
            elif name == "refused":
                raise ConfigError(sanitize_line(values[0]))
            elif name == "failed":
                self._failure = self._build_reported(values, -1, 0)
            else:
                raise MalformedMessage(f"{name} before it was loaded")
        except (ChannelClosed, ChannelTimeout, MalformedMessage) as error:
            self._failure = self._build_failure(error, -1, 0)
        finally:
            self._left -= time.monotonic() - begun

    def _describe(self, name: str, text: str, callbacks: str) -> None:
        """Store the description of the loaded agent. Raises `ConfigError` for a wrong one."""
        reference = self._source.reference
        if not name or name != sanitize_line(name) or len(name) > 100:
            raise ConfigError(f"loading the agent {reference}: its name is {name!r:.60}; give it one of at most 100 printable characters")
        try:
            params = orjson.loads(text)
        except orjson.JSONDecodeError:
            params = None
        if type(params) is not dict:
            raise ConfigError(f"loading the agent {reference}: its parameters are not a JSON object; use JSON values as parameters")
        self.name, self.params, self.callbacks = name, params, tuple(each for each in CALLBACKS if each in callbacks.split())

    def _describe_end(self) -> str:
        """Return how the process ended, as text: the exit code or the signal."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code is None:
            return "its process closed the connection"
        number = code - _SIGNALLED if code > _SIGNALLED else -code
        names = {member.value: member.name for member in signal.Signals}
        return f"its process was ended by {names.get(number, f'signal {number}')}" if number > 0 else f"its process ended with code {code}"

    # The run.

    def run(self, port: LocalPort, info: EpisodeInfo, seed: int) -> Failure | None:
        """Run the agent through all phases of the port's session. Returns the failure that stopped the agent early; None without one. info, seed:
        of `AgentContext`.
        """
        self._port, self._sizes = port, (len(info.markets), len(info.exogenous))
        failed = self._failure and replace(self._failure, at=port.session.now)
        if failed is None:
            try:
                self._send((info, seed), time.monotonic() + self._limits.decision)
                return port.run(self._call, self.callbacks)
            except (ChannelClosed, ChannelTimeout) as error:
                failed = self._build_failure(error, -1, port.session.now)
        return port.finish(failed)

    def _call(self, phase: str, step: int, news: News | None) -> Failure | None:
        """Send a phase to the agent, and answer its calls until the phase ends; as `runner.PhaseCaller`."""
        port, begun = self._port, time.monotonic()
        deadline, at = begun + min(self._limits.decision, self._left), port.read("now")
        try:
            self._send((phase, step, news, self._state()), deadline)
            while True:
                kind, values = parse_message(self._channel.receive(deadline), *self._sizes)
                if kind == "read":
                    self._send(port.read(*values), deadline)
                elif kind == "send" and (phase in ("act", "notify") or values[0] == "timer"):
                    self._send((port.send(*values), self._state()), deadline)
                elif kind == "done":
                    return None
                elif kind == "failed":
                    return self._build_reported(values, step, at)
                else:
                    raise MalformedMessage(f"{kind} in the phase {phase}")
        except (ChannelClosed, ChannelTimeout, MalformedMessage) as error:
            return self._build_failure(error, step, at)
        finally:
            self._left -= time.monotonic() - begun

    def _state(self) -> dict[str, Any]:
        return {name: self._port.read(name) for name in STATE}

    def _send(self, message: Any, deadline: float) -> None:
        self._channel.send(pickle.dumps(message), deadline)

    def _build_reported(self, values: list[str], step: int, at: int) -> Failure:
        """Build the `Failure` from an error of the agent that the process reported. values: type, message and traceback. step: number of
        the decision. at: simulated time, ns UTC.
        """
        kind, message, trace = values
        return Failure(sanitize_line(kind), sanitize_line(message), step, at, self._with_output(sanitize_text(trace)))

    def _build_failure(self, error: Exception, step: int, at: int) -> Failure:
        """Build the `Failure` of a process that ended, took too long or sent an invalid message. step: number of the decision. at:
        simulated time, ns UTC.
        """
        if isinstance(error, MalformedMessage):
            kind, message = "MalformedMessage", sanitize_line(f"its process sent {error}")
        elif isinstance(error, ChannelClosed):
            kind, message = "ProcessEnded", self._describe_end()
        elif self._left <= self._limits.decision:
            kind, message = "RunTimeout", "the calls of the run took longer than its limit in all"
        else:
            kind, message = "StepTimeout", STEP_TIMEOUT
        return Failure(kind, message, step, at, self._with_output(""))

    def _with_output(self, trace: str) -> str:
        printed = self._output()
        return "\n".join(part for part in (trace, f"The agent printed last:\n{printed}" if printed else "") if part)
