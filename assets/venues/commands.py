"""The command `bellwether pull`. Dagster is imported inside it."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import click

from bellwether.console import AS_JSON, DAY, console, emit
from bellwether.settings import settings
from orchestration.session import runner

ARCHIVE = click.option(
    "--archive/--no-archive",
    default=False,
    show_default=True,
    help="Scan the venue's archive first: needed for days before its cutoff (about 3 months back).",
)


@click.command()
@click.argument("first", type=DAY, metavar="FIRST")
@click.argument("last", type=DAY, required=False, metavar="[LAST]")
@click.option("--refresh", is_flag=True, help="Ask the venue again although everything is stored and final.")
@ARCHIVE
@AS_JSON
def pull(first: datetime, last: datetime | None, refresh: bool, archive: bool, as_json: bool) -> None:
    """Pull, clean and check the markets that closed on the UTC days FIRST to LAST (YYYY-MM-DD).

    An interrupted pull goes on where it stopped; days that are complete cost nothing.
    """
    until = (last or first).date()
    if until < first.date():
        raise click.BadParameter(f"LAST ({until}) is before FIRST ({first.date()})")
    _require_days(first.date(), until)
    import polars as pl

    from assets.venues import runs
    from assets.warehouse.runs import publish

    failed: runs.DaysFailed | None = None
    with runner() as work:
        try:
            runs.pull(work, first.date(), until, with_archive=archive, refresh=refresh)
        except runs.DaysFailed as error:
            failed = error
        publish(work)
        rejects = runs.rejects(work.lake, first.date(), until)
    summary: dict[str, Any] = {"runs": work.stats.runs, "fresh": work.stats.fresh, "seconds": work.stats.by_job}
    if as_json:
        emit({**summary, "rejects": rejects.with_columns(pl.col("day").cast(pl.String())).to_dicts()})
    else:
        console().print(f"Runs: {work.stats.runs}. Partitions that were fresh: {work.stats.fresh}. Rejects: {rejects['objects'].sum()}.")
        for line in runs.told(rejects):
            console().print(f"  {line}", markup=False, soft_wrap=True)
    if failed is not None:
        raise failed
    runs.require_rows(work.lake, rejects)


def _require_days(first: date, last: date) -> None:
    """Raise `click.BadParameter` for days that this world does not have."""
    begin, end = settings().first_day.date(), settings().now().date() - timedelta(days=1)
    for day in (first, last):
        if not begin <= day <= end:
            earlier = "; BELLWETHER_FIRST_DAY moves its first" if day < begin else ""
            raise click.BadParameter(f"{day} is no complete day of the world {settings().world}, which has {begin} to {end}{earlier}")
