"""Pairwise comparison of families (competitors): mean difference over common cohort-weeks, clustered by cohort and week.

A cohort-week is one week in which a cohort decides. Its agents have the same universe at the same prices, so that the difficulty of the week
cancels. Weeks of a cohort and cohorts of a week are dependent, which standard errors with two-way clusters take into account
(docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from bellwether.arena.rankings.price_noise import Exposure
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.comparison import CONFIDENCE_SET_LEVEL, SIGNIFICANCE
from bellwether.calibration.comparison_pairs import IDENTICAL, holm
from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.mean_inference import NOTHING, ClusterSums, mean_tests
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
    outcomes: pl.DataFrame, names: Sequence[str], ranked: Sequence[bool], *, higher_is_better: bool, level: float
) -> PairComparison:
    """Test for every pair of the families `names` whether their mean values differ. ranked: whether each family may enter the confidence set.

    outcomes: family, cohort, week, value (summed per cohort-week), slope (derivative of the value by the outcome of a market, or null), y,
    price, market and event.
    """
    values = outcomes.group_by("family", "cohort", "week").agg(pl.col("value").sum())
    matrix, clusters = _value_matrix(values, names)
    first, second = (np.asarray(side, dtype=np.intp) for side in np.triu_indices(len(names), 1))
    floor = _variance_floors(outcomes, names, matrix, (first, second))
    tested, n, identical = _test_pairs(matrix, clusters, (first, second), floor, level)
    p_holm = holm(tested["p"])
    pairs = pl.DataFrame(
        {
            "family": pl.Series([names[int(index)] for index in first], dtype=pl.String),
            "other": pl.Series([names[int(index)] for index in second], dtype=pl.String),
            "n": n,
            "n_clusters": tested["clusters"],
            **{
                name: pl.Series(tested[name], dtype=pl.Float64, nan_to_null=True)
                for name in ("difference", "lower", "upper", "standard_error", "df", "p")
            },
            "p_holm": pl.Series(p_holm, dtype=pl.Float64, nan_to_null=True),
            "method": pl.Series(tested["method"], dtype=pl.String),
            "reason": pl.Series(tested["reason"], dtype=pl.String),
        }
    )
    loss = -np.asarray(tested["difference"]) if higher_is_better else np.asarray(tested["difference"])
    takes_part = np.asarray(ranked, dtype=bool)
    mcs_p = confidence_set(loss, np.where(identical, 1.0, p_holm), (first, second), takes_part)
    in_mcs = [None if np.isnan(p) else bool(p > CONFIDENCE_SET_LEVEL) for p in mcs_p]
    means = _mean_losses(matrix, higher_is_better)
    letter_groups = group_letters(np.where(takes_part, means, np.nan), p_holm, (first, second), SIGNIFICANCE)
    return PairComparison(pairs, [None if np.isnan(p) else float(p) for p in mcs_p], in_mcs, letter_groups)


def _value_matrix(values: pl.DataFrame, names: Sequence[str]) -> tuple[Floats, Clusters]:
    """Return the values as a matrix, float64 (W cohort-weeks, M families), NaN if missing, and the cohort and week of each row as clusters."""
    cells = values.select("cohort", "week").unique().sort("cohort", "week").with_row_index("row")
    placed = values.join(cells, on=["cohort", "week"]).filter(pl.col("family").is_in(list(names)))
    matrix = np.full((cells.height, len(names)), np.nan)
    column = {name: index for index, name in enumerate(names)}
    matrix[placed["row"].to_numpy(), [column[name] for name in placed["family"]]] = placed["value"].to_numpy()
    return matrix, Clusters.of({"cohort": cells["cohort"], "week": cells["week"]}, cells.height)


def _variance_floors(outcomes: pl.DataFrame, names: Sequence[str], matrix: Floats, pairs: tuple[Ints, Ints]) -> Floats:
    """Return the minimum variance of the mean difference of P pairs over common cohort-weeks, as implied by prices, float64 (P,). matrix: from
    `_value_matrix`.

    The minimum is the larger of the variance expected from prices and the squared deviations from prices. Each event counts once, even if bet
    on in several cohort-weeks.
    """
    cells = outcomes.select("cohort", "week").unique().sort("cohort", "week").with_row_index("row")
    priced = outcomes.filter(pl.col("slope").is_not_null()).join(cells, on=["cohort", "week"], maintain_order="left")
    row, slope = priced["row"].to_numpy(), priced["slope"].to_numpy()
    exposure = Exposure.of(*(priced[name].to_numpy() for name in ("price", "market", "event")))
    surprise = slope * (priced["y"].to_numpy() - exposure.chance)
    family = priced["family"].cast(pl.Enum(names)).to_physical().to_numpy()
    rows_of = [np.flatnonzero(family == index) for index in range(len(names))]
    present, floors = ~np.isnan(matrix), np.zeros(len(pairs[0]))
    for pair, (first, second) in enumerate(zip(*pairs, strict=True)):
        common = present[:, first] & present[:, second]
        mine, theirs = (rows_of[index][common[row[rows_of[index]]]] for index in (first, second))
        used, sign = np.concatenate([mine, theirs]), np.repeat([1.0, -1.0], [len(mine), len(theirs)]) / max(common.sum(), 1)
        own = exposure.take(used)
        occurred = np.square(np.bincount(own.event, sign * surprise[used])).sum()
        floors[pair] = max(own.variance((sign * slope[used])[:, None])[0], occurred)
    return floors


def _test_pairs(
    matrix: Floats, clusters: Clusters, pairs: tuple[Ints, Ints], floor: Floats, level: float
) -> tuple[dict[str, Any], Ints, Bools]:
    difference = matrix[:, pairs[0]] - matrix[:, pairs[1]]
    present = ~np.isnan(difference)
    values, weight = np.nan_to_num(difference), present.astype(np.float64)
    n = present.sum(axis=0)
    identical = (n > 0) & (values == 0).all(axis=0)

    def sums(grouping: Grouping) -> ClusterSums:
        total, size = np.zeros((grouping.count, len(n))), np.zeros((grouping.count, len(n)))
        np.add.at(total, grouping.index, values)
        np.add.at(size, grouping.index, weight)
        return ClusterSums(total, size)

    assert clusters.both is not None
    tests = mean_tests([sums(grouping) for grouping in clusters.ways], sums(clusters.both), level=level, floor=floor)
    reasons = [
        IDENTICAL if same else NO_COMMON if reason == NOTHING else reason for same, reason in zip(identical, tests.reason, strict=True)
    ]
    undefined = np.array([reason is not None for reason in reasons], dtype=bool)
    tested: dict[str, Any] = {
        name: np.where(undefined, np.nan, getattr(tests, name)) for name in ("lower", "upper", "standard_error", "df", "p")
    }
    method = [None if is_undefined else name for is_undefined, name in zip(undefined, tests.method, strict=True)]
    others = {"difference": tests.mean, "clusters": tests.clusters.astype(np.int64), "method": method, "reason": reasons}
    return {**tested, **others}, n.astype(np.int64), identical


def _mean_losses(matrix: Floats, higher_is_better: bool) -> Floats:
    present = ~np.isnan(matrix)
    count = present.sum(axis=0)
    mean = np.divide(np.nan_to_num(matrix).sum(axis=0), count, out=np.full(matrix.shape[1], np.nan), where=count > 0)
    return -mean if higher_is_better else mean
