"""Times on the wire of every venue; valid are the years 1970 to 2200."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

#: Seconds since 1970 of the first instant of 2201; current times in milliseconds are larger.
END_SECOND = 7_289_654_400
OUTSIDE = "a time outside the years 1970 to 2200"

_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2201, 1, 1, tzinfo=UTC)


def is_plausible(at: datetime) -> bool:
    """Return True for an aware time in the years 1970 to 2200, UTC."""
    return _FIRST <= at < _END


def parse_instant(text: object) -> datetime | None:
    """Parse an ISO 8601 time with a zone, truncated to microseconds, as an aware UTC instant; None outside the years 1970 to 2200."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if at is None or at.tzinfo is None or not is_plausible(at):
        return None
    return at.astimezone(UTC)


def split_span(start: datetime, end: datetime, longest: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """Split the time from `start` to `end` into consecutive spans of at most `longest`."""
    while end - start > longest:
        yield start, start + longest
        start += longest
    yield start, end
