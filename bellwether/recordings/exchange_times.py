"""Times stated by the exchange, with up to nanosecond precision."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from bellwether.venues.wire.times import END_SECOND

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


@lru_cache(maxsize=4096)
def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def parse_time(text: str) -> int | None:
    """Parse an RFC 3339 time in UTC to ns since 1970. None if invalid, or outside of 1970 to 2200."""
    head, tail = text[:19], text[19:]
    if not tail.endswith("Z"):
        return None
    fraction = tail[1:-1]
    if tail != "Z" and not (tail[0] == "." and 1 <= len(fraction) <= 9 and fraction.isdecimal() and fraction.isascii()):
        return None
    try:
        seconds = _seconds(head)
    except ValueError:
        return None
    return seconds * SECOND + int(fraction.ljust(9, "0")) if 0 <= seconds < END_SECOND else None


def read_exchange_time(body: dict[str, Any]) -> int | None:
    """Return the exchange's time in a message's body, in ns since 1970, UTC; None without one.

    The finest form is used: text, then milliseconds, then whole seconds.
    """
    for name in ("ts", "time"):
        text = body.get(name)
        if type(text) is str and (time := parse_time(text)) is not None:
            return time
    for name, unit in (("ts_ms", MILLISECOND), ("ts", SECOND)):
        number = body.get(name)
        if type(number) is int and 0 <= number * unit < END_SECOND * SECOND:
            return number * unit
    return None


def to_nanoseconds(at: datetime) -> int:
    """Convert an aware time to ns since 1970."""
    return int(at.replace(microsecond=0).timestamp()) * SECOND + at.microsecond * 1000


def format_time(at: int) -> str:
    """Format nanoseconds since 1970 as ISO time in UTC with microseconds."""
    return datetime.fromtimestamp(at // SECOND, UTC).replace(microsecond=at % SECOND // 1000).isoformat()
