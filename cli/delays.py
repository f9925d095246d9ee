"""Dates of the tables that commands show, and warnings of failed and overdue rebuilds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import click

from bellwether.console import console
from bellwether.lake import Lake
from bellwether.lake.staleness import describe_delays, find_delays
from bellwether.lake.warehouse import describe_unpublished, publication_time
from bellwether.settings import settings
from bellwether.tables import Table


def warn_of_delays(tables: Iterable[Table], *, published: bool = False) -> None:
    """Print one line on standard error if a rebuild of the tables, or of tables from which they are computed, failed or is overdue.

    published: the tables are read from the published warehouse; rows that it lacks are reported, too.
    """
    tables, lake = list(tables), Lake.of(settings())
    texts = [describe_delays(find_delays(lake, tables))]
    if published:
        texts.append(describe_unpublished(lake, settings().warehouse_uri, tables))
    if line := " ".join(filter(None, texts)):
        click.echo(f"Warning: {line}", err=True)


def find_date(table: Table, known_at: datetime | None = None) -> datetime | None:
    """Return the time of an unpartitioned table of the lake: `known_at`, by default when it was computed; None if it is missing."""
    if known_at is not None:
        return known_at
    manifest = Lake.of(settings()).manifest(table, ())
    return manifest.written_at if manifest else None


def find_publication_date() -> datetime | None:
    """Return when the warehouse was published; None without a publication."""
    return publication_time(settings().warehouse_uri)


def print_date(at: datetime | None) -> None:
    """Print the time of a table that was shown; nothing for None."""
    if at is not None:
        console().print(f"As of {at:%Y-%m-%d %H:%M} UTC.", style="dim")
