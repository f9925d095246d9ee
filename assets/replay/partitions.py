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
    """List the pairs of episode and agent that run automatically: those of free agents, and on new episodes also of agents whose model is in the
    settings.
    """
    from bellwether.replay.registry import competitors

    paid = {name for name, entry in competitors().items() if entry.language_model in settings().models}
    return [(episode, name) for (episode,), manifest in episodes.items() for name in competitors() if is_new(manifest) or name not in paid]
