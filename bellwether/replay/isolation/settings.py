"""Settings of isolated agents: source and limits of an agent, and protections by the system."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder

import orjson

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent
from bellwether.replay.agents.loader import AgentReference

_LEAST_MEMORY = 256 << 20


@dataclass(frozen=True, slots=True)
class Isolation:
    """Limits of an isolated agent, in addition to `BacktestSettings.seconds_per_step`. Raises `ConfigError` for values out of range.

    Attributes:
        memory: Limit of the address space, bytes; at least 256 MiB.
        seconds_per_run: Limit of the total real time of its decisions, seconds.
        partial: Accept a system without namespaces. `Backtest.confinement` lists the missing protections.
    """

    memory: int = 2 << 30
    seconds_per_run: float = 3600.0
    partial: bool = False

    def __post_init__(self) -> None:
        if type(self.memory) is not int or not self.memory >= _LEAST_MEMORY:
            raise ConfigError(f"isolating an agent: memory is {self.memory!r:.60}; give {_LEAST_MEMORY:,} bytes or more")
        if not self.seconds_per_run > 0:
            raise ConfigError(f"isolating an agent: seconds_per_run is {self.seconds_per_run!r:.60}; give a number above 0")


@dataclass(frozen=True, slots=True)
class Confinement:
    """Protections against an isolated agent. Each field names the system features that provide a protection; None if it is unavailable.

    Attributes:
        network: Protection of the network from access.
        files: Protection of the contents of files that are not visible to the agent.
        processes: Protection of other processes.
        memory: Limit of memory.
        names: Protection of the names, sizes and times of files that are not visible to the agent.
    """

    network: str | None = None
    files: str | None = None
    processes: str | None = None
    memory: str | None = None
    names: str | None = None

    @property
    def open(self) -> tuple[str, ...]:
        """Names of the unavailable protections."""
        return tuple(name for name in self.__slots__ if getattr(self, name) is None)

    def __str__(self) -> str:
        protected = ", ".join(f"{name} ({means})" for name in self.__slots__ if (means := getattr(self, name)) is not None)
        unprotected = ", ".join("names, sizes and times of files" if name == "names" else name for name in self.open)
        return f"kept from it: {protected or 'nothing'}" + (f"; this system cannot keep from it: {unprotected}" if unprotected else "")


@dataclass(frozen=True, slots=True)
class AgentSource(AgentReference):
    """Reference to an agent that another process loads. Raises `ConfigError` for parameters that are not JSON values."""

    def __post_init__(self) -> None:
        values = dict(self.params)
        try:
            same = orjson.loads(orjson.dumps(values)) == values
        except (orjson.JSONEncodeError, orjson.JSONDecodeError):
            same = False
        if not same:
            raise ConfigError(
                f"isolating the agent {self.reference}: its parameters {values!r:.200} are not all JSON values; give JSON values"
            )

    @classmethod
    def of(cls, agent: Agent | type[Agent]) -> AgentSource:
        """Build the source of an agent or agent class. Raises `ConfigError` if another process cannot load the class, or if agents of its
        kind cannot be isolated.
        """
        kind = agent if isinstance(agent, type) else type(agent)
        check_isolable(kind.name, kind_of(kind))
        name, params = (agent.name, agent.params) if isinstance(agent, Agent) else (None, {})
        module = sys.modules.get(kind.__module__)
        if getattr(module, kind.__qualname__, None) is not kind:
            raise ConfigError(f"isolating the agent {kind.__qualname__}: another process cannot load it; define it at the top of a module")
        file = getattr(module, "__file__", None)
        is_installed = kind.__module__ != "__main__" and PathFinder.find_spec(kind.__module__.partition(".")[0]) is not None
        if not is_installed and file is None:
            raise ConfigError(f"isolating the agent {kind.__qualname__}: its module {kind.__module__} has no file; write it to a file")
        return cls(f"{kind.__module__ if is_installed else file}:{kind.__qualname__}", params, name)


def kind_of(agent: type[Agent]) -> str:
    """Return the kind of an agent class: timed (time limits apply), waiting (for a service, without time limits) or compiled."""
    return "compiled" if issubclass(agent, CompiledAgent) else "timed" if agent.timed else "waiting"


def check_isolable(name: str, kind: str) -> None:
    """Raise `ConfigError` if the agent `name` cannot be isolated. kind: result of `kind_of`."""
    if kind == "compiled":
        raise ConfigError(
            f"isolating the agent {name}: compiled agents run within the simulator and cannot be isolated; "
            "run it without isolation, or write it with act(self, ctx)"
        )
    if kind == "waiting":
        raise ConfigError(
            f"isolating the agent {name}: it sends requests to a service such as a language model, and an isolated agent has no network; run it without isolation"
        )
