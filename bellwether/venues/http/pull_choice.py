"""Choice of the pull of a day: the stored pull, a new one, or one that requests only the markets that were still open.

A pull's note is the JSON object stored when it finishes. A reject is curable if a later response may contain a valid record. The base of a
pull is the finished pull whose pages it extends.

A day is pulled once, after it is over. Markets that were open then are requested again by a pull that is based on the first. If only
curable rejects keep a day from being final, the wait doubles with each attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.wire.rejects import PATIENCE

LISTING = "day"
#: First steps of a pull of the whole day; such a pull is completed once it has begun.
_FIRST_STEPS = ("cutoff", "markets")


def choose_pull(pages: PageStore, day: date, plan: dict[str, Any], *, refresh: bool, today: date | None = None) -> StoredPull:
    """Return the pull with which to continue `day`: the finished one if it can be reused, else an unfinished or new one. If only open
    markets need requests, the finished pull becomes its base.

    plan: price plan; a pull with another plan is not reused. refresh: request the whole day again. today: keep the stored pull if its next
    attempt is due after this date; None: never wait.
    """
    name = day.isoformat()
    if refresh:
        return pages.open(LISTING, name, refresh=True)
    last = pages.latest_finished(LISTING, name)
    pull = pages.open(
        LISTING,
        name,
        reuse=lambda note: note["plan"] == plan and (note["final"] or (today is not None and is_waiting(note, today))),
    )
    if pull.note is not None or last is None or last.note is None or any(pull.has_begun(step) for step in _FIRST_STEPS):
        return pull
    if last.note["final"] or not last.note.get("complete") or last.note["plan"] != plan:
        return pull
    return replace(pull, base=last.base or last)


def is_waiting(note: Note, today: date) -> bool:
    """Return True if the pull's note schedules the next attempt for a day after `today`."""
    next_look = note.get("next_look")
    return next_look is not None and today < date.fromisoformat(next_look)


def list_next_requests(pages: PageStore, days: Iterable[date]) -> dict[date, date]:
    """Return the date of the next attempt for each of the `days` that has curable rejects and nothing else to request."""
    pulls = {day: pages.latest_finished(LISTING, day.isoformat()) for day in days}
    dates = {day: (pull.note or {}).get("next_look") for day, pull in pulls.items() if pull is not None}
    return {day: date.fromisoformat(text) for day, text in dates.items() if text is not None}


def list_open_days(pages: PageStore, days: Iterable[date], *, include_unresolved: bool) -> Iterator[date]:
    """Yield the `days` whose last finished pull was not final. include_unresolved: also days on which only resolutions of markets are
    missing.
    """
    for day in days:
        pull = pages.latest_finished(LISTING, day.isoformat())
        note = (pull.note if pull else None) or {"final": True}
        if not note["final"] and (include_unresolved or note.get("waiting") or not note.get("complete") or note.get("next_look")):
            yield day


def build_completion(day: date, responded_at: datetime, *, settled: bool, complete: bool, waiting: bool, named: bool) -> dict[str, Any]:
    """Build the part of a pull's note that states whether the day is final, and when the next attempt is due.

    responded_at: time of the venue's response, aware. settled: all markets have a final resolution. complete: the day was over, and no page
    is missing. waiting: it has curable rejects, which are retried until `PATIENCE` has passed. named: each reject can be requested by id.
    """
    age = responded_at.date() - day
    waiting = waiting and age < PATIENCE
    alone = waiting and settled and complete
    next_look = min(responded_at.date() + max(age, timedelta(days=1)), day + PATIENCE).isoformat() if alone else None
    final, complete = settled and complete and not waiting, complete and (named or not waiting)
    return {"final": final, "complete": complete, "waiting": waiting, "next_look": next_look}
