"""Isolated agents: each runs in its own process, with limited time and memory.

The process is a new Python interpreter without the tape and the environment of this process. Where the system allows it, the process has no
network, no other files and no access to other processes. docs/agents.md lists what an isolated agent can still access.
"""

from bellwether.replay.isolation.settings import AgentSource, Confinement, Isolation

__all__ = ["AgentSource", "Confinement", "Isolation"]
