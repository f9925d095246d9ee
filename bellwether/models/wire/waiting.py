"""How long a provider asks to wait before the next call."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from bellwether.backoff import http_date, seconds_until

_LONGEST_WAIT = 7 * 86_400.0
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def retry_after(status: int | None, headers: Mapping[str, str], body: bytes) -> float | None:
    """Seconds that the provider asks to wait; None where it does not say, or not within a week. Names of headers are in lower case."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    said = (
        None if milliseconds is None else milliseconds / 1000,
        _seconds(headers.get("retry-after")),
        _until(headers.get("retry-after", ""), headers.get("date", "")),
        _exhausted(headers),
        _retry_info(body) if status == 429 else None,
    )
    found = next((seconds for seconds in said if seconds is not None), None)
    return found if found is not None and found <= _LONGEST_WAIT else None


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text else -1.0
    except ValueError:
        return None
    return value if value >= 0 and math.isfinite(value) else None


def _until(date: str, now: str) -> float | None:
    """Seconds to an HTTP date, by the server's own clock."""
    return seconds_until(date, http_date(now) or datetime.now(UTC))


def _exhausted(headers: Mapping[str, str]) -> float | None:
    """Seconds until a limit that is used up is renewed ("6m0s", "120ms"); the longest, where several are."""
    waits = [
        _span(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}") == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _span(text: str) -> float | None:
    parts = _SPAN.findall(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else _seconds(text)


def _retry_info(body: bytes) -> float | None:
    """Google's RetryInfo: `"retryDelay": "37s"` among the details of the error."""
    found = re.search(rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"', body[:100_000])
    return float(found[1]) if found else None
