"""Builder of episodes from recordings, one episode per event."""

from bellwether.replay.episode_builder.build import Outcomes, build, build_recording, episode_ids, events_of, frames_of_table
from bellwether.replay.episode_builder.listings import (
    ListedEvent,
    ListedMarket,
    Listings,
    Overrides,
    load_listings,
    load_listings_with_overrides,
    parse_listings,
    parse_overrides,
    parse_results,
    with_fees,
)

__all__ = [
    "ListedEvent",
    "ListedMarket",
    "Listings",
    "Outcomes",
    "Overrides",
    "build",
    "build_recording",
    "episode_ids",
    "events_of",
    "frames_of_table",
    "load_listings",
    "load_listings_with_overrides",
    "parse_listings",
    "parse_overrides",
    "parse_results",
    "with_fees",
]
