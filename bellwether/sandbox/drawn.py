"""What is drawn by number, kept for several threads: who wants what another one is drawing waits for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import RLock
from typing import Generic, TypeVar

T = TypeVar("T")


class Drawn(Generic[T]):
    """`draw`, whose last `most` results are kept. Without a lock two listings that are read at once would draw every day twice."""

    def __init__(self, draw: Callable[[int], T], most: int) -> None:
        self._lock = RLock()
        self._kept = lru_cache(maxsize=most)(draw)
        self.cache_info = self._kept.cache_info

    def __call__(self, number: int) -> T:
        """What is drawn for a number."""
        with self._lock:
            return self._kept(number)
