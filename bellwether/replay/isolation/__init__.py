"""Isolated agents: each runs in its own process under bubblewrap, with limited time and memory.

The process is a new Python interpreter without the tape and the environment of this process. It has no network, no other files and no
access to other processes. docs/agents.md lists what an isolated agent can still access.
"""
