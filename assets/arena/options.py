"""Options that several commands of the arena have."""

from __future__ import annotations

from datetime import UTC

import click

from bellwether.console import INSTANT

KNOWN_AT = click.option(
    "--known-at",
    type=INSTANT,
    callback=lambda _, __, at: at and at.replace(tzinfo=UTC),
    help="Show what was known at this time (UTC; a day is its 00:00): later trades, evidence and marks are left out.",
)
