"""Settings of intervals and tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Floats
from bellwether.errors import ScoringError

#: Minimum number of replicates; fewer do not resolve a tail.
MIN_REPLICATES = 200

#: Number of floats in one block of replicates, about 16 MB.
BLOCK = 2_000_000


@dataclass(frozen=True, slots=True)
class Inference:
    """Settings of intervals and tests. Equal settings give equal numbers in every process.

    Attributes:
        level: mass of the intervals.
        replicates: of calibration errors under calibration, at most 1,000 are used; 0 disables these tests.
        seed: of the generators (PCG64), also of the draws of intervals and paired tests.
    """

    level: float = 0.95
    replicates: int = 1_000
    seed: int = 1950

    def __post_init__(self) -> None:
        if self.replicates != 0 and self.replicates < MIN_REPLICATES:
            raise ScoringError(
                f"inference: replicates is {self.replicates}; give at least {MIN_REPLICATES}, or 0 for no simulated distribution"
            )
        if not 0 < self.level < 1:
            raise ScoringError(f"inference: level is {self.level}; give a mass between 0 and 1, such as 0.95")

    def signs(self, n_clusters: int, rows: int, stream: int) -> Iterator[Floats]:
        """Yield a random sign, 1 or -1, for each cluster in each of `rows` replicates, in blocks: float64 (block, n_clusters). stream:
        number of the random sequence.
        """
        generator = np.random.Generator(np.random.PCG64([self.seed, stream]))
        block = max(1, BLOCK // max(1, n_clusters))
        for start in range(0, rows, block):
            yield 1.0 - 2.0 * generator.integers(0, 2, size=(min(block, rows - start), n_clusters), dtype=np.int8).astype(np.float64)
