"""What a pull took: kept in the note that ends it, and told as a row of raw/<venue>_pulls."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import FAILURES
from bellwether.tables.schema import Table
from bellwether.venues.http.client import HttpClient
from bellwether.venues.http.pages import Note, StoredPull


class Effort:
    """Counts what `clients` do from now on."""

    def __init__(self, *clients: HttpClient) -> None:
        self._clients = clients
        self._before = self._totals()

    def _totals(self) -> tuple[int, Counter[str], float]:
        tallies = [client.tally for client in self._clients]
        failures: Counter[str] = sum((tally.failures for tally in tallies), Counter())
        return sum(tally.attempts for tally in tallies), failures, sum(tally.limited_seconds for tally in tallies)

    @property
    def note(self) -> dict[str, Any]:
        """What has been done since, as JSON; times in seconds, to a tenth."""
        attempts, failures, limited = self._totals()
        before_attempts, before_failures, before_limited = self._before
        return {
            "attempts": attempts - before_attempts,
            "failures": dict(failures - before_failures),
            "limited_seconds": round(limited - before_limited, 1),
        }


def pulls_row(table: Table, day: date, pull: StoredPull) -> pl.DataFrame:
    """The row of `table` (raw/<venue>_pulls) of one finished pull of `day`. Raises `LakeError` when its first or last page is gone or damaged."""
    note: Note = pull.note or {}
    effort = note.get("effort", {})
    steps = [step for step in note["pages"] if note["pages"][step]]
    ends = [pull.page(step, ordinal).fetched_at for step in steps for ordinal in {0, note["pages"][step] - 1}]
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
