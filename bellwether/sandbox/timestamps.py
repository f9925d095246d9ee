"""Instants as integer microseconds since 1970 UTC, and how they are written on the wire."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_MICROSECOND = timedelta(microseconds=1)


def to_instant(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def to_datetime(at: int) -> datetime:
    """The aware UTC datetime of an instant."""
    return EPOCH + timedelta(microseconds=at)


def midnight(day: date) -> int:
    """The instant at which a UTC day begins."""
    return (day - EPOCH.date()).days * DAY


def format_time(at: int) -> str:
    """RFC 3339 in UTC with the trailing zeros of the second's fraction trimmed, as the venue writes it."""
    text = to_datetime(at).isoformat()[:-6]
    return f"{text.rstrip('0') if '.' in text else text}Z"


def parse_time(text: str) -> int:
    """The instant of an RFC 3339 text; digits beyond the microsecond are cut. Raises `ValueError` for any other text."""
    parsed = datetime.fromisoformat(text)
    return to_instant(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
