"""Venue domain: data pulled and recorded from Kalshi and Polymarket, and clean tables with the same columns for both."""

from __future__ import annotations

from bellwether.domains.domain import Domain

VENUES = Domain(
    "venues",
    groups={
        "raw": "data of the venues, typed, one partition per UTC day; rejected objects, and statistics of pulls. "
        "To pull days, launch the job `days`",
        "clean": "markets of both venues with outcomes, and point-in-time prices",
    },
    tables=("bellwether.tables.raw", "bellwether.tables.recordings", "bellwether.tables.clean"),
    rules="bellwether.checks.venues",
    definitions="assets.venues.definitions",
    demo="assets.venues.runs:demo",
)
