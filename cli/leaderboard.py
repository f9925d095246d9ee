"""`bellwether leaderboard`: leaderboards of releases and of the arena. Does not import Dagster."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from assets.arena.queries import print_rankings
from assets.benchmark.results import print_leaderboards
from bellwether.console import console
from bellwether.errors import ConfigError, suggestion
from bellwether.lake.warehouse import query
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.tables.arena import LEADERBOARD
from cli.delays import find_date, find_publication_date, print_date, warn_of_delays
from cli.options import INSTANT

#: Name of the arena's leaderboard among those of releases.
_ARENA = "arena"


@click.command()
@click.argument("names", nargs=-1, metavar="[RELEASE|arena]...")
@click.option(
    "--known-at",
    type=INSTANT,
    callback=lambda _, __, at: at and at.replace(tzinfo=UTC),
    help="Show the state known at this time (UTC; a day is its 00:00).",
)
def leaderboard(names: tuple[str, ...], known_at: datetime | None) -> None:
    """Show the leaderboards of releases and of the arena; all by default.

    Those of releases (question sets) are in the published warehouse. The arena ranks families, each one competitor over the years; weeks that
    were decided live and those computed afterwards (reconstructed) are separate. --known-at is for the arena.
    """
    if known_at is not None and set(names) != {_ARENA}:
        raise click.UsageError("--known-at is for the arena: `bellwether leaderboard arena --known-at TIME`.")
    releases = [name for name in names if name != _ARENA]
    if releases or not names:
        _show_releases(releases)
    if _ARENA in names or not names:
        _show_arena(known_at)


def _show_releases(releases: list[str]) -> None:
    """Print the leaderboards of releases; of all without names."""
    published = query(settings().warehouse_uri, "SELECT DISTINCT release FROM benchmark.leaderboard ORDER BY release")["release"].to_list()
    unknown = [name for name in releases if name not in published]
    if unknown:
        names = [*published, _ARENA]
        raise ConfigError(f"showing the leaderboard: the warehouse has no release {unknown[0]!r}; {suggestion(unknown[0], names)}")
    warn_of_delays([table("benchmark/leaderboard")], published=True)
    if not published:
        console().print("No release has been ranked yet; `bellwether demo` makes one.")
    print_leaderboards([name for name in published if not releases or name in releases])
    print_date(find_publication_date())


def _show_arena(known_at: datetime | None) -> None:
    """Print the rankings of the arena as stored, or as known at an instant."""
    if known_at is None:
        warn_of_delays([LEADERBOARD, table("arena/rankings")])
    print_rankings(known_at)
    print_date(find_date(LEADERBOARD, known_at))
