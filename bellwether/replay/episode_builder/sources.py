"""Sources of an episode, and episodes whose sources have changed."""

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
    """The lake as an episode finds it. recording: SHA-256 of the stored frames. markets: UTC day -> SHA-256 of the pulled markets of that day."""

    recording: str
    markets: Mapping[str, str]

    @classmethod
    def of(cls, lake: Lake, recording: str) -> Sources:
        """As of now. Raises `LakeError` where the lake has no such recording."""
        frames = lake.slice(table("raw/recordings"), [(recording,)]).manifests[0]
        return cls(frames.sha256, _digests(lake, table("raw/kalshi_markets")))

    def markets_digest(self, end: datetime) -> str:
        """SHA-256 of the pulled markets of the days around the end of an episode, which may settle it."""
        days = [(end + timedelta(days=offset)).date().isoformat() for offset in (-1, 0, 1)]
        return sha256(" ".join(self.markets.get(day, "-") for day in days).encode()).hexdigest()


def outdated_episodes(lake: Lake, held: Mapping[str, str]) -> dict[str, str]:
    """Episodes to make: name -> what it would be made from, in a text that is another one when that has changed.

    held: the recording of each episode. One that was never made is to be made; one whose frames are others is; and one with a market that nothing
    settles is when the pulled markets of the days around its end are others. Recordings that the lake does not have are left out.
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
    """Of each episode that the lake has: what it was made from, its end, and whether a market of it has no result."""
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
