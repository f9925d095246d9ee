"""Simulator side of an isolated agent: it starts the agent process, enforces time limits and answers requests."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import orjson

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import CALLBACKS, Callbacks, default_name
from bellwether.replay.agents.failures import STEP_TIMEOUT, Failure, sanitize_line, sanitize_text
from bellwether.replay.agents.local_port import LocalPort
from bellwether.replay.agents.port import News
from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.agents.runner import finish_session, run_phases
from bellwether.replay.engine import Session
from bellwether.replay.isolation.filesystem import visible_files
from bellwether.replay.isolation.settings import AgentSource, Confinement, Isolation, check_isolable
from bellwether.replay.isolation.wire import STATE, Channel, ChannelClosed, ChannelTimeout, MalformedMessage, parse_message

_PROGRAM = (
    "import sys; from ast import literal_eval; sys.path[:] = literal_eval(sys.argv[1]); "
    "from bellwether.replay.isolation.child import main; main(int(sys.argv[2]))"
)
#: Environment of the agent's process, in addition to the search paths of shared libraries.
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
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


#: Limit of the start of Python and its packages, before any code of the agent, real seconds.
_STARTING = 600.0
#: Limit for the parent of an agent process to kill it, real seconds.
_ENDING = 30.0
#: Exit code of the parent of an agent process that a signal ended, less the signal.
_SIGNALLED = 128


@dataclass(frozen=True, slots=True)
class AgentDescription:
    """Description of an agent that the agent's own process sent; untrusted.

    Attributes:
        name: Name of the agent.
        params: Parameters, parsed from JSON.
        kind: timed, waiting or compiled.
        about: First line of the class docstring.
        callbacks: Callbacks that the agent defines.
    """

    name: str
    params: Mapping[str, Any]
    kind: str
    about: str = ""
    callbacks: Callbacks = field(default_factory=Callbacks)


class IsolatedAgent:
    """Context manager that runs an agent in its own process: started on entry, killed on exit.

    An agent that cannot be loaded counts as failed before its first decision. seconds: limit of loading the agent and of each decision.
    Raises `ConfigError` on entry if this system cannot isolate the agent or if its file is missing.
    """

    def __init__(self, source: AgentSource, limits: Isolation, seconds: float) -> None:
        self._source, self._limits, self._seconds = source, limits, seconds
        self._left = limits.seconds_per_run
        self.confinement = Confinement()
        self.loaded = AgentDescription(source.name or default_name(source.reference.rpartition(":")[2]), source.params, "timed")
        self._failure: Failure | None = None

    def __enter__(self) -> Self:
        self._start(class_alone=False)
        try:
            self._load(class_alone=False)
        except ConfigError as error:
            self._failure = Failure("ConfigError", sanitize_line(str(error)), -1, 0)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def describe(self) -> AgentDescription:
        """Load the agent's class in a process of its own and return the description. Raises `ConfigError` if this system cannot isolate
        agents, and for agents that cannot be isolated.
        """
        self._start(class_alone=True)
        try:
            self._load(class_alone=True)
        finally:
            self._stop()
        return self.loaded

    # The process.

    def _start(self, *, class_alone: bool) -> None:
        plan = self._plan(class_alone=class_alone)
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _ENVIRONMENT
        paths = [os.path.abspath(entry) for entry in sys.path if entry]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-s", "-c", _PROGRAM, repr(paths), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        self._socket, self._reading = ours, reading
        self._channel = Channel(ours.fileno(), reading)
        try:
            self._confine(plan)
        except BaseException:
            self._stop()
            raise

    def _confine(self, plan: dict[str, Any]) -> None:
        """Send `plan`, and wait until the process has confined itself; none of the agent's code runs before. Raises `ConfigError` if the
        confinement fails.
        """
        problem, deadline = f"isolating the agent {self._source.reference}", time.monotonic() + _STARTING
        try:
            self._channel.send(pickle.dumps(plan), deadline)
            name, values = parse_message(self._channel.receive(deadline))
        except (ChannelClosed, ChannelTimeout, MalformedMessage):
            raise ConfigError(
                f"{problem}: its process did not start: {self._describe_end()}\n{sanitize_text(self._channel.printed)}".rstrip()
            ) from None
        if name != "confined":
            raise ConfigError(
                f"{problem}: this system provides {sanitize_line(values[0])}; allow unprivileged user namespaces (a container: also the system calls unshare, "
                "mount and pivot_root), or accept partial isolation with --isolation partial, in Python Isolation(partial=True)"
            )
        self.confinement = Confinement(*(means or None for means in values))

    def _stop(self) -> None:
        """Kill the process and wait for its end."""
        if self.confinement.names is not None:
            # The parent of the agent process kills it and waits for it.
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING)
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        self._socket.close()
        os.close(self._reading)

    def _plan(self, *, class_alone: bool) -> dict[str, Any]:
        """Build the first message to the process. class_alone: describe the class, without an agent. Raises `ConfigError` for a file that
        is missing or must not be visible to an agent.
        """
        source, limits = self._source, self._limits
        where, _, name = source.reference.rpartition(":")
        if where.endswith(".py"):
            where = os.path.abspath(where)
            if not os.path.isfile(where):
                raise ConfigError(f"loading an agent: the file {where} does not exist; correct its name")
        files, links = visible_files(f"{where}:{name}")
        return {
            "reference": f"{where}:{name}",
            "params": None if class_alone else dict(source.params),
            "name": source.name,
            "files": files,
            "links": links,
            "memory": limits.memory,
            "partial": limits.partial,
        }

    def _load(self, *, class_alone: bool) -> None:
        """Receive the description of the loaded agent, or store the failure of loading. class_alone: only the class is loaded. Raises
        `ConfigError` for agents that cannot be isolated.
        """
        begun = time.monotonic()
        try:
            name, values = parse_message(self._channel.receive(begun + min(self._seconds, self._left)))
            if name == "loaded":
                self.loaded = self._check_description(*values, class_alone=class_alone)
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

    def _check_description(self, name: str, text: str, kind: str, callbacks: str, *, class_alone: bool) -> AgentDescription:
        reference = self._source.reference
        if not name or name != sanitize_line(name) or len(name) > 100:
            raise ConfigError(f"loading the agent {reference}: its name is {name!r:.60}; give it one of at most 100 printable characters")
        check_isolable(name, kind)
        if class_alone:
            return AgentDescription(name, {}, kind, sanitize_line(text))
        try:
            params = orjson.loads(text)
        except orjson.JSONDecodeError:
            params = None
        if type(params) is not dict:
            raise ConfigError(f"loading the agent {reference}: its parameters are not a JSON object; use JSON values as parameters")
        return AgentDescription(name, params, kind, callbacks=Callbacks(**{each: each in callbacks.split() for each in CALLBACKS}))

    def _describe_end(self) -> str:
        """Return how the process ended, as text: the exit code or the signal."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code is None:
            return "its process closed the connection"
        number = code - _SIGNALLED if self.confinement.names is not None else -code
        names = {member.value: member.name for member in signal.Signals}
        return f"its process was ended by {names.get(number, f'signal {number}')}" if number > 0 else f"its process ended with code {code}"

    # The run.

    def run(self, session: Session, port: LocalPort, info: EpisodeInfo, seed: int) -> Failure | None:
        """Run the agent through all phases of a session. Returns the failure that stopped the agent early; None without one. info, seed:
        of `AgentContext`.
        """
        self._port, self._sizes = port, (len(info.markets), len(info.exogenous))
        failed = self._failure and replace(self._failure, at=session.now)
        if failed is None:
            try:
                self._send((info, seed), time.monotonic() + self._seconds)
                return run_phases(session, port, self._call, self.loaded.callbacks)
            except (ChannelClosed, ChannelTimeout) as error:
                failed = self._build_failure(error, -1, session.now)
        finish_session(session, failed)
        return failed

    def _call(self, phase: str, step: int, news: News | None) -> Failure | None:
        """Send a phase to the agent, and answer its calls until the phase ends; as `runner.PhaseCaller`."""
        port, begun = self._port, time.monotonic()
        deadline, at = begun + min(self._seconds, self._left), port.read("now")
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
        output = self._with_output("")
        if isinstance(error, MalformedMessage):
            return Failure("MalformedMessage", sanitize_line(f"its process sent {error}"), step, at, output)
        if isinstance(error, ChannelClosed):
            return Failure("ProcessEnded", self._describe_end(), step, at, output)
        if self._left <= self._seconds:
            return Failure("RunTimeout", "the decisions took longer than seconds_per_run in all", step, at, output)
        return Failure("StepTimeout", STEP_TIMEOUT, step, at, output)

    def _with_output(self, trace: str) -> str:
        printed = sanitize_text(self._channel.printed)
        return "\n".join(part for part in (trace, f"The agent printed last:\n{printed}" if printed else "") if part)
