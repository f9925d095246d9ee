"""Paired tests of two forecasters on the questions that both answered, for all pairs of a family at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bellwether.calibration.bootstrap import exactly_summable, product
from bellwether.calibration.forecasts import Bools, Floats, Ints

#: Floats of signs held at a time by one block of permutations, about 16 MB.
_BLOCK = 2_000_000

#: Assignments of signs that are looked at one by one, at most.
_MOST_ASSIGNMENTS = 2**16

#: A standard error below this share of the largest single difference is rounding, not variation.
_ROUNDING = 1e-12

NO_COMMON = "no question has a forecast of both"
ONE_CLUSTER = "the common questions come from one cluster"
IDENTICAL = "the forecasts are identical on every common question"
CONSTANT = "the difference does not vary between clusters"


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Losses of M forecasters on N questions of `n_clusters` clusters.

    names: M names, in the order of the columns.
    loss: float64 (N, M), NaN where a forecaster has no forecast.
    right: bool (N, M), whether its decision was right; meaningless where `loss` is NaN.
    cluster: intp (N,), index of each question's cluster in [0, n_clusters); every cluster has a question.
    """

    names: tuple[str, ...]
    loss: Floats
    right: Bools
    cluster: Ints
    n_clusters: int

    @property
    def seen(self) -> Bools:
        """bool (N, M): where a forecaster has a forecast."""
        return ~np.isnan(self.loss)

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """Column indices (P,) of the first and of the second of every pair."""
        first, second = np.triu_indices(len(self.names), 1)
        return first, second

    def per_cluster(self, rows: Floats) -> Floats:
        """Sums over the questions of each cluster: (N, K) to (n_clusters, K)."""
        order = np.argsort(self.cluster, kind="stable")
        starts = np.searchsorted(self.cluster[order], np.arange(self.n_clusters))
        return np.add.reduceat(rows[order], starts, axis=0) if len(rows) else np.zeros((self.n_clusters, rows.shape[1]))


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Loss of the first minus loss of the second of P pairs, summed over the common questions of each of G clusters.

    total: float64 (G, P), rounded so that any sum of G of its rows is exact.
    count: float64 (G, P), common questions.
    largest: float64 (P,), the largest absolute difference on one question.
    """

    total: Floats
    count: Floats
    largest: Floats

    @classmethod
    def of(cls, panel: Panel) -> Differences:
        """The differences of every pair of the panel, in the order of `Panel.pairs`."""
        seen, size = panel.seen, len(panel.names)
        loss = np.where(seen, panel.loss, 0.0)
        totals, counts, largest = [], [], []
        for first in range(size - 1):
            common = seen[:, first, None] & seen[:, first + 1 :]
            difference = np.where(common, loss[:, first, None] - loss[:, first + 1 :], 0.0)
            totals.append(panel.per_cluster(difference))
            counts.append(panel.per_cluster(common.astype(np.float64)))
            largest.append(np.abs(difference).max(axis=0, initial=0.0))
        if not totals:
            empty = np.zeros((panel.n_clusters, 0))
            return cls(empty, empty, np.zeros(0))
        total = np.concatenate(totals, axis=1)
        return cls(exactly_summable(total) if len(total) else total, np.concatenate(counts, axis=1), np.concatenate(largest))

    @property
    def n(self) -> Ints:
        """intp (P,): common questions."""
        return self.count.sum(axis=0).astype(np.intp)

    @property
    def n_clusters(self) -> Ints:
        """intp (P,): clusters among the common questions."""
        return np.count_nonzero(self.count, axis=0)

    @property
    def mean(self) -> Floats:
        """float64 (P,): mean difference, NaN without a common question."""
        return _ratio(self.total.sum(axis=0), self.count.sum(axis=0))

    def standard_error(self) -> Floats:
        """Cluster-robust standard error of the mean, float64 (P,), NaN with fewer than two clusters.

        The sandwich of a regression on a constant with the small-sample factor G / (G - 1), called CR1: A. C. Cameron and D. L. Miller,
        A practitioner's guide to cluster-robust inference, Journal of Human Resources 50 (2015), 317-372.
        """
        clusters = self.n_clusters.astype(np.float64)
        residual = self.total - self.count * self.mean
        variance = _ratio(clusters, clusters - 1) * np.square(residual).sum(axis=0)
        return _ratio(np.sqrt(variance), self.count.sum(axis=0))

    def undefined_because(self) -> list[str | None]:
        """For each pair why its tests are undefined; None where they are defined."""
        varies = self.standard_error() > _ROUNDING * self.largest
        reasons = np.select(
            [self.n == 0, self.largest == 0, self.n_clusters < 2, ~varies],
            [NO_COMMON, IDENTICAL, ONE_CLUSTER, CONSTANT],
            "",
        )
        return [str(reason) or None for reason in reasons]


def cluster_test(differences: Differences) -> tuple[Floats, Floats, Floats]:
    """Standard error, t and two-sided p with clusters - 1 degrees of freedom, each float64 (P,)."""
    from scipy.special import stdtr

    error = differences.standard_error()
    t = _ratio(differences.mean, error)
    p = 2 * stdtr(np.maximum(differences.n_clusters - 1.0, 1.0), -np.abs(t))
    return error, t, np.maximum(p, np.finfo(np.float64).tiny)


def sign_flip_test(differences: Differences, permutations: int, seed: int) -> Floats:
    """Two-sided p of flipping the sign of whole clusters' differences, float64 (P,).

    Under the null hypothesis that the two are exchangeable within a cluster, every assignment of signs is equally likely. All 2^G of them
    are looked at where they are at most `permutations` (and 65,536); else p = (b + 1) / (permutations + 1) over random ones (B. Phipson and
    G. K. Smyth, Permutation p-values should never be zero, 2010). NaN without a common question.
    """
    clusters = differences.n_clusters
    observed = np.abs(differences.total.sum(axis=0))
    p = np.full(len(clusters), np.nan)
    exact = (clusters > 0) & (np.exp2(np.minimum(clusters, 1000)) <= min(permutations, _MOST_ASSIGNMENTS))
    for pair in np.flatnonzero(exact):
        totals = differences.total[differences.count[:, pair] > 0, pair]
        p[pair] = np.mean(np.abs(_all_signs(len(totals)) @ totals) >= observed[pair])
    sampled = np.flatnonzero((clusters > 0) & ~exact)
    if permutations and len(sampled):
        reached = _reached(differences.total[:, sampled], observed[sampled], permutations, seed)
        p[sampled] = (reached + 1) / (permutations + 1)
    return p


def holm(p: Floats) -> Floats:
    """Holm's step-down adjusted p-values over the defined ones (S. Holm, Scandinavian Journal of Statistics 6, 1979); NaN stays NaN."""
    adjusted = np.full(len(p), np.nan)
    defined = np.flatnonzero(~np.isnan(p))
    order = defined[np.argsort(p[defined], kind="stable")]
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1)
    return adjusted


def mcnemar(panel: Panel) -> Floats:
    """Exact two-sided McNemar p of the decisions of every pair, float64 (P,): questions count as independent. NaN without a common one."""
    from scipy.special import bdtr

    seen = panel.seen
    right = (panel.right & seen).astype(np.float64)
    wrong = (~panel.right & seen).astype(np.float64)
    both = seen.astype(np.float64)
    at = panel.pairs
    only_first, only_second = (right.T @ wrong)[at], (wrong.T @ right)[at]
    p = np.minimum(2 * bdtr(np.minimum(only_first, only_second), (only_first + only_second).astype(np.intp), 0.5), 1)
    return np.where((both.T @ both)[at] > 0, p, np.nan)


def pair_statistics(panel: Panel, differences: Differences, permutations: int, seed: int) -> Mapping[str, Floats]:
    """Every test of every pair by column name, float64 (P,), NaN where undefined."""
    undefined = np.array([reason is not None for reason in differences.undefined_because()], dtype=bool)
    error, t, p_cluster = cluster_test(differences)
    tests = {
        "standard_error": error,
        "t": t,
        "p_cluster": p_cluster,
        "p_sign_flip": sign_flip_test(differences, permutations, seed),
        "p_mcnemar": mcnemar(panel),
    }
    masked = {name: np.where(undefined, np.nan, values) for name, values in tests.items()}
    return {**masked, "p_holm": holm(masked["p_cluster"])}


def _all_signs(clusters: int) -> NDArray[np.float64]:
    """Every assignment of signs: float64 (2^clusters, clusters)."""
    bits = np.arange(2**clusters)[:, None] >> np.arange(clusters) & 1
    return _signs(bits)


def _signs(bits: NDArray[np.integer[Any]]) -> Floats:
    return 1.0 - 2.0 * bits.astype(np.float64)


def _reached(totals: Floats, observed: Floats, permutations: int, seed: int) -> Ints:
    """How many of so many random assignments of signs give a sum at least as far from zero as observed, intp (P,)."""
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    block = max(1, _BLOCK // len(totals))
    reached = np.zeros(totals.shape[1], dtype=np.intp)
    for start in range(0, permutations, block):
        signs = _signs(generator.integers(0, 2, size=(min(block, permutations - start), len(totals)), dtype=np.int8))
        reached += np.count_nonzero(np.abs(product(signs, totals)) >= observed, axis=0)
    return reached


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.full(np.shape(numerator), np.nan), where=denominator > 0)
