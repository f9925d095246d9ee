"""Random draws for the generated world: one independent Philox stream per purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache
from statistics import NormalDist
from threading import RLock
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")
NORMAL = NormalDist()


class Purpose(IntEnum):
    """Use of a random stream; part of the stream's seed."""

    DAY = 1
    EVENT = 2
    PATH = 3
    TRADING = 4
    COMBO = 5
    CODE = 6
    FLOW = 7
    ERROR = 8
    FAULT = 20
    MODEL = 21


def create_generator(*entropy: int) -> np.random.Generator:
    """Create a generator seeded by these integers (at least 0)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))


class RandomDraws:
    """Scalar draws from one stream of uniform numbers, in the order of the calls."""

    _BLOCK = 256

    def __init__(self, *entropy: int) -> None:
        self._generator = create_generator(*entropy)
        self._uniforms: list[float] = []

    def unit(self) -> float:
        """Draw uniformly from [0, 1)."""
        if not self._uniforms:
            self._uniforms = self._generator.random(self._BLOCK).tolist()
        return self._uniforms.pop()

    def uniform(self, low: float, high: float) -> float:
        """Draw uniformly from [low, high)."""
        return low + (high - low) * self.unit()

    def integer(self, low: int, high: int) -> int:
        """Draw uniformly from low, …, high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.unit() < probability

    def normal(self) -> float:
        """Draw from the standard normal distribution."""
        return NORMAL.inv_cdf(min(max(self.unit(), 1e-12), 1 - 1e-12))

    def choose(self, items: Sequence[T]) -> T:
        """Choose one of the items."""
        return items[self.integer(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw `count` different items, in random order."""
        pool = list(items)
        return [pool.pop(self.integer(0, len(pool) - 1)) for _ in range(min(count, len(pool)))]


class DrawCache(Generic[T]):
    """Thread-safe cache of the function `draw`, with its last `most` results."""

    def __init__(self, draw: Callable[[int], T], most: int) -> None:
        self._lock = RLock()
        self._cached = lru_cache(maxsize=most)(draw)
        self.cache_info = self._cached.cache_info

    def __call__(self, number: int) -> T:
        """Return `draw(number)`, from the cache if possible."""
        with self._lock:
            return self._cached(number)
