"""Sources of an episode, and detection of episodes whose sources have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import polars as pl

from bellwether.lake import Lake
from bellwether.tables import Table, table


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of an episode in the lake. recording: SHA-256 of the stored frames. markets: UTC day -> SHA-256 of the pulled markets of that
    day.
    """

    recording: str
    markets: Mapping[str, str]

    @classmethod
    def of(cls, lake: Lake, recording: str) -> Sources:
        """Read the current sources. Raises `LakeError` if the lake has no such recording."""
        frames = lake.slice(table("raw/recordings"), [(recording,)]).manifests[0]
        return cls(frames.sha256, _digests(lake, table("raw/kalshi_markets")))

    def markets_digest(self, end: datetime) -> str:
        """Return the SHA-256 of the pulled markets of the days around the end of an episode, which may settle it."""
        days = [(end + timedelta(days=offset)).date().isoformat() for offset in (-1, 0, 1)]
        return sha256(" ".join(self.markets.get(day, "-") for day in days).encode()).hexdigest()


def outdated_episodes(lake: Lake, held: Mapping[str, str]) -> dict[str, str]:
    """Return the episodes to build: name -> text that identifies the current sources.

    held: recording of each episode. An episode is outdated if it was never built, if its frames have changed, or if it has an unsettled
    market and the pulled markets of the days around its end have changed. Recordings missing from the lake are omitted.
    """
    frames, markets = (_digests(lake, table(name)) for name in ("raw/recordings", "raw/kalshi_markets"))
    made = _load_built_episodes(lake)
    found = {}
    for name, recording in held.items():
        if recording not in frames:
            continue
        sources = Sources(frames[recording], markets)
        row = made.get(name)
        if row is None or row["recording_digest"] != sources.recording:
            found[name] = sources.recording[:16]
        elif row["unsettled"] and row["markets_digest"] != (now := sources.markets_digest(row["end_at"])):
            found[name] = f"{sources.recording[:16]}-{now[:16]}"
    return found


def _load_built_episodes(lake: Lake) -> dict[str, dict[str, Any]]:
    """Load for each episode in the lake its source digests, its end, and whether a market of it has no result."""
    declared = table("replay/episodes")
    current = {partition: manifest for partition, manifest in lake.intact_manifests(declared).items() if lake.is_sound(manifest)}
    rows = (
        lake.slice_from(declared, current)
        .scan()
        .group_by("episode")
        .agg(
            pl.col("recording_digest").first(),
            pl.col("markets_digest").first(),
            pl.col("end_at").max(),
            unsettled=pl.col("result").is_null().any(),
        )
        .collect()
    )
    return {row["episode"]: row for row in rows.iter_rows(named=True)}


def _digests(lake: Lake, declared: Table) -> dict[str, str]:
    return {partition[0]: manifest.sha256 for partition, manifest in lake.manifests(declared).items()}
