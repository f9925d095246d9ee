"""The domain of replay: episodes made from recordings, and what agents earn in them."""

from __future__ import annotations

from bellwether.domains.domain import Domain

REPLAY = Domain(
    "replay",
    groups={"replay": "recorded episodes, what agents earn in them, and how they compare (`replay/summary`)"},
    tables=("bellwether.tables.replay",),
    rules="bellwether.checks.replay",
    definitions="assets.replay.definitions",
    partitions={"agent": "bellwether.replay.registry:agents"},
    demo="assets.replay.runs:demo",
    results="assets.replay.results:demo",
)
