"""What a pull took: kept in the note that ends it, and told as a row of raw/<venue>_pulls."""

from __future__ import annotations

from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import FAILURES
from bellwether.tables.schema import Table
from bellwether.venues.http.client import COUNTED, RequestStats
from bellwether.venues.http.pages import Note, StoredPull


class PullStats:
    """Counts what clients do from now on on behalf of this task and those that it starts."""

    def __init__(self) -> None:
        self._stats = RequestStats()
        COUNTED.set(self._stats)

    @property
    def note(self) -> dict[str, Any]:
        """What has been done since, as JSON; times in seconds, to a tenth."""
        return {
            "attempts": self._stats.attempts,
            "failures": dict(self._stats.failures),
            "limited_seconds": round(self._stats.limited_seconds, 1),
        }


def pulls_row(table: Table, day: date, pull: StoredPull) -> pl.DataFrame:
    """The row of `table` (raw/<venue>_pulls) of one finished pull of `day`. Raises `LakeError` when its first or last page is gone or damaged."""
    note: Note = pull.note or {}
    effort = note.get("effort", {})
    asked = pull if any(note["pages"].values()) or pull.base is None else pull.base
    pages = (asked.note or {})["pages"]
    ends = [asked.page(step, ordinal).fetched_at for step, count in pages.items() if count for ordinal in {0, count - 1}]
    failures = {column: effort["failures"].get(kind, 0) if effort else None for kind, column in FAILURES.items()}
    row = {
        "day": day,
        "pull": pull.folder,
        "final": note["final"],
        "requests": sum(note["pages"].values()),
        "attempts": effort.get("attempts"),
        **failures,
        "limited_seconds": effort.get("limited_seconds"),
        "started_at": min(ends),
        "finished_at": max(ends),
        "known_at": max(ends),
    }
    return table.validate(table.frame([row]))
