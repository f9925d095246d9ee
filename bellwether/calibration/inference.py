"""How intervals and tests are made: their level, and the replicates of what is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Floats
from bellwether.errors import ScoringError

#: Fewer replicates say too little of a tail.
LEAST_REPLICATES = 200

#: Floats held at a time by one block of replicates, about 16 MB.
BLOCK = 2_000_000


@dataclass(frozen=True, slots=True)
class Inference:
    """Level and replicates. The same values give the same numbers in every process.

    Attributes:
        level: mass of the intervals.
        replicates: of simulated distributions: shares ranked first, and calibration errors under calibration (1,000 of them at most);
            0 makes neither. Intervals and paired tests need none.
        seed: of the generators (PCG64).
    """

    level: float = 0.95
    replicates: int = 10_000
    seed: int = 1950

    def __post_init__(self) -> None:
        if self.replicates != 0 and self.replicates < LEAST_REPLICATES:
            raise ScoringError(
                f"inference: replicates is {self.replicates}; give at least {LEAST_REPLICATES}, or 0 for no simulated distribution"
            )
        if not 0 < self.level < 1:
            raise ScoringError(f"inference: level is {self.level}; give a mass between 0 and 1, such as 0.95")

    def draws(self, n_clusters: int, block: int) -> Iterator[Floats]:
        """Bootstrap draws of clusters, in blocks of at most `block` replicates: float64 (block, n_clusters), how often each was drawn.

        They do not depend on `block`.
        """
        generator = np.random.Generator(np.random.PCG64(self.seed))
        for start in range(0, self.replicates, block):
            rows = min(block, self.replicates - start)
            drawn = generator.integers(0, n_clusters, size=(rows, n_clusters))
            drawn += np.arange(rows)[:, None] * n_clusters
            yield np.bincount(drawn.ravel(), minlength=rows * n_clusters).reshape(rows, n_clusters).astype(np.float64)

    def signs(self, n_clusters: int, rows: int, stream: int) -> Iterator[Floats]:
        """Random signs of clusters, `rows` replicates in blocks: float64 (block, n_clusters) of 1 and -1."""
        generator = np.random.Generator(np.random.PCG64([self.seed, stream]))
        block = max(1, BLOCK // max(1, n_clusters))
        for start in range(0, rows, block):
            yield 1.0 - 2.0 * generator.integers(0, 2, size=(min(block, rows - start), n_clusters), dtype=np.int8).astype(np.float64)
