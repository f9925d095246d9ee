"""Agents in a process of their own: only observations go in, only orders come out, and time and memory are limited.

The process is a fresh interpreter without the tape, without this process's environment, and, where the system can forbid it, without network, files
and other processes. docs/agents.md says what it can still reach.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bellwether.replay.isolation.settings import AgentSource, Confinement, Isolation

_HOME = {"AgentSource": "settings", "Confinement": "settings", "Isolation": "settings"}

__all__ = ["AgentSource", "Confinement", "Isolation"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
