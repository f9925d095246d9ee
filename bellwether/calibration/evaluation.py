"""Evaluation of forecasts against outcomes: every metric with its interval."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from bellwether.calibration.added_value import AddedValue, bet
from bellwether.calibration.bootstrap import (
    FEW_CLUSTERS,
    MIN_CLUSTERS,
    NO_CLUSTERS,
    UNDEFINED,
    Bounds,
    Inference,
    Statistic,
    bootstrap,
    explain_few_clusters,
)
from bellwether.calibration.calibration_test import calibration_tests
from bellwether.calibration.clusters import Clusters, Labels
from bellwether.calibration.forecasts import Bools, Floats, Forecasts
from bellwether.calibration.formulas import compute_metrics, metric_terms
from bellwether.calibration.metrics import AGAINST_MARKET, METRICS, NO_INTERVAL, SKILLS
from bellwether.errors import ScoringError


@dataclass(frozen=True, slots=True)
class Estimate:
    """Value of a metric with its interval; fields are None if undefined.

    lower, upper: the interval. reason: cause of a missing interval.
    expected, p_calibrated: of a calibration error, its mean if the forecasts were calibrated, and the p-value of a test of calibration.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    reason: str | None = None
    expected: float | None = None
    p_calibrated: float | None = None


@dataclass(frozen=True, slots=True)
class Scores(Mapping[str, Estimate]):
    """All metrics of one forecaster by name, over `n` forecasts from `n_clusters` clusters (0 without clusters)."""

    n: int
    n_clusters: int
    estimates: Mapping[str, Estimate]

    def __getitem__(self, metric: str) -> Estimate:
        try:
            return self.estimates[metric]
        except KeyError:
            near = difflib.get_close_matches(metric, self.estimates, n=1)
            raise KeyError(f"no metric is called {metric!r}{f'; did you mean {near[0]!r}?' if near else ''}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def frame(self) -> pl.DataFrame:
        """Return one row per metric: metric, value, lower, upper, reason, expected, p_calibrated, n, n_clusters, better, meaning."""
        rows = [
            {
                "metric": name,
                **asdict(estimate),
                "n": self.n,
                "n_clusters": self.n_clusters,
                "better": METRICS[name].better.value,
                "meaning": METRICS[name].meaning,
            }
            for name, estimate in self.items()
        ]
        floats = dict.fromkeys(("value", "lower", "upper", "expected", "p_calibrated"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides=floats | {"reason": pl.String}, infer_schema_length=None)


def evaluate(
    p: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    *,
    answer: Sequence[Any] | NDArray[Any] | None = None,
    market: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    asked: int | None = None,
    level: float = Inference().level,
    replicates: int = Inference().replicates,
    seed: int = Inference().seed,
) -> Scores:
    """Score forecasts `p` of yes against outcomes `y`: `evaluate([0.8, 0.3], [1, 0])["brier"].value`.

    Args:
        p: probabilities of yes, (N,), in [0, 1].
        y: outcomes, (N,), 1 for yes and 0 for no, or a share in between.
        clusters: label of the cluster (series, event) of each forecast, required for intervals; two columns of labels for two-way clusters, as a
            tuple, a mapping or a frame. Give `range(N)` for independent forecasts.
        answer: "yes", "no" or None per forecast; without an answer the decision is p >= 0.5.
        market: the market's price of yes per forecast for `skill_vs_market`, NaN without a price.
        weights: weight of each forecast, (N,), positive.
        asked: total number of questions, for `coverage`; N by default.
        level, replicates, seed: as in `Inference`.

    Raises `ScoringError` with the column, the index and the value of the first invalid entry.
    """
    plan = Inference(level, replicates, seed)
    forecasts = Forecasts.of(p, y, answer=answer, market=market, weights=weights)
    size = len(forecasts)
    if asked is not None and asked < size:
        raise ScoringError(
            f"scoring: asked is {asked} with {size} forecasts; give the total number of questions, at least one per forecast"
        )
    grouped = None if clusters is None else Clusters.of(clusters, size)
    return evaluate_forecasts(forecasts, grouped, size if asked is None else asked, plan)


def evaluate_forecasts(forecasts: Forecasts, clusters: Clusters | None, asked: int, plan: Inference) -> Scores:
    """Score validated forecasts as `evaluate` does. asked: total number of questions."""
    added = AddedValue.of(forecasts)
    values = {name: None if np.isnan(value) else value for name, value in compute_metrics(forecasts, clusters, added).items()}
    bounds = {} if clusters is None else _intervals(forecasts, added, clusters, plan)
    tests = {} if clusters is None else calibration_tests(forecasts, clusters, plan)
    size = len(forecasts)
    values["coverage"] = size / asked if asked else None
    estimates: dict[str, Estimate] = {}
    for name in METRICS:
        value, bound, test = values[name], bounds.get(name), tests.get(name)
        if name in (*SKILLS, *AGAINST_MARKET) and value is not None and _count_clusters(name, forecasts, clusters) < MIN_CLUSTERS:
            estimates[name] = Estimate(None, reason=FEW_CLUSTERS)
        elif value is None and name in ("encompassing", "pool_weight", "pool_gain") and added.reason is not None:
            estimates[name] = Estimate(None, reason=added.reason)
        elif bound is not None:
            estimates[name] = Estimate(value, bound.lower, bound.upper, reason=bound.reason)
        else:
            reason = NO_CLUSTERS if clusters is None else NO_INTERVAL.get(name, UNDEFINED)
            estimates[name] = Estimate(
                value, reason=reason, expected=test.expected if test else None, p_calibrated=test.p if test else None
            )
    return Scores(size, 0 if clusters is None else clusters.count, estimates)


def _intervals(forecasts: Forecasts, added: AddedValue, clusters: Clusters, plan: Inference) -> dict[str, Bounds]:
    """Compute the interval of every metric that has one and is defined on these forecasts, by name."""
    terms = [metric_terms(forecasts, y) | added.terms(y) for y in (forecasts.y, *_possible_outcomes(forecasts))]
    statistics = {name: replace(_statistic(terms, (name,)), relative=name in SKILLS) for name in terms[0] if name not in NO_INTERVAL}
    bounds = dict(zip(statistics, bootstrap(statistics.values(), forecasts.weight, clusters, plan), strict=True))
    rarer = min(int(np.count_nonzero(way.sums(outcome))) for way in clusters.ways for outcome in (forecasts.y, 1 - forecasts.y))
    if bounds["brier_skill"].reason is None and rarer < MIN_CLUSTERS:
        # The base rate of the outcomes is the reference; where one outcome is that rare, intervals do not have their nominal coverage.
        bounds["brier_skill"] = Bounds(bounds["brier_skill"].value, reason=f"the rarer outcome is in {explain_few_clusters(rarer)}")
    weight = bounds["pool_weight"]
    value, lower, upper = (None if end is None else added.gain(end) for end in (weight.value, weight.lower, weight.upper))
    bounds["pool_gain"] = replace(weight, value=value, lower=lower, upper=upper)
    if forecasts.is_binary:
        macro_f1 = _statistic(terms, ("f1_yes", "f1_no"))
        bounds["macro_f1"] = bootstrap([macro_f1], forecasts.weight, clusters, plan)[0]
    return bounds


def _possible_outcomes(forecasts: Forecasts) -> tuple[Floats, ...]:
    """Return the outcomes at which scores are extreme, (N,) each: all no and all yes; with fractional outcomes also those equal to the forecasts."""
    size = len(forecasts)
    ends = np.zeros(size), np.ones(size)
    return ends if forecasts.is_binary else (*ends, forecasts.p)


def _statistic(terms: Sequence[Mapping[str, tuple[Floats | Bools, Floats | Bools]]], names: Sequence[str]) -> Statistic:
    """Build the statistic of a metric, or the mean of several, from its terms under the observed and the possible outcomes."""
    numerators, denominators = (np.array([[by_name[name][side] for name in names] for by_name in terms], dtype=float) for side in (0, 1))
    return Statistic(numerators, denominators, (1 / len(names),) * len(names))


def find_used(metric: str, forecasts: Forecasts) -> Bools:
    """Return a mask of the forecasts behind a metric, bool (N,): those with a price or a paper bet, or all."""
    if metric == "paper_return":
        return bet(forecasts, forecasts.y)[1] > 0
    return ~np.isnan(forecasts.market) if metric in AGAINST_MARKET else np.ones(len(forecasts), dtype=bool)


def _count_clusters(metric: str, forecasts: Forecasts, clusters: Clusters | None) -> int:
    """Count the clusters of the forecasts behind a metric. Without clusters every forecast counts as one."""
    used = find_used(metric, forecasts)
    return int(used.sum()) if clusters is None else clusters.take(used).count
