"""Partitions of replay: episodes, and the agents that trade them."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from assets.benchmark.partitions import is_new
from bellwether.lake import Manifest
from bellwether.lake.partitions import Partition
from bellwether.settings import settings

EPISODE = dg.DynamicPartitionsDefinition(name="episode")
AGENT = dg.DynamicPartitionsDefinition(name="agent")
EPISODE_AGENT = dg.MultiPartitionsDefinition({"episode": EPISODE, "agent": AGENT})


def automatic(episodes: Mapping[Partition, Manifest]) -> list[Partition]:
    """Episodes and agents that are run without a request: those that cost nothing, and on new episodes those whose model the settings name."""
    from bellwether.replay.registry import competitors

    paid = {name for name, entry in competitors().items() if entry.asks in settings().models}
    return [(episode, name) for (episode,), made in episodes.items() for name in competitors() if is_new(made) or name not in paid]
