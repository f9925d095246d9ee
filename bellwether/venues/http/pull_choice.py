"""Choice of the pull of a day to continue: the stored one, a new one, or one that only requests the markets that the last one left open.

A day is pulled once, when it is over. What was open then is followed market by market, in a pull that is based on that of the day. A day that only
curable rejects keep open rests between two looks, twice as long each time.
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
    """The pull of `day` to work on; one that follows has a base.

    plan: how prices are pulled: a pull by another plan is not this pull. refresh: ask for the whole day again, whatever is stored of it. today:
    leave a day alone that rests until after it; None: look at once.
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
    """True where the note of the last pull puts the next look after `today`."""
    next_look = note.get("next_look")
    return next_look is not None and today < date.fromisoformat(next_look)


def list_next_requests(pages: PageStore, days: Iterable[date]) -> dict[date, date]:
    """Next looks at those of `days` with only curable rejects left, from the notes of their last pulls."""
    pulls = {day: pages.latest_finished(LISTING, day.isoformat()) for day in days}
    found = {day: (pull.note or {}).get("next_look") for day, pull in pulls.items() if pull is not None}
    return {day: date.fromisoformat(text) for day, text in found.items() if text is not None}


def list_open_days(pages: PageStore, days: Iterable[date], *, verdicts: bool) -> Iterator[date]:
    """Those of `days` whose last pull was not final. verdicts: also those that lack nothing but verdicts."""
    for day in days:
        pull = pages.latest_finished(LISTING, day.isoformat())
        note = (pull.note if pull else None) or {"final": True}
        if not note["final"] and (verdicts or note.get("waiting") or not note.get("complete") or note.get("next_look")):
            yield day


def build_completion(day: date, asked_at: datetime, *, settled: bool, complete: bool, waiting: bool, named: bool) -> dict[str, Any]:
    """The part of a pull's note about what the day still needs.

    asked_at: when the venue answered, aware. settled: nothing more is expected of its markets. complete: it was over, and no page is missing.
    waiting: there are curable rejects, which count until `PATIENCE` is over. named: each can be requested by its id.
    """
    age = asked_at.date() - day
    waiting = waiting and age < PATIENCE
    alone = waiting and settled and complete
    next_look = min(asked_at.date() + max(age, timedelta(days=1)), day + PATIENCE).isoformat() if alone else None
    final, complete = settled and complete and not waiting, complete and (named or not waiting)
    return {"final": final, "complete": complete, "waiting": waiting, "next_look": next_look}
