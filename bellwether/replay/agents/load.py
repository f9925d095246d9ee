"""Finds the class of an agent, in an installed module or in anyone's file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent


def agent_class(reference: str) -> type[Agent]:
    """The class that `file.py:Class` or `package.module:Class` names. Raises `ConfigError` when it cannot be imported or is no agent."""
    where, _, name = reference.rpartition(":")
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, Agent)):
        classes = [
            key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Agent) and value is not Agent
        ]
        raise ConfigError(
            f"loading the agent {reference}: {name} is no class that derives from Agent; it has {', '.join(classes) or 'none'}"
        )
    return found


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"loading an agent: the module {name} cannot be imported: {error}; correct its name or install it") from error


def _file(path: Path) -> ModuleType:
    """The module in a file, imported once per path."""
    path = path.absolute()
    if not path.is_file():
        raise ConfigError(f"loading an agent: there is no file {path}; correct its name")
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        lines = str(error).splitlines()
        raise ConfigError(f"loading an agent from {path}: {type(error).__name__}: {lines[0] if lines else ''}; correct the file") from error
    return module
