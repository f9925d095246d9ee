"""The domain of the venues: what they list and stream, and its clean form."""

from __future__ import annotations

from bellwether.domains.domain import Domain

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
)
