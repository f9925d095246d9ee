"""Isolated agents: each runs in its own process, which receives observations, returns orders, and has limited time and memory.

The process is a new interpreter without the tape and the environment of this process, and, where the system allows it, without network, files and
other processes. docs/agents.md lists what it can still access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.extras import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.isolation.settings import AgentSource, Confinement, Isolation

_HOMES = {"settings": ("AgentSource", "Confinement", "Isolation")}

__all__ = ["AgentSource", "Confinement", "Isolation"]

__getattr__ = lazy_names(__name__, _HOMES)
