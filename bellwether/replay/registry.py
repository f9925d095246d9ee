"""Registry of agents by name: built-in agents and the user's own. Unregistered classes are named by their file or module."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.replay.agents.loader import AgentSource, find_only_agent, load_agent_class
from bellwether.replay.settings import Limits
from bellwether.replay.units import SECOND
from bellwether.settings import settings

FILE = "agents.toml"


class RegisteredAgent(BaseModel):
    """Agent as it is registered: name, class, parameters and texts.

    Attributes:
        name: Unique name.
        agent: `package.module:Class`, or `file.py:Class` relative to the registry's file.
        title: Name in tables.
        description: Description in lists.
        params: Keyword arguments of the class.
        cadence_seconds: Default time between decisions, seconds; 300 if omitted.
        isolated: Run the agent in its own process.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    agent: str = Field(pattern=r"^[^:]+:[A-Za-z_]\w*$")
    title: str = ""
    description: str = ""
    params: dict[str, Any] = {}
    cadence_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    isolated: bool = False

    @property
    def cadence(self) -> int | None:
        """Time between decisions, ns; None if the registry states none."""
        return None if self.cadence_seconds is None else round(self.cadence_seconds * SECOND)

    @property
    def language_model(self) -> str | None:
        """Name of the agent's language model in the registry of models; None without one."""
        model = self.params.get("model")
        return model if isinstance(model, str) else None

    def source(self, params: Mapping[str, Any] | None = None) -> AgentSource:
        """Return the reference from which any process loads the agent. params: override registered parameters of the same name."""
        return AgentSource(self.agent, {**self.params, **(params or {})}, self.name)


def agents(folder: Path | None = None) -> dict[str, RegisteredAgent]:
    """Return all registered agents by name: built-in agents, then the user's own. folder: registry of the user's agents. Default: that of
    the settings.

    Raises `ConfigError` naming file, entry, field and value for an invalid entry. Classes are not imported.
    """
    return {name: _parse_entry(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}


def competitors(folder: Path | None = None) -> dict[str, RegisteredAgent]:
    """Return the agents that trade every episode automatically.

    Their language model, if they have one, is one of those that take part automatically in this world.
    """
    from bellwether import forecasting

    models = forecasting.competitors(folder)
    return {name: entry for name, entry in agents(folder).items() if entry.language_model is None or entry.language_model in models}


def find_agent(
    name: str, folder: Path | None = None, *, isolated: Limits | None = None, params: Mapping[str, Any] | None = None
) -> RegisteredAgent:
    """Find an agent by its name in the registry, or as `file.py`, `file.py:Class` or `module:Class`.

    Args:
        name: Name or class; for `file.py` the only agent in the file.
        folder: Folder of the registry. Default: that of the settings.
        isolated: Load an unregistered agent in its own process with these limits. A class that fails there is named after itself.
        params: Parameters of the agent in that process.

    Raises:
        ConfigError: The agent is unknown or cannot be loaded.
    """
    if name.endswith(".py"):
        name = f"{name}:{find_only_agent(Path(name))}"
    if ":" in name:
        return _load_unregistered(name, isolated, params or {})
    registered = agents(folder)
    if name in registered:
        return registered[name]
    close = get_close_matches(name, registered, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(registered)};"
    raise ConfigError(f"no agent is called {name!r:.60}; {hint} `bellwether agents` lists them, and file.py names your own")


def _parse_entry(entry: registry.Entry) -> RegisteredAgent:
    agent = entry.parse(RegisteredAgent)
    where, _, name = agent.agent.rpartition(":")
    if not where.endswith(".py"):
        return agent
    path = Path(entry.file).parent / where
    if not path.is_file():
        raise entry.error("agent", f"the file {path} is missing", "correct the path, which is relative to the registry's file")
    return agent.model_copy(update={"agent": f"{path.absolute()}:{name}"})


def _load_unregistered(reference: str, isolated: Limits | None, params: Mapping[str, Any]) -> RegisteredAgent:
    where, _, name = reference.rpartition(":")
    if not where or not name.isidentifier():
        raise ConfigError(f"no agent is called {reference!r:.80}; write my_file.py:MyAgent")
    if where.endswith(".py"):
        where = str(Path(where).absolute())
    found = f"{where}:{name}"
    if isolated is None:
        return RegisteredAgent(name=load_agent_class(found).name, agent=found)
    from bellwether.replay.isolation.host import IsolatedAgent

    return RegisteredAgent(name=IsolatedAgent(AgentSource(found, params), isolated).find_name(), agent=found)
