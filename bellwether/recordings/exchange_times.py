"""Times stated by the exchange, with up to nanosecond precision."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from bellwether.venues.wire.times import END_SECOND

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


@lru_cache(maxsize=4096)
def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def parse_time(text: str) -> int | None:
    """Parse an ISO 8601 time with its zone to ns since 1970, UTC. None if invalid, or outside of 1970 to 2200."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    clock, fraction, zone = match.groups()
    try:
        seconds = _seconds(clock + zone)
    except ValueError:
        return None
    return seconds * SECOND + int((fraction or "0").ljust(9, "0")) if 0 <= seconds < END_SECOND else None


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
    """Format nanoseconds since 1970 as ISO 8601 time in UTC with microseconds, or with nanoseconds if needed."""
    seconds, rest = divmod(at, SECOND)
    fraction = f"{rest:09d}" if rest % 1000 else f"{rest // 1000:06d}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction}+00:00"
