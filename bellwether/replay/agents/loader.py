"""Loader of agent classes from installed modules and files."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from bellwether.errors import BellwetherError, ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, callbacks_of
from bellwether.replay.agents.limits import StepLimit, StepTimeout

#: Serializes the import of files, so that no thread sees an incomplete module.
_LOADING = threading.RLock()


def load_agent_class(reference: str) -> type[Agent]:
    """Import the agent class that `reference` names: `file.py:Class` or `package.module:Class`. Raises `ConfigError` if the import fails or
    the class is no agent.
    """
    where, _, name = reference.rpartition(":")
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    kind = getattr(module, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Agent)):
        classes = [
            key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Agent) and value is not Agent
        ]
        raise ConfigError(
            f"loading the agent {reference}: {name} is not a subclass of Agent; its subclasses of Agent: {', '.join(classes) or 'none'}"
        )
    check_complete(kind)
    return kind


def find_only_agent(path: Path) -> str:
    """Return the name of the only agent class in a file, whose source is parsed and not run. Raises `ConfigError` for no agent class and
    for several.
    """
    try:
        classes = [node for node in ast.parse(path.read_bytes(), path.name).body if isinstance(node, ast.ClassDef)]
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise ConfigError(f"loading an agent from {path}: {_format_error(error)}; correct the file or its name") from error
    bases = {node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases} for node in classes}
    agents: list[str] = []
    for name, of in bases.items():  # a class follows those that it derives from
        if of & {Agent.__name__, CompiledAgent.__name__, *agents}:
            agents.append(name)
    names = [name for name in agents if not any(name in of for of in bases.values())]
    if len(names) != 1:
        problem = f"several agents, {', '.join(names)}" if names else "no class that derives from Agent"
        raise ConfigError(f"loading an agent from {path}: it has {problem}; name one as {path.name}:{names[0] if names else 'Class'}")
    return names[0]


def check_complete(cls: type[Agent]) -> None:
    """Raise `ConfigError` if an agent class lacks a required method."""
    if issubclass(cls, CompiledAgent):
        missing = (
            "strategy" if not hasattr(cls, "strategy") else "numbers(self, episode, seed)" if cls.numbers is CompiledAgent.numbers else ""
        )
        plain = [name for name in callbacks_of(cls) if not hasattr(getattr(cls, name), "py_func")]
        if plain:
            raise ConfigError(f"loading the agent {cls.__name__}: its {plain[0]} is not compiled; write a function under @strategy")
    else:
        missing = "act(self, ctx)" if cls.act is Agent.act else ""
    if missing:
        raise ConfigError(f"loading the agent {cls.__name__}: it has no {missing}; write one")


@dataclass(frozen=True, slots=True)
class AgentSource:
    """Name of an agent class, with the parameters for its instances, which can be loaded in any process.

    Attributes:
        reference: `file.py:Class` or `package.module:Class`.
        params: Keyword arguments of the class.
        name: Name in seeds and results. Default: that of the class.
    """

    reference: str
    params: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None

    @classmethod
    def of(cls, agent: Agent | type[Agent]) -> AgentSource:
        """Build the source of an agent or agent class. Raises `ConfigError` if another process cannot load the class, or if agents of its
        kind cannot be isolated.
        """
        kind = agent if isinstance(agent, type) else type(agent)
        check_isolable(kind)
        name, params = (agent.name, agent.params) if isinstance(agent, Agent) else (None, {})
        module = sys.modules.get(kind.__module__)
        if getattr(module, kind.__qualname__, None) is not kind:
            raise ConfigError(f"isolating the agent {kind.__qualname__}: another process cannot load it; define it at the top of a module")
        file = getattr(module, "__file__", None)
        is_installed = kind.__module__ != "__main__" and PathFinder.find_spec(kind.__module__.partition(".")[0]) is not None
        if not is_installed and file is None:
            raise ConfigError(f"isolating the agent {kind.__qualname__}: its module {kind.__module__} has no file; write it to a file")
        return cls(f"{kind.__module__ if is_installed else file}:{kind.__qualname__}", params, name)

    def make(self) -> Agent:
        """Create the agent. Raises `ConfigError` for a class that cannot be loaded or an invalid parameter, and the errors of `__init__`."""
        agent = load_agent_class(self.reference)(**self.params)
        if self.name is not None:
            agent.name = self.name
        return agent

    def check(self, seconds: float) -> type[Agent]:
        """Load the class and create an agent to check the parameters. Returns the class. Raises `ConfigError` if the class cannot be loaded
        or rejects the parameters. Other errors of `__init__` are ignored. seconds: time limit of `__init__`.
        """
        kind = load_agent_class(self.reference)
        with StepLimit(seconds) as limit:
            limit.begin()
            try:
                self.make()
            except BellwetherError:
                raise
            except (Exception, StepTimeout, SystemExit):
                return kind
            finally:
                limit.stop()
        return kind


def check_isolable(kind: type[Agent]) -> None:
    """Raise `ConfigError` if agents of a class cannot be isolated: compiled ones, and those that wait for a service."""
    if issubclass(kind, CompiledAgent):
        raise ConfigError(
            f"isolating the agent {kind.name}: compiled agents run within the simulator and cannot be isolated; "
            "run it without isolation, or write it with act(self, ctx)"
        )
    if not kind.timed:
        raise ConfigError(
            f"isolating the agent {kind.name}: it sends requests to a service such as a language model, and an isolated agent has no network; "
            "run it without isolation"
        )


def _format_error(error: BaseException) -> str:
    """Return the type of an error and the first line of its message, as one text."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ConfigError(
            f"loading an agent: the module {name} cannot be imported: {_format_error(error)}; correct its name or install it"
        ) from error


def _import_file(path: Path) -> ModuleType:
    """Import a file as a module. Each path is imported once."""
    path = path.absolute()
    if not path.is_file():
        raise ConfigError(f"loading an agent: the file {path} does not exist; correct its name")
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    with _LOADING:
        return sys.modules[name] if name in sys.modules else _execute_file(path, name)


def _execute_file(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(f"loading an agent from {path}: {_format_error(error)}; correct the file") from error
    return module
