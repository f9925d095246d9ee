"""Scores of forecasts of more than two categories, with intervals: Brier score, logarithmic loss and ranked probability score.

    brier = mean over forecasts of sum over k of (p_k - y_k)^2            (Brier, Mon. Weather Rev. 78, 1950: in [0, 2])
    log_loss = -mean ln p of the observed category
    ranked_probability = mean over forecasts of sum over k < K of (P_k - Y_k)^2 / (K - 1), P and Y cumulative, for ordered categories
                                                                          (Epstein, J. Appl. Meteorol. 8, 1969, in [0, 1])

For two categories `ranked_probability` is the Brier score of one of them, and `brier` is twice that score, as Brier defined it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.bootstrap import NO_CLUSTERS, UNDEFINED, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters, Labels
from bellwether.calibration.estimates import Estimate, Scores
from bellwether.calibration.forecasts import Floats
from bellwether.calibration.inference import Inference
from bellwether.calibration.sufficient_statistics import CLIP
from bellwether.errors import ScoringError

#: Tolerance of the sum of a forecast's probabilities.
_TOLERANCE = 1e-6


def evaluate_categories(p: ArrayLike, y: ArrayLike, clusters: Labels | None, *, weights: ArrayLike | None, plan: Inference) -> Scores:
    """Score probabilities `p` (N, K) of categories; `y` (N,) is the index of the observed category.

    Raises `ScoringError` with the index and the value of the first invalid forecast.
    """
    probability = _probabilities(p)
    size, count = probability.shape
    outcome = _outcomes(y, size, count)
    weight = np.ones(size) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (size,) or not ((weight > 0) & np.isfinite(weight)).all():
        raise ScoringError(f"scoring categories: weights are {size} positive, finite numbers; correct them")
    losses = category_losses(probability, outcome)
    grouped = None if clusters is None else Clusters.of(clusters, size)
    possible = [losses, *(category_losses(probability, np.full(size, category)) for category in range(count))]
    estimates = {name: _estimate([by_name[name] for by_name in possible], weight, grouped, plan) for name in losses}
    return Scores(size, 0 if grouped is None else grouped.count, estimates, losses)


def category_losses(probability: Floats, outcome: np.ndarray) -> dict[str, Floats]:
    """Compute brier, log_loss and ranked_probability of each forecast, float64 (N,) each."""
    size, count = probability.shape
    observed = np.zeros((size, count))
    observed[np.arange(size), outcome] = 1.0
    gap = np.cumsum(probability - observed, axis=1)[:, :-1]
    return {
        "brier": np.square(probability - observed).sum(axis=1),
        "log_loss": -np.log(np.clip(probability[np.arange(size), outcome], CLIP, 1.0)),
        "ranked_probability": np.square(gap).sum(axis=1) / (count - 1),
    }


def _estimate(losses: Sequence[Floats], weight: Floats, clusters: Clusters | None, plan: Inference) -> Estimate:
    """Return the weighted mean of a score with its interval. losses: as observed, and for each category as the outcome, (N,) each."""
    if not len(weight):
        return Estimate(None, reason=UNDEFINED)
    if clusters is None:
        return Estimate(float((weight * losses[0]).sum() / weight.sum()), reason=NO_CLUSTERS)
    bounds = bootstrap([Statistic.mean(losses)], weight, clusters, plan)[0]
    return Estimate(bounds.value, bounds.lower, bounds.upper, reason=bounds.reason)


def _probabilities(p: ArrayLike) -> Floats:
    """Validate probabilities of categories and return them as float64 (N, K)."""
    try:
        probability = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoringError(f"scoring categories: p is not numeric ({error}); give one row of probabilities per forecast") from None
    if probability.ndim != 2 or probability.shape[1] < 2:
        raise ScoringError(
            f"scoring categories: p has the shape {probability.shape}; give (forecasts, categories), with at least two categories"
        )
    good = ((probability >= 0) & (probability <= 1)).all(axis=1) & (np.abs(probability.sum(axis=1) - 1) <= _TOLERANCE)
    if not good.all():
        index = int(np.argmin(good))
        raise ScoringError(
            f"scoring categories: p is {probability[index].tolist()} at index {index}; give probabilities in [0, 1] that add up to 1"
        )
    return probability


def _outcomes(y: ArrayLike, size: int, count: int) -> np.ndarray:
    """Validate the indices of the observed categories, intp (N,). size: number of forecasts. count: number of categories."""
    outcome = np.asarray(y)
    if outcome.shape != (size,):
        raise ScoringError(f"scoring categories: y has the shape {outcome.shape} and p {size} rows; give one category per forecast")
    try:
        whole = outcome.astype(np.float64)
    except (TypeError, ValueError):
        raise ScoringError("scoring categories: y is not numeric; give the index of the observed category, from 0") from None
    good = (whole >= 0) & (whole < count) & (whole == np.floor(whole))
    if not good.all():
        index = int(np.argmin(good))
        raise ScoringError(
            f"scoring categories: y is {outcome[index]} at index {index}; give the index of the observed category, 0 to {count - 1}"
        )
    return whole.astype(np.intp)
