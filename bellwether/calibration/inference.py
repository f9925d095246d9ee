"""Settings of intervals and tests, and bootstrap replicates of mean losses, which draw whole clusters.

The sums of a replicate do not depend on the order of addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.clusters import Grouping
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
        replicates: of simulated distributions: shares ranked first, and calibration errors under calibration (at most 1,000). 0 disables both.
            Intervals and paired tests use no replicates.
        seed: of the generators (PCG64).
    """

    level: float = 0.95
    replicates: int = 10_000
    seed: int = 1950

    def __post_init__(self) -> None:
        if self.replicates != 0 and self.replicates < MIN_REPLICATES:
            raise ScoringError(
                f"inference: replicates is {self.replicates}; give at least {MIN_REPLICATES}, or 0 for no simulated distribution"
            )
        if not 0 < self.level < 1:
            raise ScoringError(f"inference: level is {self.level}; give a mass between 0 and 1, such as 0.95")

    def draws(self, n_clusters: int, block: int) -> Iterator[Floats]:
        """Yield how often each cluster is drawn in each bootstrap replicate, in blocks of at most `block` replicates: float64 (block,
        n_clusters).

        The draws do not depend on `block`.
        """
        generator = np.random.Generator(np.random.PCG64(self.seed))
        for start in range(0, self.replicates, block):
            rows = min(block, self.replicates - start)
            drawn = generator.integers(0, n_clusters, size=(rows, n_clusters))
            drawn += np.arange(rows)[:, None] * n_clusters
            yield np.bincount(drawn.ravel(), minlength=rows * n_clusters).reshape(rows, n_clusters).astype(np.float64)

    def signs(self, n_clusters: int, rows: int, stream: int) -> Iterator[Floats]:
        """Yield a random sign, 1 or -1, for each cluster in each of `rows` replicates, in blocks: float64 (block, n_clusters). stream:
        number of the random sequence.
        """
        generator = np.random.Generator(np.random.PCG64([self.seed, stream]))
        block = max(1, BLOCK // max(1, n_clusters))
        for start in range(0, rows, block):
            yield 1.0 - 2.0 * generator.integers(0, 2, size=(min(block, rows - start), n_clusters), dtype=np.int8).astype(np.float64)


#: Maximum number of multiplications for which OpenBLAS uses one thread.
_ONE_THREAD = 250_000


def mean_replicates(values: Floats, weight: Floats, grouping: Grouping, plan: Inference) -> Floats:
    """Return the weighted mean of each column of `values` (N, M) in each of R bootstrap replicates, ignoring NaN: float64 (M, R).

    NaN if no row with a value was drawn. The result of a column does not depend on the other columns, to the last bit.
    """
    columns, replicates = values.shape[1], plan.replicates
    result = np.full((columns, replicates), np.nan)
    if not (columns and replicates and grouping.count):
        return result
    weights = np.where(np.isnan(values), 0.0, 1.0) * weight[:, None]
    totals, counts = (
        round_for_exact_sums(np.stack([grouping.sums(column) for column in part.T], axis=1))
        for part in (np.nan_to_num(values) * weights, weights)
    )
    counts, positions = np.unique(counts, axis=1, return_inverse=True)
    start = 0
    for draws in plan.draws(grouping.count, max(1, BLOCK // (grouping.count + 2 * columns))):
        drawn = sliced_product(draws, counts)[:, positions.ravel()]
        means = np.divide(sliced_product(draws, totals), drawn, out=np.full(drawn.shape, np.nan), where=drawn > 0)
        result[:, start : start + len(draws)] = means.T
        start += len(draws)
    return result


def sliced_product(draws: Floats, sums: Floats) -> Floats:
    """Return `draws @ sums`, computed in slices small enough for one BLAS thread, which is faster here."""
    totals = np.empty((len(draws), sums.shape[1]))
    rows = max(1, _ONE_THREAD // sums.size)
    for start in range(0, len(draws), rows):
        np.matmul(draws[start : start + rows], sums, out=totals[start : start + rows])
    return totals


def round_for_exact_sums(sums: Floats) -> Floats:
    """Round each column of cluster sums (C, K) to multiples of a power of two, so that the total of any replicate is exact in float64.

    A replicate draws C clusters, so no partial sum exceeds C times the largest sum. Exact sums make results independent of the order of addition in
    a matrix product, and so of blocks, threads and the other forecasters. A total changes by at most 2^-53 C times that bound.
    """
    bound = len(sums) * np.abs(sums).max(axis=0)
    exponent = np.maximum(np.frexp(bound)[1], -500)  # below this the power itself underflows
    quantum = np.ldexp(1.0, exponent - 53)
    return np.asarray(np.rint(sums / quantum) * quantum)
