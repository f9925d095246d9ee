"""The domain of the venues: what they list and stream, and its clean form."""

from __future__ import annotations

from bellwether.domains.domain import Domain
from bellwether.lazy_commands import LazyCommand, PlatformCommand

VENUES = Domain(
    "venues",
    groups={
        "raw": "what the venues sent, typed, one partition per UTC day; rejects and pulls say what did not fit and what a pull took. "
        "To pull days, launch the job `days`",
        "clean": "markets of both venues with their outcomes, and prices at points in time",
    },
    tables=("bellwether.tables.raw", "bellwether.tables.recordings", "bellwether.tables.clean"),
    rules="bellwether.checks.venues",
    definitions="assets.venues.definitions",
    demo="assets.venues.runs:demo",
    commands=(
        PlatformCommand("pull", "assets.venues.commands:pull", "Pull, clean and check the markets of some days."),
        PlatformCommand("events", "bellwether.recordings.commands:events", "List and search the events that can be recorded now."),
        PlatformCommand("record", "bellwether.recordings.commands:record", "Record the order books and trades of events."),
        LazyCommand("recordings", "bellwether.recordings.commands:recordings", "List and import recordings of order books and trades."),
    ),
)
