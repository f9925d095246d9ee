"""Retention of backups: the newest, then one per week, then one per month."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


def select_expired(made: Iterable[datetime], *, newest: int, weeks: int, months: int) -> list[datetime]:
    """Select the instants (UTC) of expired backups, oldest first.

    The `newest` backups are kept, and the last one in each of the latest `weeks` ISO weeks and `months` months with a backup. The newest is always kept.
    """
    ordered = sorted(set(made), reverse=True)
    kept = set(ordered[: max(newest, 1)])
    for most, period in ((weeks, _week), (months, _month)):
        last: dict[tuple[int, int], datetime] = {}
        for at in ordered:
            last.setdefault(period(at), at)
        kept |= {last[name] for name in sorted(last, reverse=True)[:most]}
    return sorted(set(ordered) - kept)


def _week(at: datetime) -> tuple[int, int]:
    year, week, _ = at.isocalendar()
    return year, week


def _month(at: datetime) -> tuple[int, int]:
    return at.year, at.month
