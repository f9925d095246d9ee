"""Runs that commands launch to pull from the venues: the list of series, the archive, and days, where they are out of date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import polars as pl

from assets.clean.assets import CLEAN_TABLES
from assets.raw import jobs
from assets.raw.assets import ARCHIVE_TABLES, DAY_TABLES, SERIES_TABLES
from bellwether.errors import BellwetherError, QualityError
from bellwether.lake import Lake
from bellwether.lake.staleness import TableInputs
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.tables.raw import REJECTS
from bellwether.venues.wire.rejects import select_curable
from orchestration.home import STORAGE_ADVICE
from orchestration.runner import RunFailed, Runner


class DaysFailed(RunFailed):
    """Error of a pull in which some days failed; the other days are stored."""


def pull_series(work: Runner, *, refresh: bool = False) -> None:
    """Pull the list of series, unless it was pulled less than a day ago."""
    work.reference(jobs.SERIES, *SERIES_TABLES, most_age=timedelta(days=1), refresh=refresh)


def scan_archive(work: Runner, *, refresh: bool = False) -> None:
    """Pull the markets at Kalshi's historical endpoints, unless they were pulled less than a week ago."""
    work.reference(jobs.ARCHIVE, *ARCHIVE_TABLES, most_age=timedelta(days=7), refresh=refresh)


def pull_days(work: Runner, first: date, last: date, *, refresh: bool = False) -> None:
    """Pull, clean and check the outdated ones of the UTC close days from `first` to `last`. A day is up to date if its stored
    pull was final, or is not older than the world's clock. refresh: include days that are up to date.

    Raises `DaysFailed` at the end if some days failed, or `RunFailed` if the only day failed.
    """
    wanted = _day_names(first, last)
    due = wanted if refresh else _outdated_days(work, wanted)
    work.stats.fresh += len(wanted) - len(due)
    config = {"ops": {f"{venue}_day": {"config": {"refresh": True}} for venue in ("kalshi", "polymarket")}} if refresh else {}
    failed = _run_days(work, due, config)
    if failed:
        reasons = "\n".join(f"  {day}: {text}" for day, text in sorted(failed.items()))
        raise DaysFailed(f"{len(failed)} of {len(wanted)} days failed; the others are stored:\n{reasons}", failed)


def _run_days(work: Runner, due: list[str], config: dict[str, Any]) -> dict[str, str]:
    """Pull days. Returns the reason of each failed day. If a run fails without naming a reason for one of its days, this day is pulled again.

    Raises the failure of a single day, or of the storage.
    """
    failed, turns = dict[str, str](), [(due, config)]
    while turns:
        days, options = turns.pop(0)
        for part, error in work.run_ranges(jobs.DAYS, DAY_TABLES[0], days, "day", options):
            if error and (len(due) == 1 or STORAGE_ADVICE in str(error)):
                raise error
            if error and len(part) == 1:
                failed[part[0]] = str(error)
            elif error and error.partitions:
                failed |= {day: text for day, text in error.partitions.items() if day in part}
                turns.append(([day for day in part if day not in error.partitions], {}))
            elif error:
                turns += [([day], options) for day in part]
    return failed


def count_rejects(lake: Lake, first: date, last: date) -> pl.DataFrame:
    """Count the rejects (objects of a venue that do not fit) of each day by venue, table, field and reason, the most frequent first.

    Returns columns day, venue, table, field, reason, objects and requested_again (True if daily pulls repeat the request).
    """
    days = [(day,) for day in _day_names(first, last)]
    rejects = pl.concat([lake.slice(declared, days, missing="skip").read() for declared in REJECTS.values()])
    reasons = rejects.select("day", "venue", "table", "field", "reason")
    curable = select_curable(reasons).with_columns(requested_again=True).unique()
    counts = reasons.group_by(pl.all()).len("objects").join(curable, on=reasons.columns, how="left", nulls_equal=True)
    return counts.with_columns(pl.col("requested_again").fill_null(False)).sort(
        "objects", *reasons.columns, descending=[True, *[False] * 5], nulls_last=True
    )


def require_rows(lake: Lake, rejects: pl.DataFrame) -> None:
    """Raise `QualityError` if a venue has a day on which all markets were rejected. rejects: from `count_rejects`."""
    for day, venue in rejects.select("day", "venue").unique().sort("day", "venue").rows():
        markets = table(f"raw/{venue}_markets")
        own = rejects.filter(pl.col("day") == day, pl.col("venue") == venue, pl.col("table") == markets.name)
        if own.height and not lake.slice(markets, [(day.isoformat(),)], missing="skip").rows:
            raise QualityError(
                f"{day}: all {own['objects'].sum()} market objects of {venue} were rejected, most of them because of {_format_reason(own.row(0, named=True))}; "
                f"see raw.{venue}_rejects"
            )


def format_rejects(rejects: pl.DataFrame) -> list[str]:
    """Format rejects as lines: count, table, reason, and whether the daily pull requests the objects again. rejects: from `count_rejects`."""
    whole = rejects.group_by("venue", "table", "field", "reason", maintain_order=True).agg(
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
    """Pull the list of series, the days from `first` to `last`, and optionally Kalshi's archive of old markets. Days are also cleaned and checked."""
    pull_series(work, refresh=refresh)
    if with_archive:
        scan_archive(work, refresh=refresh)
    pull_days(work, first, last, refresh=refresh)


def last_days(count: int) -> tuple[date, date]:
    """Return first and last of the `count` days up to yesterday. The first is not before the first day of this world."""
    today = settings().now().date()
    first = max(today - timedelta(days=count), settings().first_day.date())
    return first, today - timedelta(days=1)


def demo(work: Runner, count: int) -> dict[str, BellwetherError | None]:
    """Pull the last `count` days of the sandbox, with series and archive."""
    pull(work, *last_days(count), with_archive=True)
    return {}


def _day_names(first: date, last: date) -> list[str]:
    return [(first + timedelta(days=offset)).isoformat() for offset in range((last - first).days + 1)]


def _outdated_days(work: Runner, wanted: list[str]) -> list[str]:
    """Return the days among `wanted` to pull: those that lack a table, are out of date, or were not final when they were pulled."""
    partitions = [(day,) for day in wanted]
    state = work.state()
    missing = [day for name in DAY_TABLES for day in state.find_outdated(TableInputs(table(name)), partitions, sound=True)]
    due = {day for (day,) in (*missing, *work.due(CLEAN_TABLES, partitions, state))}
    stored = [date.fromisoformat(day) for day in wanted if day not in due]
    # Responses are dated in whole seconds. While the sandbox's clock shows the time of a pull, another one would return the same.
    now = settings().now().replace(microsecond=0)
    return sorted(due.union(day.isoformat() for day in jobs.find_open_days(work.lake, stored, settings().venues, pulled_before=now)))
