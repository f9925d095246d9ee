"""Pairwise comparison of families (competitors): difference of two means or returns over common cohort-weeks, with events as clusters.

A cohort-week is one week in which a cohort decides. Its agents have the same universe at the same prices, so that the difficulty of the week
cancels. One outcome of a question counts for the bets of both families (docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import polars as pl

from bellwether.arena.rankings.possible_outcomes import SOLD, Questions, leave_out_interval, limit_ends
from bellwether.calibration.bootstrap import CONSTANT, Bounds, Inference, Statistic, bootstrap
from bellwether.calibration.comparison import CONFIDENCE_SET_LEVEL, SIGNIFICANCE, holm
from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.ranking import confidence_set, group_letters

NO_COMMON = "no cohort-week has both"


@dataclass(frozen=True, slots=True, eq=False)
class PairComparison:
    """Results of testing all pairs of families by one metric.

    pairs: one row per pair, without the columns group and metric. mcs_p, in_mcs: p-value and membership in the confidence set of best
    families. letters: families that share a letter do not differ significantly. All three: one value per family, in the given order.
    """

    pairs: pl.DataFrame
    mcs_p: Sequence[float | None]
    in_mcs: Sequence[bool | None]
    letters: Sequence[str | None]


def compare_pairs(
    outcomes: pl.DataFrame, cells: pl.DataFrame, names: Sequence[str], ranked: Sequence[bool], plan: Inference, *, higher_is_better: bool
) -> PairComparison:
    """Test for every pair of families whether their means, or returns, differ.

    Args:
        outcomes: bets of all families, from `score_outcomes`, or positions, from `profit_outcomes`.
        cells: cohort-weeks of each family: family, cohort, week and, for returns only, initial_cash of the cohort in dollars.
        names: families in the order of the results.
        ranked: whether each family may enter the confidence set.
        plan: level and seed.
        higher_is_better: direction of the metric.
    """
    panel = _Panel.of(outcomes, cells, names)
    pairs = list(combinations(range(len(names)), 2))
    found, n = panel.compare(pairs, plan), [int(panel.common(*pair).sum()) for pair in pairs]
    p_holm = holm(np.array([np.nan if bounds.p is None else bounds.p for bounds in found]))
    difference = np.array([np.nan if bounds.value is None else bounds.value for bounds in found])
    floats: dict[str, Sequence[float | None] | Floats] = {
        "difference": difference,
        "lower": [bounds.lower for bounds in found],
        "upper": [bounds.upper for bounds in found],
        "p": [bounds.p for bounds in found],
        "p_holm": p_holm,
    }
    rows = pl.DataFrame(
        {
            "family": pl.Series([names[one] for one, _ in pairs], dtype=pl.String),
            "other": pl.Series([names[other] for _, other in pairs], dtype=pl.String),
            "n": pl.Series(n, dtype=pl.Int64),
            "n_clusters": pl.Series([bounds.n_clusters for bounds in found], dtype=pl.Int64),
            **{name: pl.Series(values, dtype=pl.Float64, nan_to_null=True) for name, values in floats.items()},
            "reason": pl.Series([bounds.reason for bounds in found], dtype=pl.String),
        }
    )
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.intp) for side in (0, 1))
    sign, takes_part = -1 if higher_is_better else 1, np.asarray(ranked, dtype=bool)
    mcs_p = confidence_set(sign * difference, p_holm, (first, second), takes_part)
    in_mcs = [None if np.isnan(p) else bool(p > CONFIDENCE_SET_LEVEL) for p in mcs_p]
    letters = group_letters(np.where(takes_part, sign * panel.means, np.nan), p_holm, (first, second), SIGNIFICANCE)
    return PairComparison(rows, [None if np.isnan(p) else float(p) for p in mcs_p], in_mcs, letters)


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """Mean or return of a family over cohort-weeks: (sum of values) / total.

    values: float64 (3, questions). sizes: float64 (questions,). total: number of bets, or initial cash in dollars. sold: whether it contains
    sold positions.
    """

    values: Floats
    sizes: Floats
    total: float
    sold: bool

    @property
    def coefficient(self) -> float:
        """Factor of (sum of values) / (sum of sizes)."""
        return float(self.sizes.sum()) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Panel:
    """Bets of F families in C cohort-weeks.

    rows: numbers of the bets of each family. cell: cohort-week of each bet. sold: of each bet, whether the position was sold. cohort: of each
    cohort-week. present: bool (F, C). cash: initial cash of each family in each cohort-week in dollars, float64 (F, C); None for means.
    """

    questions: Questions
    rows: tuple[Ints, ...]
    cell: Ints
    sold: Bools
    cohort: Ints
    present: Bools
    cash: Floats | None

    @classmethod
    def of(cls, outcomes: pl.DataFrame, cells: pl.DataFrame, names: Sequence[str]) -> _Panel:
        placed = cells.select("cohort", "week").unique().sort("cohort", "week").with_row_index("cell")
        of_family = cells.join(placed, on=["cohort", "week"])
        column = {name: number for number, name in enumerate(names)}
        at = np.array([column[name] for name in of_family["family"]], dtype=np.intp), of_family["cell"].to_numpy()
        present = np.zeros((len(names), placed.height), dtype=bool)
        present[at] = True
        cash = None
        if "initial_cash" in cells.columns:
            cash = np.zeros(present.shape)
            cash[at] = of_family["initial_cash"].to_numpy()
        bets = outcomes.join(placed, on=["cohort", "week"], maintain_order="left")
        family = bets["family"].to_numpy()
        rows = tuple(np.flatnonzero(family == name) for name in names)
        cohort = (placed["cohort"].rank("dense") - 1).to_numpy().astype(np.intp)
        return cls(Questions.of(bets), rows, bets["cell"].to_numpy(), bets["sold"].to_numpy(), cohort, present, cash)

    @property
    def means(self) -> Floats:
        """Mean or return of each family over all its cohort-weeks, float64 (F,), NaN without any."""
        terms = [self._term(family, self.present[family]) for family in range(len(self.rows))]
        return np.array([term.values[0].sum() / term.total if term.total else np.nan for term in terms])

    def common(self, one: int, other: int) -> Bools:
        """Return a mask of the cohort-weeks of both families, bool (C,)."""
        return np.asarray(self.present[one] & self.present[other])

    def compare(self, pairs: Sequence[tuple[int, int]], plan: Inference) -> list[Bounds]:
        """Compute the difference of each pair of families."""
        statistics = (self._difference(*self._terms(*pair)) for pair in pairs)
        found = bootstrap(statistics, self.questions.weight, self.questions.events, plan)
        return [self._complete(bounds, pair) for bounds, pair in zip(found, pairs, strict=True)]

    def _terms(self, one: int, other: int) -> tuple[_Term, _Term]:
        common = self.common(one, other)
        return self._term(one, common), self._term(other, common)

    def _term(self, family: int, cells: Bools) -> _Term:
        rows = self.rows[family][cells[self.cell[self.rows[family]]]]
        values, sizes = self.questions.sums(rows)
        if self.cash is None:
            return _Term(values, sizes, float(sizes.sum()), sold=False)
        cohorts, first = np.unique(np.where(cells, self.cohort, -1), return_index=True)
        cash = float(self.cash[family, first[cohorts >= 0]].sum())
        # Without positions the return is 0 for all sizes.
        return _Term(values, sizes if len(rows) else self.questions.weight, cash, bool(self.sold[rows].any()))

    def _difference(self, one: _Term, other: _Term) -> Statistic:
        weight = self.questions.weight
        numerators = np.stack([one.values, other.values], axis=1) / weight
        denominators = np.broadcast_to(np.stack([one.sizes, other.sizes]) / weight, numerators.shape)
        return Statistic(numerators, denominators, (one.coefficient, -other.coefficient))

    def _complete(self, bounds: Bounds, pair: tuple[int, int]) -> Bounds:
        """Limit the interval of a difference of returns; leave it out with sold positions; name the reason without a common cohort-week."""
        if not self.common(*pair).any():
            return replace(bounds, reason=NO_COMMON)
        if self.cash is None:
            return bounds
        one, other = self._terms(*pair)
        if one.sold or other.sold:
            return leave_out_interval(bounds, SOLD)
        if not self.questions.events.count:
            return Bounds(0.0, p=1.0, reason=CONSTANT)
        return limit_ends(bounds, one.values[1:] / one.total - other.values[1:] / other.total)
