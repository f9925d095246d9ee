"""What commands launch for the venues, where it is out of date: the list of series, the archive, days."""

from __future__ import annotations

from datetime import date, timedelta

from assets.venues import jobs
from assets.venues.clean import CLEAN_TABLES
from assets.venues.raw import DAY_TABLES
from bellwether.errors import BellwetherError
from bellwether.settings import settings
from orchestration.declare import key
from orchestration.freshness import Changes, spans, stale
from orchestration.partitions import RANGE_END, RANGE_START
from orchestration.runner import Runner


def series(work: Runner, *, most_age: timedelta = timedelta(days=1)) -> None:
    """Pull the list of series, unless that was done less than `most_age` ago."""
    work.reference(jobs.SERIES, "raw/kalshi_series", "raw/kalshi_series_rejects", most_age=most_age)


def archive(work: Runner, *, most_age: timedelta = timedelta(days=7)) -> None:
    """Scan the venue's archive, unless that was done less than `most_age` ago."""
    work.reference(jobs.ARCHIVE, "raw/kalshi_archive", "raw/kalshi_archive_rejects", most_age=most_age)


def days(work: Runner, first: date, last: date, *, refresh: bool = False) -> None:
    """Pull, clean and check the UTC close days from `first` to `last`; with `refresh` also those that are up to date."""
    wanted = [(first + timedelta(days=offset)).isoformat() for offset in range((last - first).days + 1)]
    due = wanted if refresh else _stale_days(work, wanted)
    work.stats.fresh += len(wanted) - len(due)
    config = {"ops": {f"{venue}_day": {"config": {"refresh": True}} for venue in ("kalshi", "polymarket")}} if refresh else {}
    with work.progress.stage("days", len(due)) as advance:
        for start, end in spans(due):
            work.launch(jobs.DAYS, f"days {start} to {end}", tags={RANGE_START: start, RANGE_END: end}, config=config)
            advance((date.fromisoformat(end) - date.fromisoformat(start)).days + 1)


def pull(work: Runner, first: date, last: date, *, with_archive: bool, refresh: bool = False) -> None:
    """Pull, clean and check days, after the list of series and, if asked, the archive."""
    series(work)
    if with_archive:
        archive(work)
    days(work, first, last, refresh=refresh)


def last_days(count: int) -> tuple[date, date]:
    """The first and the last of so many days up to yesterday, as far as this world has them."""
    today = settings().now().date()
    first = max(today - timedelta(days=count), settings().first_day.date())
    return first, today - timedelta(days=1)


def demo(work: Runner, count: int) -> dict[str, BellwetherError | None]:
    """Pull the last `count` days of the sandbox."""
    pull(work, *last_days(count), with_archive=True)
    return {}


def _stale_days(work: Runner, wanted: list[str]) -> list[str]:
    record = work.record()
    made = {name: record.partitions(key(name), wanted) for name in (*DAY_TABLES, *CLEAN_TABLES)}
    due = set(stale(wanted, list(made.values()), []))
    for name in CLEAN_TABLES:
        sources = [Changes(work.instance, key(source), made[source]) for source in work.sources(name) if source in made]
        due.update(stale(wanted, [made[name]], sources))
    return sorted(due)
