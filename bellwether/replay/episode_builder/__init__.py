"""Builder of episodes from recordings, one episode per event."""

from bellwether.replay.episode_builder.build import Outcomes, build, build_recording, episode_ids, events_of, frames_of_table
from bellwether.replay.episode_builder.listings import (
    ListedEvent,
    ListedMarket,
    Listings,
    load_listings,
    parse_fee,
    parse_listings,
    parse_results,
    with_fees,
)

__all__ = [
    "ListedEvent",
    "ListedMarket",
    "Listings",
    "Outcomes",
    "build",
    "build_recording",
    "episode_ids",
    "events_of",
    "frames_of_table",
    "load_listings",
    "parse_fee",
    "parse_listings",
    "parse_results",
    "with_fees",
]
