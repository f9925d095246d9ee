"""Agents in a process of their own: only observations go in, only orders come out, and time and memory are limited.

The process is a fresh interpreter without the tape, without this process's environment, and, where the system can forbid it, without network, files
and other processes. docs/agents.md lists what it can still reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.extras import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.isolation.settings import AgentSource, Confinement, Isolation

_HOMES = {"settings": ("AgentSource", "Confinement", "Isolation")}

__all__ = ["AgentSource", "Confinement", "Isolation"]

__getattr__ = lazy_names(__name__, _HOMES)
