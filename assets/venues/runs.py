"""Runs of outdated parts of the venues: the list of series, the archive, and days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import polars as pl

from assets.venues import jobs
from assets.venues.clean import CLEAN_TABLES
from assets.venues.raw import ARCHIVE_TABLES, DAY_TABLES, SERIES_TABLES
from bellwether.errors import BellwetherError, QualityError
from bellwether.lake import Lake
from bellwether.lake.staleness import TableInputs
from bellwether.settings import World, settings
from bellwether.tables import table
from bellwether.tables.raw import REJECTS
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.pull_choice import list_open_days
from bellwether.venues.wire.rejects import select_curable
from orchestration.home import STORAGE_ADVICE
from orchestration.runner import Launch, RunFailed, Runner


class DaysFailed(RunFailed):
    """Failure of some days; the others are stored."""


def pull_series(work: Runner, *, refresh: bool = False) -> None:
    """Pull the list of series, unless that was done less than a day ago."""
    work.reference(jobs.SERIES, *SERIES_TABLES, most_age=timedelta(days=1), refresh=refresh)


def scan_archive(work: Runner, *, refresh: bool = False) -> None:
    """Scan the venue's archive, unless that was done less than a week ago."""
    work.reference(jobs.ARCHIVE, *ARCHIVE_TABLES, most_age=timedelta(days=7), refresh=refresh)


def pull_days(work: Runner, first: date, last: date, *, refresh: bool = False) -> None:
    """Pull, clean and check the UTC close days from `first` to `last`; with `refresh` also those that are up to date.

    Raises `DaysFailed` at the end if some days failed, or the `RunFailed` of a single day.
    """
    wanted = _day_names(first, last)
    due = wanted if refresh else _outdated_days(work, wanted)
    work.stats.fresh += len(wanted) - len(due)
    config = {"ops": {f"{venue}_day": {"config": {"refresh": True}} for venue in ("kalshi", "polymarket")}} if refresh else {}
    failed = _run_days(work, due, config)
    if failed:
        told = "\n".join(f"  {day}: {text}" for day, text in sorted(failed.items()))
        raise DaysFailed(f"{len(failed)} of {len(wanted)} days failed; the others are stored:\n{told}", failed)


def _run_days(work: Runner, due: list[str], config: dict[str, Any]) -> dict[str, str]:
    """Run days. Days of a failed run that have no failure of their own are run again. Returns the reasons of failed days.

    Raises the failure of a single day, or of the storage.
    """
    failed = dict[str, str]()
    launches = work.launches(jobs.DAYS, DAY_TABLES[0], due, "day", config)
    with work.progress.stage("days", len(due)) as advance:
        tell = advance
        while launches:
            rest, apart = list[str](), list[Launch]()
            for one, error in zip(launches, work.launch_all(jobs.DAYS, launches, tell), strict=True):
                if error and (len(due) == 1 or STORAGE_ADVICE in str(error)):
                    raise error
                if error and len(one.partitions) == 1:
                    failed[one.partitions[0]] = str(error)
                elif error and error.partitions:
                    failed |= {day: text for day, text in error.partitions.items() if day in one.partitions}
                    rest += [day for day in one.partitions if day not in error.partitions]
                elif error:
                    apart += [Launch(f"day {day}", [day], one.config) for day in one.partitions]
            launches, tell = [*work.launches(jobs.DAYS, DAY_TABLES[0], rest, "day"), *apart], _ignore
    return failed


def _ignore(_: int) -> None:
    """Ignore the progress of retries."""


def count_rejects(lake: Lake, first: date, last: date) -> pl.DataFrame:
    """Count the rejects of days by venue, table, field and reason, most frequent first. `requested_again`: whether daily pulls retry them."""
    days = [(day,) for day in _day_names(first, last)]
    found = pl.concat([lake.slice(declared, days, missing="skip").read() for declared in REJECTS.values()])
    places = found.select("day", "venue", "table", "field", "reason")
    again = select_curable(places).with_columns(requested_again=True).unique()
    counted = places.group_by(pl.all()).len("objects").join(again, on=places.columns, how="left", nulls_equal=True)
    return counted.with_columns(pl.col("requested_again").fill_null(False)).sort(
        "objects", *places.columns, descending=[True, *[False] * 5], nulls_last=True
    )


def require_rows(lake: Lake, found: pl.DataFrame) -> None:
    """Raise `QualityError` if all markets of a venue's day were rejected. found: from `count_rejects`."""
    for day, venue in found.select("day", "venue").unique().sort("day", "venue").rows():
        markets = table(f"raw/{venue}_markets")
        ours = found.filter(pl.col("day") == day, pl.col("venue") == venue, pl.col("table") == markets.name)
        if ours.height and not lake.slice(markets, [(day.isoformat(),)], missing="skip").rows:
            raise QualityError(
                f"{day}: all {ours['objects'].sum()} market objects of {venue} were rejected, most of them because of {_format_reason(ours.row(0, named=True))}; "
                f"see raw.{venue}_rejects"
            )


def format_rejects(found: pl.DataFrame) -> list[str]:
    """Format rejects as lines with count, table, reason and next step."""
    whole = found.group_by("venue", "table", "field", "reason", maintain_order=True).agg(
        pl.col("objects").sum(), pl.col("requested_again").any()
    )
    rows = whole.sort("objects", descending=True, maintain_order=True).iter_rows(named=True)
    return [
        f"{row['objects']} of {row['table']}, {_format_reason(row)}; {'requested again by the daily pull' if row['requested_again'] else 'permanent'}"
        for row in rows
    ]


def _format_reason(row: Mapping[str, Any]) -> str:
    return f"{row['field']}: {row['reason']}" if row["field"] else str(row["reason"])


def pull(work: Runner, first: date, last: date, *, with_archive: bool, refresh: bool = False) -> None:
    """Pull, clean and check days, after the list of series and optionally the archive."""
    pull_series(work, refresh=refresh)
    if with_archive:
        scan_archive(work, refresh=refresh)
    pull_days(work, first, last, refresh=refresh)


def last_days(count: int) -> tuple[date, date]:
    """Return the first and the last of the `count` days up to yesterday, within this world."""
    today = settings().now().date()
    first = max(today - timedelta(days=count), settings().first_day.date())
    return first, today - timedelta(days=1)


def demo(work: Runner, count: int) -> dict[str, BellwetherError | None]:
    """Pull the last `count` days of the sandbox."""
    pull(work, *last_days(count), with_archive=True)
    return {}


def _day_names(first: date, last: date) -> list[str]:
    return [(first + timedelta(days=offset)).isoformat() for offset in range((last - first).days + 1)]


def _outdated_days(work: Runner, wanted: list[str]) -> list[str]:
    """Return days that lack a table, are out of date, or whose last pull was not final."""
    partitions = [(day,) for day in wanted]
    state = work.state()
    missing = [day for name in DAY_TABLES for day in state.find_outdated(TableInputs(table(name)), partitions, sound=True)]
    due = {day for (day,) in (*missing, *work.due(CLEAN_TABLES, partitions, state))}
    # The clocks of sandbox and playback are fixed: no resolution arrives.
    unresolved = settings().world is World.LIVE
    for venue in settings().venues:
        pages = PageStore(work.lake.storage, venue.value)
        due.update(day.isoformat() for day in list_open_days(pages, map(date.fromisoformat, wanted), include_unresolved=unresolved))
    return sorted(due)
