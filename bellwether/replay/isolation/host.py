"""Simulator side of an isolated agent: it starts the agent process, enforces time limits and answers requests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import orjson

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import default_name
from bellwether.replay.agents.failures import STEP_TIMEOUT, Failure, sanitize_line, sanitize_text
from bellwether.replay.agents.gateway import Gateway
from bellwether.replay.agents.records import Callbacks, EpisodeInfo
from bellwether.replay.agents.runner import decision_number, finish_session, run_phases
from bellwether.replay.engine import Session
from bellwether.replay.isolation.filesystem import visible_files
from bellwether.replay.isolation.settings import AgentSource, Confinement, Isolation, check_isolable
from bellwether.replay.isolation.wire_protocol import (
    REQUESTS,
    ChannelClosed,
    ChannelTimeout,
    MalformedMessage,
    MessageChannel,
    build_answer,
    check_request,
    read_state,
)

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
        #: The agent reports that it has read values that depend on its fills.
        self.reacts = False

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
        self._channel = MessageChannel(ours.fileno(), reading)
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
            self._channel.send(plan, deadline)
            name, values = check_request(self._channel.receive(deadline))
        except (ChannelClosed, ChannelTimeout, MalformedMessage):
            raise ConfigError(
                f"{problem}: its process did not start: {self._describe_end()}\n{sanitize_text(self._channel.printed)}".rstrip()
            ) from None
        if name != "confined":
            raise ConfigError(
                f"{problem}: this system provides {sanitize_line(values[0])}; allow unprivileged user namespaces (a container: also the system calls unshare, "
                "mount and pivot_root), or accept partial isolation with --isolation partial, in Python Isolation(partial=True)"
            )
        self.confinement = Confinement(*values)

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
            name, values = check_request(self._channel.receive(begun + min(self._seconds, self._left)))
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
        return AgentDescription(name, params, kind, callbacks=Callbacks.parse(callbacks))

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

    def run(self, session: Session, gateway: Gateway, info: EpisodeInfo, **about: Any) -> Failure | None:
        """Run the agent through all phases of a session. Returns the failure that stopped the agent early; None without one. about: seed,
        calls_per_step, max_orders and series of `AgentContext`.
        """
        self._session, self._gateway, self._calls = session, gateway, about["calls_per_step"]
        fields = {**asdict(info), "markets": [astuple(market) for market in info.markets]}
        failed = self._failure and replace(self._failure, at=session.now)
        if failed is None:
            try:
                self._channel.send({**about, "seed": f"{about['seed']:x}", "info": fields}, time.monotonic() + self._seconds)
                return run_phases(session, gateway, self, self.loaded.callbacks)
            except (ChannelClosed, ChannelTimeout) as error:
                failed = self._build_failure(error, -1, session.now)
        finish_session(session, failed)
        return failed

    def call(self, phase: str, *news: Any) -> Failure | None:
        """Send a phase to the agent, and answer its requests until the phase ends. Arguments and result as in `AgentRunner.call`."""
        begun, at, step = time.monotonic(), self._session.now, decision_number(self._session, phase)
        deadline = begun + min(self._seconds, self._left)
        try:
            self._channel.send([phase, step, 0 if phase == "end" else self._calls, read_state(self._gateway), *news], deadline)
            while True:
                name, arguments = check_request(self._channel.receive(deadline))
                if name in REQUESTS:
                    self._channel.send(build_answer(self._gateway, name, arguments), deadline)
                elif name == "done":
                    self.reacts |= bool(arguments[0])
                    return None
                elif name == "failed":
                    return self._build_reported(arguments, step, at)
                else:
                    raise MalformedMessage(f"{name} while it ran")
        except (ChannelClosed, ChannelTimeout, MalformedMessage) as error:
            return self._build_failure(error, step, at)
        finally:
            self._left -= time.monotonic() - begun

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
