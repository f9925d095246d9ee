"""Instants: integer microseconds since 1970 UTC, and their conversion to times; and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_MICROSECOND = timedelta(microseconds=1)

#: Function that returns the sandbox's time, aware, in UTC.
Clock = Callable[[], datetime]


def start_clock(start: datetime, rate: float = 0.0) -> Clock:
    """Return a clock that shows the aware time `start` now. rate: seconds that pass per real second; 0 is a fixed clock."""
    began = time.monotonic()
    return lambda: start.astimezone(UTC) + timedelta(seconds=rate * (time.monotonic() - began))


def to_instant(moment: datetime) -> int:
    """Convert an aware datetime to an instant."""
    return (moment - EPOCH) // _MICROSECOND


def to_datetime(at: int) -> datetime:
    """Convert an instant to an aware UTC datetime."""
    return EPOCH + timedelta(microseconds=at)


def midnight(day: date) -> int:
    """Return the instant at which a UTC day begins."""
    return (day - EPOCH.date()).days * DAY


def format_time(at: int) -> str:
    """Format an instant as RFC 3339 in UTC, like the venue, without trailing zeros."""
    text = to_datetime(at).isoformat()[:-6]
    return f"{text.rstrip('0') if '.' in text else text}Z"


def parse_time(text: str) -> int:
    """Parse an RFC 3339 time; return the instant. Raises `ValueError` for any other text."""
    parsed = datetime.fromisoformat(text)
    return to_instant(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
