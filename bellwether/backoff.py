"""How long to wait before a call is made again: exponential back-off with jitter, and what servers ask for in their headers.

Not here: which failures are worth another attempt, which is for venues (bellwether/venues/http/retry.py) and models (bellwether/models/outcomes.py) to say.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

#: Doublings after which every cap is reached.
_MOST_DOUBLINGS = 30


def delay(failures: int, rng: Random, *, base: float, cap: float, least: float = 0.0) -> float:
    """Seconds to wait after so many failures: drawn uniformly from `least` to 1 times min(cap, base * 2**(failures - 1)).

    `least` 0 is the "full jitter", 1/2 the "equal jitter" of M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    longest = min(cap, base * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
    return rng.uniform(least * longest, longest)


def http_date(text: str) -> datetime | None:
    """The aware UTC instant of an HTTP date; None when it is none."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def seconds_until(text: str, now: datetime) -> float | None:
    """Seconds from `now` to an HTTP date, 0 when it is over; None when it is none."""
    until = http_date(text) if text else None
    return None if until is None else max(0.0, (until - now).total_seconds())
