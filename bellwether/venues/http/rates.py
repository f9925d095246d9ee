"""Rates of requests. One rate holds for all clients and processes of a home, or of a fleet.

A rate is the time until which its capacity is reserved (generic cell rate algorithm).
"""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from bellwether.files import locked, writing

#: Longest wait in seconds that a file demands. A later time was stored before the machine restarted, which resets its monotonic clock.
_LONGEST = 600.0


class Bucket(Protocol):
    """Rate limit; `bellwether.journal.limits` implements it for a fleet."""

    async def acquire(self, amount: float = 1) -> None:
        """Wait until `amount` tokens are available, and take them."""

    async def pause(self, seconds: float) -> None:
        """Block all users of the bucket for this many seconds."""


class BucketSource(Protocol):
    """Source of rate limits, each of which has a name."""

    def limiter(self, name: str, max_rate: float, time_period: float, /) -> Bucket:
        """Return the bucket `name`, which allows `max_rate` tokens per `time_period` seconds."""


class HomeRates:
    """Rates that all processes of a machine share by files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def limiter(self, name: str, max_rate: float, time_period: float) -> TokenBucket:
        """Return the bucket `name`, which all processes use."""
        return TokenBucket(max_rate, time_period, self._folder / quote(name, safe=""))


class TokenBucket:
    """Bucket of `max_rate` tokens that is refilled in `time_period` seconds. path: the file that other processes use too; without it the
    bucket belongs to one client.
    """

    def __init__(self, max_rate: float, time_period: float, path: Path | None = None) -> None:
        self.max_rate, self.time_period = max_rate, time_period
        self._path = path
        self._reserved_until = 0.0
        self._turn = asyncio.Lock()

    async def acquire(self, amount: float = 1) -> None:
        """Wait until `amount` tokens are available, and take them. Calls of one process wait in order."""
        async with self._turn:
            wait = self._reserve(amount * self.time_period / self.max_rate) - self.time_period
            if wait > 0:
                await asyncio.sleep(wait)

    async def pause(self, seconds: float) -> None:
        """Admit nothing for `seconds`, in any process."""
        self._reserve(0.0, at_least=seconds + self.time_period)

    def _reserve(self, seconds: float, *, at_least: float = 0.0) -> float:
        """Reserve the next free `seconds` of the capacity, and at least the next `at_least`. Return the seconds from now until all of it ends."""
        if self._path is None:
            self._reserved_until, lead = _extend(self._reserved_until, seconds, at_least)
            return lead
        with locked(self._path), writing(self._path):
            stored = self._path.read_bytes()
            reserved_until = min(struct.unpack("d", stored)[0], time.monotonic() + _LONGEST) if len(stored) == 8 else 0.0
            until, lead = _extend(reserved_until, seconds, at_least)
            self._path.write_bytes(struct.pack("d", until))
            return lead


def _extend(reserved_until: float, seconds: float, at_least: float) -> tuple[float, float]:
    """Return until when the capacity is reserved, by the monotonic clock, and the seconds from now until then."""
    now = time.monotonic()
    until = max(reserved_until + seconds, now + seconds, now + at_least)
    return until, until - now
