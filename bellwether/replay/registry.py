"""Registry of agents by name: the built-in ones, the user's own, and any class in a file of the user."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.loader import AgentReference, find_only_agent, load_agent_class
from bellwether.replay.isolation import AgentSource, Isolation
from bellwether.replay.units import SECOND
from bellwether.settings import settings

FILE = "agents.toml"


class RegisteredAgent(BaseModel):
    """Entry of the registry: reference of the class and its arguments.

    agent: `package.module:Class`, or `file.py:Class` relative to the registry's file. params: keyword arguments of the class.
    cadence_seconds: default time between decisions; 300 if omitted. isolated: run it in its own process; "partial": also if the system
    cannot isolate it fully.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    agent: str = Field(pattern=r"^[^:]+:[A-Za-z_]\w*$")
    title: str = ""
    description: str = ""
    params: dict[str, Any] = {}
    cadence_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    isolated: bool | Literal["partial"] = False

    @property
    def limits(self) -> Isolation | None:
        """Limits of its process; None if it runs in that of the simulator."""
        return Isolation(partial=self.isolated == "partial") if self.isolated else None

    @property
    def cadence(self) -> int | None:
        """Time between decisions, ns; None if the entry has none."""
        return None if self.cadence_seconds is None else round(self.cadence_seconds * SECOND)

    @property
    def asks(self) -> str | None:
        """Name of the language model that it uses in the registry; None without one."""
        model = self.params.get("model")
        return model if isinstance(model, str) else None

    def source(self) -> AgentSource:
        """Return the source from which another process loads it."""
        return AgentSource(self.agent, self.params, self.name)

    def make(self, **params: Any) -> Agent:
        """Make a new agent with `params` over the entry's own. Raises `ConfigError` for a class that cannot be loaded, and for unknown
        parameters.
        """
        return AgentReference(self.agent, {**self.params, **params}, self.name).make()


def agents(folder: Path | None = None) -> dict[str, RegisteredAgent]:
    """Return all agents by name: the built-in ones, then those of `folder` (by default the registry folder of the settings).

    Raises `ConfigError` naming file, entry, field and value for an invalid entry. Classes are not imported.
    """
    return {name: _registered(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}


def competitors(folder: Path | None = None) -> dict[str, RegisteredAgent]:
    """Return the agents that trade every episode automatically: those without a language model, or with one that takes part automatically
    in this world.
    """
    from bellwether.forecasting import competitors as asked

    models = asked(folder)
    return {name: entry for name, entry in agents(folder).items() if entry.asks is None or entry.asks in models}


def find_agent(name: str, folder: Path | None = None, *, isolated: Isolation | None = None, seconds: float = 60.0) -> RegisteredAgent:
    """Return the agent called `name`, the class `file.py:Class` or `module:Class`, or the only agent in `file.py`. Raises `ConfigError` for
    others.

    isolated: load such a class in its own process within `seconds`; one that fails there is named after its class.
    """
    if name.endswith(".py"):
        name = f"{name}:{find_only_agent(Path(name))}"
    if ":" in name:
        return _unregistered(name, isolated, seconds)
    known = agents(folder)
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)};"
    raise ConfigError(f"no agent is called {name!r:.60}; {hint} `bellwether agents` lists them, and file.py names your own")


def _registered(entry: registry.Entry) -> RegisteredAgent:
    found = entry.parse(RegisteredAgent)
    where, _, name = found.agent.rpartition(":")
    if not where.endswith(".py"):
        return found
    path = Path(entry.file).parent / where
    if not path.is_file():
        raise entry.error("agent", f"the file {path} is missing", "correct the path, which is relative to the registry's file")
    return found.model_copy(update={"agent": f"{path.absolute()}:{name}"})


def _unregistered(reference: str, isolated: Isolation | None, seconds: float) -> RegisteredAgent:
    where, _, name = reference.rpartition(":")
    if not where or not name.isidentifier():
        raise ConfigError(f"no agent is called {reference!r:.80}; write my_file.py:MyAgent")
    if where.endswith(".py"):
        where = str(Path(where).absolute())
    if isolated is not None:
        from bellwether.replay.isolation.host import IsolatedAgent

        there = IsolatedAgent(AgentSource(f"{where}:{name}"), isolated, seconds).describe()
        return RegisteredAgent(name=there.name, agent=f"{where}:{name}", description=there.about)
    found = load_agent_class(f"{where}:{name}")
    return RegisteredAgent(name=found.name, agent=f"{where}:{name}", description=(found.__doc__ or "").strip().partition("\n")[0])
