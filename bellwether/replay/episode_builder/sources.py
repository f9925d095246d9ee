"""Sources in the lake from which episodes are built, detection of episodes that are out of date, and rows of `replay/episodes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bellwether.lake import Lake
from bellwether.replay import units
from bellwether.tables import Table, table
from bellwether.tables.replay import EPISODES

if TYPE_CHECKING:
    from bellwether.replay.episode.folder import Episode
    from bellwether.replay.episode.model import Market, Settlement


@dataclass(frozen=True, slots=True)
class Sources:
    """Digests of the data in the lake from which an episode is built.

    recording: of the stored frames. markets: of the pulled markets by UTC day.
    """

    recording: str
    markets: Mapping[str, str]

    @classmethod
    def of(cls, lake: Lake, recording: str) -> Sources:
        """Read the digests of the current sources of a recording's episodes. Raises `LakeError` if the lake lacks the recording."""
        frames = lake.slice(table("raw/recordings"), [(recording,)]).manifests[0]
        return cls(frames.digest, _digests(lake, table("raw/kalshi_markets")))

    def markets_digest(self, end: datetime) -> str:
        """Return the SHA-256, in hex, of the markets pulled on the days around `end` (of an episode), which may contain its settlements."""
        days = [(end + timedelta(days=offset)).date().isoformat() for offset in (-1, 0, 1)]
        return sha256(" ".join(self.markets.get(day, "-") for day in days).encode()).hexdigest()


def outdated_episodes(lake: Lake, recordings: Mapping[str, str]) -> dict[str, str]:
    """Return the episodes to build or rebuild, each with a text that identifies its current sources.

    recordings: recording of each episode. An episode is outdated if it was never built, if its frames have changed, or if it has an unsettled
    market and the pulled markets of the days around its end have changed. Recordings missing from the lake are omitted.
    """
    frames, markets = (_digests(lake, table(name)) for name in ("raw/recordings", "raw/kalshi_markets"))
    built = _load_built_episodes(lake)
    outdated = {}
    for name, recording in recordings.items():
        if recording not in frames:
            continue
        sources = Sources(frames[recording], markets)
        row = built.get(name)
        if row is None or row["recording_digest"] != sources.recording:
            outdated[name] = sources.recording[:16]
        elif row["unsettled"] and row["markets_digest"] != (digest := sources.markets_digest(row["end_at"])):
            outdated[name] = f"{sources.recording[:16]}-{digest[:16]}"
    return outdated


def _load_built_episodes(lake: Lake) -> dict[str, dict[str, Any]]:
    """Load by name the episodes in the lake: digests of their sources, end, and whether a market is unsettled."""
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
    """Return the digest of the rows of each partition of a table."""
    return {partition[0]: manifest.digest for partition, manifest in lake.manifests(declared).items()}


def episode_rows(episode: Episode, sources: Sources) -> pl.DataFrame:
    """Build an episode's rows of `replay/episodes`, one per market. sources: digests of its inputs."""
    about, content = episode.metadata, episode.content
    book_rows, trades = (np.bincount(part.ticker, minlength=len(about.markets)).tolist() for part in (content.book, content.trades))
    lots = np.zeros(len(about.markets), np.int64)
    np.add.at(lots, content.trades.ticker, content.trades.lots)
    ends = [about.end, *(settlement.at for settlement in content.settlements if settlement.at is not None)]
    common = {
        "episode": episode.id,
        "event": about.event_slug,
        "venue": about.venue,
        "title": about.title,
        "recording": about.source.get("recording"),
        "start_at": about.start,
        "end_at": max(ends),
        "mutually_exclusive": about.mutually_exclusive,
        "warnings": list(episode.warnings),
        "digest": episode.digest,
        "recording_digest": sources.recording,
        "markets_digest": sources.markets_digest(datetime.fromtimestamp(max(ends) // units.SECOND, UTC)),
        "folder": episode.folder.name,
        "known_at": datetime.fromtimestamp(max(ends) // units.SECOND, UTC),
    }
    rows = []
    for code, (market, settlement) in enumerate(zip(about.markets, content.settlements, strict=True)):
        counts = {"book_rows": book_rows[code], "trades": trades[code], "volume": Decimal(int(lots[code])).scaleb(-2)}
        gaps = sum(gap.ticker == market.ticker for gap in about.gaps)
        rows.append({**common, **_market_row(market, settlement), **counts, "gaps": gaps})
    return EPISODES.frame(rows)


def _market_row(market: Market, settlement: Settlement) -> dict[str, Any]:
    multiplier = market.fee.get("multiplier")
    return {
        "ticker": market.ticker,
        "open_time": market.open_time,
        "close_time": market.close,
        "fee_type": market.fee.get("type"),
        "fee_multiplier": None if multiplier is None else Decimal(str(multiplier)).quantize(Decimal("0.000001")),
        "default_fee": market.has_default_fee,
        "settled_at": settlement.at,
        "result": settlement.result,
        "result_source": settlement.source,
        "settlement_value": None if settlement.value is None else units.dollars(settlement.value),
    }
