"""Tests of calibration: how large calibration errors would be by chance if the forecasts were calibrated.

Calibration errors are functions of the residuals y - p, and positive by chance alone. Under calibration the residuals have mean zero, so that
flipping the signs of all residuals of a cluster together gives equally likely data, whatever the dependence inside clusters (the wild
cluster bootstrap; Cameron, Gelbach and Miller, Rev. Econ. Stat. 90, 2008). With fewer than 100 clusters, rare outcomes may be missing from the
residuals. Then outcomes are also drawn from the forecasts, with correlation one half inside clusters, and the larger p is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Floats, Forecasts, Ints, bin_index
from bellwether.calibration.metrics import TESTED
from bellwether.calibration.smooth_calibration import Smoother
from bellwether.calibration.sorted_forecasts import SortedForecasts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Minimum number of clusters; fewer have too few assignments of signs for a test at 5 %.
MIN_TEST_CLUSTERS = 6

#: With at least so many clusters, or more forecasts, only signs are flipped and no outcomes are drawn.
_FEW_CLUSTERS, _FEW_FORECASTS = 100, 5_000

#: Maximum number of replicates.
_REPLICATES = 1_000

#: Number of floats in one block of replicates, about 16 MB.
_BLOCK = 2_000_000

#: Correlation of the Gaussian variables of one cluster, from which outcomes are drawn.
_CORRELATION = 0.5

#: Maximum number of groups of forecasts in isotonic regression; more are merged by rank.
_GROUPS = 300


@dataclass(frozen=True, slots=True)
class NullDistribution:
    """A calibration error as it would be by chance, if the forecasts were calibrated. expected: mean of the replicates (simulated errors).
    p: share of replicates at least as large as the observed error.
    """

    expected: float
    p: float


def calibration_tests(forecasts: Forecasts, clusters: Clusters, plan: Inference) -> dict[str, NullDistribution]:
    """Test calibration with each error in `TESTED`; return its null distribution by name. Empty with too few clusters, no replicates or no
    forecasts.

    With two-way clusters each way is tested and the larger p-value is returned.
    """
    if not len(forecasts) or not plan.replicates or clusters.count < MIN_TEST_CLUSTERS:
        return {}
    errors = _Errors.of(forecasts)
    observed = errors.of_features(errors.features(errors.residual[None]))
    rows = min(plan.replicates, _REPLICATES)
    distributions: dict[str, NullDistribution] = {}
    for stream, grouping in enumerate(clusters.ways, 1):
        simulated = [_sign_flip_errors(errors, grouping, plan, rows, stream)]
        if grouping.count < _FEW_CLUSTERS and len(forecasts) <= _FEW_FORECASTS:
            simulated.append(_resampled_errors(errors, forecasts, grouping, plan=plan, rows=rows, stream=stream))
        for null in simulated:
            for name in TESTED:
                reached = np.count_nonzero(null[name] >= observed[name][0] * (1 - 1e-9) - 1e-12)
                p = (reached + 1) / (rows + 1)
                if name not in distributions or p > distributions[name].p:
                    distributions[name] = NullDistribution(float(null[name].mean()), p)
    return distributions


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """Calculator of calibration errors: the forecasts stay fixed and the residuals y - p vary. Arrays are in ascending order of p.

    order: intp (N,), positions of the forecasts. residual: float64 (N,), weight (y - p).
    weight: sum of all weights. bin_weight: weights of the non-empty bins.
    matrix: sparse (N, width), sums of residuals by bin, by cell of the smoother's grid and by group of forecasts.
    ends: ends of the first two of these blocks of columns.
    p, mass: float64 (groups,), forecast and weight of the groups in isotonic regression.
    """

    order: Ints
    residual: Floats
    weight: float
    bin_weight: Floats
    matrix: csr_array
    ends: tuple[int, int]
    smoother: Smoother
    p: Floats
    mass: Floats

    @classmethod
    def of(cls, forecasts: Forecasts) -> _Errors:
        from scipy.sparse import csr_array, hstack

        ordered = SortedForecasts.of(forecasts)
        size, weight = len(forecasts), float(ordered.weight.sum())
        p, positions = forecasts.p[ordered.order], np.arange(size)
        group = np.repeat(np.arange(len(ordered.p)), np.diff(ordered.starts, append=size))
        # The error under calibration is at least about the standard deviation of the mean residual, which the smoother must resolve.
        smoother = Smoother.resolving(ordered.p, 2 * float(np.sqrt(np.square(ordered.gap).sum())) / weight)
        upper, cells = smoother.share[group], np.concatenate([smoother.lower[group], smoother.upper[group]])
        occupied, index = np.unique(bin_index(p), return_inverse=True)
        merged = Grouping.of(group * _GROUPS // max(len(ordered.p), _GROUPS))
        mass = merged.sums(ordered.weight)
        parts = [
            csr_array((np.ones(size), (positions, index)), (size, len(occupied))),
            csr_array((np.concatenate([1 - upper, upper]), (np.tile(positions, 2), cells)), (size, smoother.cells)),
            csr_array((np.ones(size), (positions, merged.index)), (size, merged.count)),
        ]
        first, second = np.cumsum([part.shape[1] for part in parts])[:2]
        return cls(
            order=ordered.order,
            residual=-ordered.gap,
            weight=weight,
            bin_weight=Grouping(index, len(occupied)).sums(ordered.weight),
            matrix=csr_array(hstack(parts, format="csr")),
            ends=(int(first), int(second)),
            smoother=smoother,
            p=merged.sums(ordered.weight * p) / mass,
            mass=mass,
        )

    def features(self, residuals: Floats | csr_array) -> Floats:
        """Convert rows of residuals (R, N), dense or sparse, to features: sums from which all errors follow, float64 (R, features)."""
        sums = residuals @ self.matrix
        dense = np.asarray(sums if isinstance(sums, np.ndarray) else sums.toarray())
        start, end = self.ends
        return np.concatenate([dense[:, :start], self.smoother.coefficients(dense[:, start:end]), dense[:, end:]], axis=1)

    def of_features(self, features: Floats) -> dict[str, Floats]:
        """Compute every error in `TESTED` by name from the features (R, features), float64 (R,) each."""
        start, end = self.ends[0], self.ends[0] + self.smoother.modes
        gap = np.abs(features[:, :start])
        return {
            "ece": gap.sum(axis=1) / self.weight,
            "smece": self.smoother.error(features[:, start:end] / self.weight),
            "murphy_reliability": (np.square(gap) / self.bin_weight).sum(axis=1) / self.weight,
            "corp_miscalibration": _miscalibration(self.p, self.mass, features[:, end:]),
        }


def _sign_flip_errors(errors: _Errors, grouping: Grouping, plan: Inference, rows: int, stream: int) -> dict[str, Floats]:
    """Compute every error `rows` times, each time with random signs of the clusters' residuals: by name, float64 (rows,) each. stream:
    number of the random sequence.
    """
    features = _cluster_features(errors, grouping)
    generator = np.random.Generator(np.random.PCG64([plan.seed, stream]))
    block = max(1, _BLOCK // grouping.count)
    blocks = []
    for start in range(0, rows, block):
        heads = generator.integers(0, 2, size=(min(block, rows - start), grouping.count), dtype=np.int8)
        blocks.append(errors.of_features((1.0 - 2.0 * heads) @ features))
    return _join_blocks(blocks)


def _cluster_features(errors: _Errors, grouping: Grouping) -> Floats:
    """Return the features of each cluster's residuals, float64 (clusters, features), computed in blocks of clusters."""
    from scipy.sparse import csr_array

    size = len(errors.residual)
    members = csr_array((errors.residual, (grouping.index[errors.order], np.arange(size))), (grouping.count, size))
    step = max(1, _BLOCK // errors.matrix.shape[1])
    return np.concatenate([errors.features(members[first : first + step]) for first in range(0, grouping.count, step)])


def _resampled_errors(
    errors: _Errors, forecasts: Forecasts, grouping: Grouping, *, plan: Inference, rows: int, stream: int
) -> dict[str, Floats]:
    """Compute every error `rows` times, each time for outcomes drawn from the forecasts, correlated inside clusters: by name, float64
    (rows,) each. stream: number of the random sequence.
    """
    p, weight = forecasts.p[errors.order], forecasts.weight[errors.order]
    drawn = calibrated_outcomes(p, Grouping(grouping.index[errors.order], grouping.count), rows, np.random.PCG64([plan.seed, 100 + stream]))
    return _join_blocks([errors.of_features(errors.features(weight * (y - p))) for y in drawn])


def calibrated_outcomes(p: Floats, grouping: Grouping, rows: int, bits: np.random.BitGenerator) -> Iterator[Floats]:
    """Draw outcomes for which the forecasts `p` (N,) are calibrated, correlated inside clusters (a Gaussian copula). Yields `rows` draws in
    blocks (block, N). bits: random generator.
    """
    from scipy.special import ndtri

    generator, threshold = np.random.Generator(bits), ndtri(p)
    block = max(1, _BLOCK // len(p))
    for start in range(0, rows, block):
        size = min(block, rows - start)
        shared = generator.standard_normal((size, grouping.count))[:, grouping.index]
        own = generator.standard_normal((size, len(p)))
        yield (np.sqrt(_CORRELATION) * shared + np.sqrt(1 - _CORRELATION) * own < threshold).astype(np.float64)


def _miscalibration(p: Floats, mass: Floats, residual: Floats) -> Floats:
    """Return the CORP miscalibration of each row of `residual`, float64 (R,). residual: sums of residuals by group of forecasts, (R,
    groups). p, mass: forecast and weight of each group.
    """
    from scipy.optimize import isotonic_regression

    target = p + residual / mass
    rows, groups = target.shape
    # Rows are concatenated, each shifted above the previous one, so that no pool spans two rows.
    raised = (target.max() - target.min() + 1) * np.repeat(np.arange(rows), groups)
    fitted = isotonic_regression(target.ravel() + raised, weights=np.tile(mass, rows)).x - raised
    saved = np.square(target - p) - np.square(target - fitted.reshape(rows, groups))
    return np.asarray(np.maximum(saved @ mass / mass.sum(), 0.0))


def _join_blocks(parts: Sequence[dict[str, Floats]]) -> dict[str, Floats]:
    """Concatenate the errors of several blocks of replicates, by name."""
    return {name: np.concatenate([part[name] for part in parts]) for name in TESTED}
