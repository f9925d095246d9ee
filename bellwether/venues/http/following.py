"""Which pull of a day is gone on with: the stored one, a new one, or one that only asks about what was open in the last.

A day is pulled once, when it is over. What was open then is followed market by market, in a pull that is based on that of the day.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from bellwether.venues.http.pages import PageStore, StoredPull

LISTING = "day"
#: Step of a day's own pull that comes first: one that was begun is completed, and not followed.
_FIRST_STEPS = ("cutoff", "markets")


def open_day(pages: PageStore, day: date, plan: dict[str, Any], *, refresh: bool) -> StoredPull:
    """The pull of `day` to work on; one that follows has a base.

    plan: how prices are pulled: a pull by another plan is not this pull. refresh: ask for the whole day again.
    """
    name = day.isoformat()
    last = pages.latest_finished(LISTING, name)
    found = pages.open(LISTING, name, reuse=lambda note: not refresh and note["final"] and note["plan"] == plan)
    if found.note is not None or last is None or last.note is None or refresh or any(found.has_begun(step) for step in _FIRST_STEPS):
        return found
    if last.note["final"] or not last.note.get("complete") or last.note["plan"] != plan:
        return found
    return replace(found, base=last.base or last)
