"""Rates of requests. One rate holds for all clients and processes of a home, or of a fleet.

A rate is the time until which its capacity is reserved (generic cell rate algorithm).
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import time
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from bellwether.files import writing

#: Longest wait in seconds that a file may demand. A later time is from before the last start of the machine, when its clock began anew.
_LONGEST = 600.0


class Bucket(Protocol):
    """Rate limit; `bellwether.journal.shared_limits` implements it for a fleet."""

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
            now = time.monotonic()
            self._reserved_until = max(self._reserved_until + seconds, now + seconds, now + at_least)
            return self._reserved_until - now
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                now = time.monotonic()
                file.seek(0)
                stored = file.read(8)
                until = min(struct.unpack("d", stored)[0], now + _LONGEST) if len(stored) == 8 else 0.0
                until = max(until + seconds, now + seconds, now + at_least)
                file.truncate(0)
                file.write(struct.pack("d", until))
                return until - now
