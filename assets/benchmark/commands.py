"""The command `bellwether run`. Dagster is imported inside it."""

from __future__ import annotations

import click

from assets.benchmark.releases import answer_and_publish
from assets.benchmark.results import show_leaderboards
from assets.venues.commands import ARCHIVE
from bellwether.console import AS_JSON
from orchestration.session import close, runner


@click.command()
@click.option("--days", default=3, show_default=True, type=click.IntRange(1, 2000), help="Complete UTC days to pull, up to yesterday.")
@click.option("--release", "releases", multiple=True, required=True, help="Release to build and score; may be repeated.")
@ARCHIVE
@AS_JSON
def run(days: int, releases: tuple[str, ...], archive: bool, as_json: bool) -> None:
    """Pull the last days of this world, build releases from all that is there, score every forecaster, publish."""
    from assets.venues.runs import last_days, pull
    from bellwether.questions import release

    for name in releases:
        release(name)  # said before anything is pulled
    with runner() as work:
        pull(work, *last_days(days), with_archive=archive)
        answer_and_publish(work, releases)
    close(work, as_json, results=show_leaderboards(releases, as_json))
