"""Clock of the sandbox: the real time, a fixed time, or a time that passes at a chosen rate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from bellwether.errors import ConfigError


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ConfigError(f"set the sandbox's clock: {instant.isoformat()} has no time zone; write it with Z or an offset")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ConfigError(f"set the sandbox's clock: {instant.isoformat()} is out of range; take a year from 2 to 9998") from error


def _pace(rate: float) -> float:
    if not 0 <= rate < math.inf:
        raise ConfigError(
            f"set the sandbox's clock: the rate is {rate}; take a finite number of at least 0 (0 stands still, 1 is real time)"
        )
    return float(rate)


class Clock:
    """Clock of the sandbox, which can be moved forward but never back. All methods are thread-safe.

    Attributes:
        fixed: the initial instant; default: the real time.
        rate: seconds that pass per real second, starting at `fixed`; 0 is a fixed clock.
        monotonic: function that returns real seconds since any origin.

    Raises `ConfigError` if `fixed` has no time zone, the rate is negative or not finite, or a rate is given without `fixed`.
    """

    def __init__(self, fixed: datetime | None = None, *, rate: float = 0.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        if fixed is None and rate:
            raise ConfigError(f"set the sandbox's clock: a rate of {rate} needs an instant to start from; name it, or leave the rate out")
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._anchor = None if fixed is None else _aware(fixed)
        self._rate = 1.0 if fixed is None else _pace(rate)
        self._since = monotonic()

    def _now(self) -> datetime:
        if self._anchor is None:
            return datetime.now(UTC)
        try:
            return self._anchor + timedelta(seconds=self._rate * (self._monotonic() - self._since))
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """Return the clock's time, aware, in UTC."""
        with self._lock:
            return self._now()

    @property
    def rate(self) -> float:
        """Seconds that pass per real second; 1 for the real time."""
        with self._lock:
            return self._rate

    @property
    def is_real(self) -> bool:
        """True if the clock shows the real time."""
        with self._lock:
            return self._anchor is None

    def _start(self, instant: datetime, rate: float) -> None:
        self._anchor, self._rate, self._since = instant, rate, self._monotonic()

    def set(self, instant: datetime) -> None:
        """Move the clock to a later time; the rate is unchanged. Raises `ConfigError` for an earlier time, or one without a zone."""
        wanted = _aware(instant)
        with self._lock:
            now = self._now()
            if wanted < now:
                raise ConfigError(
                    f"set the sandbox's clock: {wanted.isoformat()} lies before its present {now.isoformat()}; it only moves forward"
                )
            self._start(wanted, self._rate)

    def advance(self, duration: timedelta) -> None:
        """Move the clock forward; the rate is unchanged. Raises `ConfigError` for a negative duration, or one beyond the year 9999."""
        if duration < timedelta(0):
            raise ConfigError(f"advance the sandbox's clock: {duration.total_seconds()} seconds lead back; it only moves forward")
        with self._lock:
            try:
                self._start(self._now() + duration, self._rate)
            except OverflowError as error:
                raise ConfigError(f"advance the sandbox's clock: {duration} leads beyond the year 9999; take less") from error

    def run(self, rate: float) -> None:
        """Change the rate; 0 stops the clock. Raises `ConfigError` for a rate that is negative or not finite."""
        pace = _pace(rate)
        with self._lock:
            self._start(self._now(), pace)

    def date_header(self) -> str:
        """Format the current time as an HTTP date."""
        return format_datetime(self.now(), usegmt=True)
