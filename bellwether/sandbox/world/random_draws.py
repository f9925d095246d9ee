"""Random draws for the generated world: one independent Philox stream per purpose."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from statistics import NormalDist
from typing import TypeVar

import numpy as np

T = TypeVar("T")
NORMAL = NormalDist()


class Purpose(IntEnum):
    """Use of a random stream; part of the stream's seed."""

    DAY = 1
    EVENT = 2
    PATH = 3
    TRADING = 4
    CODE = 6
    MODEL = 21
    NEWS = 22
    POLYMARKET = 101
    POLYMARKET_TRADING = 103


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

    def delay(self, *spans: tuple[float, int, int]) -> int:
        """Draw a delay from one of several spans. spans: cumulative probability, which ends with 1, and first and last value of each."""
        luck = self.unit()
        return next(self.integer(low, high) for share, low, high in spans if luck < share)

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


class NumberCode:
    """Scrambling of numbers by a key that follows from the seed, for ids that do not reveal the day they belong to."""

    def __init__(self, seed: int) -> None:
        draw = RandomDraws(seed, Purpose.CODE)
        self._factor = 2 * draw.integer(1 << 34, (1 << 38) - 1) + 1
        self._offset = draw.integer(0, (1 << 40) - 1)

    def hide(self, number: int, bits: int) -> int:
        """Scramble a number of `bits` bits: times an odd factor plus an offset, modulo a power of two; `show` reverses this."""
        return (number * self._factor + self._offset) % (1 << bits)

    def show(self, hidden: int, bits: int) -> int:
        """Return the number from which `hide` made `hidden`."""
        return (hidden - self._offset) * pow(self._factor, -1, 1 << bits) % (1 << bits)
