"""Truth of the generated world: Brownian paths, and the probabilities of outcomes given the path so far.

Paths are computed at the start of each slot of half an hour.

Each event has a latent Brownian motion W on [0, 1]; a market asks whether lower < W(1) <= upper. Given the path up to s, W(1) is normal
with mean W(s) and variance 1 - s, so the probability of yes is Phi((upper - W(s)) / sqrt(1 - s)) - Phi((lower - W(s)) / sqrt(1 - s)): an
exact martingale, at whatever deterministic pace s runs through the market's life.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bellwether.sandbox.timestamps import MINUTE
from bellwether.sandbox.world.random_draws import create_generator

#: Latent probabilities, quotes and trades change only at multiples of this since the opening (microseconds).
SLOT = 30 * MINUTE

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Path:
    """Brownian motion W from a market's opening to its close, as a function of the progress s.

    Attributes:
        entropy: seed of the path between its ends.
        end: W(1), which decides the outcome.
        pace: s is proportional to this power of the elapsed time.
        residual: 1 - s at the close, the remaining uncertainty.
        opens, closes: instants.
    """

    entropy: tuple[int, ...]
    end: float
    pace: int
    residual: float
    opens: int
    closes: int

    @property
    def slots(self) -> int:
        """Number of slots that begin before the close."""
        return -((self.opens - self.closes) // SLOT)

    def elapsed(self) -> Floats:
        """Compute the progress s of the path, from 0 to 1, at the start of each slot."""
        share = np.arange(self.slots, dtype=np.float64) / self.slots
        power = share.copy()
        for _ in range(self.pace - 1):
            power *= share
        return (1.0 - self.residual) * power


@lru_cache(maxsize=64)
def compute_path(path: Path) -> tuple[Floats, Floats]:
    """Compute progress s and value W(s) of a path at the start of each slot, as a Brownian bridge from 0 to the path's end W(1)."""
    s = path.elapsed()
    gaps = np.diff(s, append=1.0)
    free = np.cumsum(np.sqrt(gaps) * create_generator(*path.entropy).standard_normal(len(s)))
    bridge = np.concatenate(([0.0], free[:-1])) + s * (path.end - free[-1])
    for array in (s, bridge):
        array.flags.writeable = False
    return s, bridge


@dataclass(frozen=True, slots=True)
class PathClaim:
    """Claim of a market on a path: it pays one dollar if lower < W(1) <= upper."""

    path: Path
    lower: float = -math.inf
    upper: float = math.inf

    @property
    def opens(self) -> int:
        """Instant of the opening."""
        return self.path.opens

    @property
    def closes(self) -> int:
        """Instant of the close."""
        return self.path.closes

    @property
    def slots(self) -> int:
        """Number of slots that begin before the close."""
        return self.path.slots

    @property
    def pays(self) -> bool:
        """True if the claim comes true, so that YES wins."""
        return self.lower < self.path.end <= self.upper

    def probabilities(self, slots: Slots | None = None) -> Floats:
        """Compute the probability of YES at the start of each slot. slots: only at these."""
        from scipy.special import ndtr

        s, w = compute_path(self.path)
        if slots is not None:
            s, w = s[slots], w[slots]
        deviation = np.sqrt(1.0 - s)
        above = ndtr((self.upper - w) / deviation) if self.upper < math.inf else 1.0
        below = ndtr((self.lower - w) / deviation) if self.lower > -math.inf else 0.0
        return np.asarray(np.broadcast_to(above - below, s.shape), dtype=np.float64)

    def probabilities_at(self, times: NDArray[np.int64]) -> Floats:
        """Compute the probability of YES at these instants: before the opening that at the opening, from the close on 0 or 1."""
        slots = np.clip((times - self.opens) // SLOT, 0, self.slots - 1)
        return np.where(times < self.closes, self.probabilities(slots), float(self.pays))
