"""Partitions of replay: episodes, and the agents that trade them."""

from __future__ import annotations

import dagster as dg

EPISODE = dg.DynamicPartitionsDefinition(name="episode")
AGENT = dg.DynamicPartitionsDefinition(name="agent")
EPISODE_AGENT = dg.MultiPartitionsDefinition({"episode": EPISODE, "agent": AGENT})
