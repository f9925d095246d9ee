"""Replay domain: episodes built from recordings of order books, and the results of agents that traded in them."""

from __future__ import annotations

from bellwether.domains.domain import Domain

REPLAY = Domain(
    "replay",
    groups={"replay": "recorded episodes, results of agents in them, and their comparison (`replay/summary`)"},
    tables=("bellwether.tables.replay",),
    rules="bellwether.checks.replay",
    definitions="assets.replay.definitions",
    partitions={"agent": "bellwether.replay.registry:agents"},
    demo="assets.replay.runs:demo",
    results="assets.replay.results:demo",
)
