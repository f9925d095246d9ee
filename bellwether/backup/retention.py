"""Choice of the backups to delete. The newest are kept, one per week, and one per month."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


def select_expired(times: Iterable[datetime], *, newest: int, weeks: int, months: int) -> list[datetime]:
    """Return the times (UTC) of the backups to delete, oldest first.

    times: of all backups. The `newest` are retained, and the last one in each of the latest `weeks` ISO weeks and `months` months with a backup. The
    newest one is always retained.
    """
    ordered = sorted(set(times), reverse=True)
    retained = set(ordered[: max(newest, 1)])
    for most, format_period in ((weeks, "%G %V"), (months, "%Y %m")):
        last: dict[str, datetime] = {}
        for at in ordered:
            last.setdefault(at.strftime(format_period), at)
        retained |= set(list(last.values())[:most])
    return sorted(set(ordered) - retained)
