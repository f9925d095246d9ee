"""Tests of calibration: the distribution of a calibration error under the hypothesis that the forecasts are calibrated.

Calibration errors are functions of the residuals y - p, and positive by chance alone. Under calibration the residuals have mean zero, so that
flipping the signs of all residuals of a cluster together gives equally likely data, whatever the dependence inside clusters (the wild
cluster bootstrap; Cameron, Gelbach and Miller, Rev. Econ. Stat. 90, 2008). With fewer than 100 clusters, rare outcomes may be missing from the
residuals. Then outcomes are also drawn from the forecasts, with correlation one half inside clusters, and the larger p is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Bins, Floats, Forecasts, Ints
from bellwether.calibration.inference import BLOCK, Inference
from bellwether.calibration.metrics import TESTED
from bellwether.calibration.smooth_calibration import Smoother
from bellwether.calibration.sorted_forecasts import SortedForecasts, shares

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Minimum of clusters; fewer have too few assignments of signs for a test at 5 %.
LEAST_CLUSTERS = 6

#: Numbers of clusters and of forecasts from which on outcomes are not drawn in addition.
_FEW_CLUSTERS, _FEW_FORECASTS = 100, 5_000

#: Maximum of replicates.
_REPLICATES = 1_000

#: Correlation inside a cluster of the Gaussian variables behind drawn outcomes.
_CORRELATION = 0.5

#: Maximum of groups of forecasts in isotonic regression; more are merged by rank.
_GROUPS = 300


@dataclass(frozen=True, slots=True)
class NullDistribution:
    """Calibration error under calibration: its mean, and the share of replicates at least as large as the observed error."""

    expected: float
    p: float


def calibration_tests(forecasts: Forecasts, clusters: Clusters, plan: Inference, bins: Bins) -> dict[str, NullDistribution]:
    """Compute the distribution under calibration of each metric in `TESTED`. Empty with too few clusters, no replicates or no forecasts.

    With two-way clusters each way is tested and the larger p is reported.
    """
    if not len(forecasts) or not plan.replicates or clusters.count < LEAST_CLUSTERS:
        return {}
    errors = _Errors.of(forecasts, bins)
    observed = errors.of_features(errors.features(errors.residual[None]))
    rows = min(plan.replicates, _REPLICATES)
    found: dict[str, NullDistribution] = {}
    for stream, way in enumerate(clusters.ways, 1):
        simulated = [_sign_flip_errors(errors, way, plan, rows, stream)]
        if way.count < _FEW_CLUSTERS and len(forecasts) <= _FEW_FORECASTS:
            simulated.append(_resampled_errors(errors, forecasts, way, plan=plan, rows=rows, stream=stream))
        for null in simulated:
            for name in TESTED:
                reached = np.count_nonzero(null[name] >= observed[name][0] * (1 - 1e-9) - 1e-12)
                p = (reached + 1) / (rows + 1)
                if name not in found or p > found[name].p:
                    found[name] = NullDistribution(float(null[name].mean()), p)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """Calibration errors as functions of the residuals of fixed forecasts in ascending order of p.

    order: intp (N,), positions of the forecasts. residual: float64 (N,), weight (y - p).
    weight: sum of all weights. bin_weight: weights of the non-empty bins.
    matrix: sparse (N, width), sums of residuals by bin, by equal-mass bin, by cell of the smoother's grid and by group of forecasts.
    ends: end of each of these four blocks of columns.
    p, mass: float64 (groups,), forecast and weight of the groups in isotonic regression.
    """

    order: Ints
    residual: Floats
    weight: float
    bin_weight: Floats
    matrix: csr_array
    ends: tuple[int, int, int]
    smoother: Smoother
    p: Floats
    mass: Floats

    @classmethod
    def of(cls, forecasts: Forecasts, bins: Bins) -> _Errors:
        from scipy.sparse import csr_array, hstack

        ordered = SortedForecasts.of(forecasts)
        size, weight = len(forecasts), float(ordered.weight.sum())
        p, each = forecasts.p[ordered.order], np.arange(size)
        group = np.repeat(np.arange(len(ordered.p)), np.diff(ordered.group_ends, prepend=-1))
        # The error under calibration is at least about the standard deviation of the mean residual, which the smoother must resolve.
        smoother = Smoother.resolving(ordered.p, 2 * float(np.sqrt(np.square(ordered.gap).sum())) / weight)
        known, index = np.unique(bins.index(p), return_inverse=True)
        merged = Grouping.of(group * _GROUPS // max(len(ordered.p), _GROUPS))
        mass = merged.sums(ordered.weight)
        masses = [(rows, np.full(len(rows), column), share) for column, (rows, share) in enumerate(shares(ordered, bins.count))]
        parts = [
            csr_array((np.ones(size), (each, index)), (size, len(known))),
            csr_array(_entries(masses), (size, bins.count)),
            csr_array(
                _entries([(each, smoother.lower[group], 1 - smoother.share[group]), (each, smoother.upper[group], smoother.share[group])]),
                (size, smoother.cells),
            ),
            csr_array((np.ones(size), (each, merged.index)), (size, merged.count)),
        ]
        first, second, third = np.cumsum([part.shape[1] for part in parts])[:3]
        return cls(
            order=ordered.order,
            residual=-ordered.gap,
            weight=weight,
            bin_weight=Grouping(index, len(known)).sums(ordered.weight),
            matrix=csr_array(hstack(parts, format="csr")),
            ends=(int(first), int(second), int(third)),
            smoother=smoother,
            p=merged.sums(ordered.weight * p) / mass,
            mass=mass,
        )

    def features(self, residuals: Floats | csr_array) -> Floats:
        """Return features of the errors, linear in the residuals: (R, N), dense or sparse, to float64 (R, features)."""
        sums = residuals @ self.matrix
        dense = np.asarray(sums if isinstance(sums, np.ndarray) else sums.toarray())
        _, start, end = self.ends
        return np.concatenate([dense[:, :start], self.smoother.coefficients(dense[:, start:end]), dense[:, end:]], axis=1)

    def of_features(self, features: Floats) -> dict[str, Floats]:
        """Return every error in `TESTED` for each row of features, float64 (R,)."""
        first, second, _ = self.ends
        third = second + self.smoother.modes
        gap = np.abs(features[:, :first])
        return {
            "ece": gap.sum(axis=1) / self.weight,
            "mce": (gap / self.bin_weight).max(axis=1),
            "ace": np.abs(features[:, first:second]).sum(axis=1) / self.weight,
            "smece": self.smoother.error(features[:, second:third] / self.weight),
            "murphy_reliability": (np.square(gap) / self.bin_weight).sum(axis=1) / self.weight,
            "corp_miscalibration": _miscalibration(self.p, self.mass, features[:, third:]),
        }


def _entries(parts: list[tuple[Ints, Ints, Floats]]) -> tuple[Floats, tuple[Ints, Ints]]:
    """Return rows, columns and values for a scipy.sparse matrix."""
    rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return values, (rows, columns)


def _sign_flip_errors(errors: _Errors, way: Grouping, plan: Inference, rows: int, stream: int) -> dict[str, Floats]:
    """Return the errors with the signs of whole clusters flipped at random, float64 (rows,) each."""
    features = _cluster_features(errors, way)
    return _join_blocks([errors.of_features(signs @ features) for signs in plan.signs(way.count, rows, stream)])


def _cluster_features(errors: _Errors, way: Grouping) -> Floats:
    """Return the features of each cluster's residuals, float64 (clusters, features), computed for some clusters at a time."""
    from scipy.sparse import csr_array

    size = len(errors.residual)
    members = csr_array((errors.residual, (way.index[errors.order], np.arange(size))), (way.count, size))
    step = max(1, BLOCK // errors.matrix.shape[1])
    return np.concatenate([errors.features(members[first : first + step]) for first in range(0, way.count, step)])


def _resampled_errors(
    errors: _Errors, forecasts: Forecasts, way: Grouping, *, plan: Inference, rows: int, stream: int
) -> dict[str, Floats]:
    """Return the errors for outcomes drawn from the forecasts, correlated inside clusters, float64 (rows,) each."""
    p, weight = forecasts.p[errors.order], forecasts.weight[errors.order]
    drawn = calibrated_outcomes(p, Grouping(way.index[errors.order], way.count), rows, np.random.PCG64([plan.seed, 100 + stream]))
    return _join_blocks([errors.of_features(errors.features(weight * (y - p))) for y in drawn])


def calibrated_outcomes(
    p: Floats, way: Grouping, rows: int, bits: np.random.BitGenerator, *, dtype: type[np.float32 | np.float64] = np.float64
) -> Iterator[Floats]:
    """Yield outcomes of calibrated forecasts `p` (N,) with correlation one half inside clusters (a Gaussian copula): `rows` in blocks (block, N).

    dtype: of the Gaussian variables; float32 is twice as fast and changes the probability of an outcome by less than 10^-7.
    """
    from scipy.special import ndtri

    generator = np.random.Generator(bits)
    threshold = ndtri(p).astype(dtype)
    shared_by, own_by = dtype(np.sqrt(_CORRELATION)), dtype(np.sqrt(1 - _CORRELATION))
    block = max(1, BLOCK // len(p))
    for start in range(0, rows, block):
        size = min(block, rows - start)
        latent = (shared_by * generator.standard_normal((size, way.count), dtype=dtype))[:, way.index]
        own = generator.standard_normal((size, len(p)), dtype=dtype)
        own *= own_by
        latent += own
        yield (latent < threshold).astype(np.float64)


def _miscalibration(p: Floats, mass: Floats, residual: Floats) -> Floats:
    """Return the mean squared change by isotonic recalibration, per row of sums of residuals (R, groups)."""
    from scipy.optimize import isotonic_regression

    target = p + residual / mass
    rows, groups = target.shape
    # Rows are concatenated, each shifted above the previous one, so that no pool spans two rows.
    raised = (target.max() - target.min() + 1) * np.repeat(np.arange(rows), groups)
    fitted = isotonic_regression(target.ravel() + raised, weights=np.tile(mass, rows)).x - raised
    saved = np.square(target - p) - np.square(target - fitted.reshape(rows, groups))
    return np.asarray(np.maximum(saved @ mass / mass.sum(), 0.0))


def _join_blocks(parts: list[Mapping[str, Floats]] | list[dict[str, Floats]]) -> dict[str, Floats]:
    return {name: np.concatenate([part[name] for part in parts]) for name in TESTED}
