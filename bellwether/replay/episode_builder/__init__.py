"""Turns recordings into episodes: one per event, from frames in order of arrival."""

from bellwether.replay.episode_builder.build import Outcomes, build, build_recording, episode_ids, events_of, frames_of_table
from bellwether.replay.episode_builder.listings import Known, KnownEvent, KnownMarket, known_from_tables, known_in_lake, stated_results
from bellwether.replay.episode_builder.overrides import Overrides, known_with, overrides_of, with_fees

__all__ = [
    "Known",
    "KnownEvent",
    "KnownMarket",
    "Outcomes",
    "Overrides",
    "build",
    "build_recording",
    "episode_ids",
    "events_of",
    "frames_of_table",
    "known_from_tables",
    "known_in_lake",
    "known_with",
    "overrides_of",
    "stated_results",
    "with_fees",
]
