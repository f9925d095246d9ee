"""Choice of the pull of a day to continue: the stored pull, a new one, or one that only requests the markets left open.

A day is pulled once, after it is over. Markets that were open then are followed in a pull based on that pull. A day that is not final only
because of curable rejects waits between two attempts, twice as long each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.wire.rejects import PATIENCE

LISTING = "day"
#: Step of a day's own pull that comes first: one that was begun is completed, and not followed.
_FIRST_STEPS = ("cutoff", "markets")


def choose_pull(pages: PageStore, day: date, plan: dict[str, Any], *, refresh: bool, today: date | None = None) -> StoredPull:
    """Return the pull of `day` to continue; a pull that follows open markets has a base.

    plan: price plan; a pull with another plan is not reused. refresh: request the whole day again, even if it is stored. today:
    skip a day that rests until after this date; None: never skip.
    """
    name = day.isoformat()
    if refresh:
        return pages.open(LISTING, name, refresh=True)
    last = pages.latest_finished(LISTING, name)
    found = pages.open(
        LISTING,
        name,
        reuse=lambda note: note["plan"] == plan and (note["final"] or (today is not None and is_resting(note, today))),
    )
    if found.note is not None or last is None or last.note is None or any(found.has_begun(step) for step in _FIRST_STEPS):
        return found
    if last.note["final"] or not last.note.get("complete") or last.note["plan"] != plan:
        return found
    return replace(found, base=last.base or last)


def is_resting(note: Note, today: date) -> bool:
    """Return True if the note of the last pull schedules the next attempt after `today`."""
    next_look = note.get("next_look")
    return next_look is not None and today < date.fromisoformat(next_look)


def list_next_requests(pages: PageStore, days: Iterable[date]) -> dict[date, date]:
    """Return the date of the next attempt for each of `days` that waits for curable rejects, from the notes of their last pulls."""
    pulls = {day: pages.latest_finished(LISTING, day.isoformat()) for day in days}
    found = {day: (pull.note or {}).get("next_look") for day, pull in pulls.items() if pull is not None}
    return {day: date.fromisoformat(text) for day, text in found.items() if text is not None}


def list_open_days(pages: PageStore, days: Iterable[date], *, verdicts: bool) -> Iterator[date]:
    """Yield the `days` whose last pull was not final. verdicts: include days that lack only resolutions."""
    for day in days:
        pull = pages.latest_finished(LISTING, day.isoformat())
        note = (pull.note if pull else None) or {"final": True}
        if not note["final"] and (verdicts or note.get("waiting") or not note.get("complete") or note.get("next_look")):
            yield day


def build_completion(day: date, asked_at: datetime, *, settled: bool, complete: bool, waiting: bool, named: bool) -> dict[str, Any]:
    """Build the part of a pull's note that states whether the day is final.

    asked_at: time of the venue's response, aware. settled: no later response is expected for its markets. complete: the day was over, and
    no page is missing. waiting: it has curable rejects, which are retried until `PATIENCE` has passed. named: each can be requested by its
    id.
    """
    age = asked_at.date() - day
    waiting = waiting and age < PATIENCE
    alone = waiting and settled and complete
    next_look = min(asked_at.date() + max(age, timedelta(days=1)), day + PATIENCE).isoformat() if alone else None
    final, complete = settled and complete and not waiting, complete and (named or not waiting)
    return {"final": final, "complete": complete, "waiting": waiting, "next_look": next_look}
