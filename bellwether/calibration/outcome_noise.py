"""Minimum variance of a score, due to random outcomes, for samples with few clusters.

With few clusters, surprising outcomes may be missing from the sample, so that the clusters look alike. The variance is then at least that of the
score if each outcome were drawn from a pooled forecast, with correlation one half inside a cluster. From 20 clusters on, only the variation
between clusters is used.
"""

from __future__ import annotations

import numpy as np

from bellwether.calibration.clusters import Clusters
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.sufficient_statistics import CLIP, log_loss

#: Number of clusters from which on the variance is that of the jackknife alone.
MANY = 20

#: Correlation of outcomes inside a cluster.
_CORRELATION = 0.5

#: Weight of the prior for equal shares, as a number of questions on which one forecast is 0 and the other 1.
_PRIOR = 1.0


def pool_forecasts(p: Floats, other: Floats, y: Floats, weight: Floats) -> Floats:
    """Return the weighted mean of two forecasts that fits the outcomes best, float64 (N,). The weights are shrunk towards one half.

    The share of `p` is the ridge regression of y - other on p - other, clipped to [0, 1].
    """
    difference, relative = p - other, weight / weight.mean() if len(weight) else weight
    fit = (relative * (y - other) * difference).sum() + _PRIOR / 2
    share = np.clip(fit / ((relative * np.square(difference)).sum() + _PRIOR), 0, 1)
    return np.asarray(share * p + (1 - share) * other)


def pool_with_base_rate(forecasts: Forecasts) -> Floats:
    """Return the mean of the forecasts and the base rate of their outcomes, weighted as in `pool_forecasts`, float64 (N,).

    One added outcome of each kind keeps the base rate above 0 and below 1.
    """
    relative = forecasts.weight / forecasts.weight.mean()
    base_rate = ((relative * forecasts.y).sum() + 1) / (relative.sum() + 2)
    return pool_forecasts(forecasts.p, np.full(len(forecasts), base_rate), forecasts.y, forecasts.weight)


def minimum_variance(slope: Floats, probability: Floats, clusters: Clusters) -> float:
    """Return the variance of a score if outcomes are drawn from `probability` (N,), correlated inside clusters. slope: derivative of the
    score by each outcome, (N,).

    With two-way clusters it is the larger of the two variances.
    """
    deviation = slope * np.sqrt(probability * (1 - probability))
    independent = np.square(deviation).sum()
    together = max(np.square(way.sums(deviation)).sum() for way in clusters.ways)
    return float((1 - _CORRELATION) * independent + _CORRELATION * together)


def slopes(forecasts: Forecasts, metric: str) -> Floats | None:
    """Return the derivative of a score by each outcome, float64 (N,); None for a metric without a minimum variance.

    The score is on the scale of its interval: the logit for `brier`, the logarithm for `log_loss`, and that of 1 - skill
    for the skills.
    """
    p, y, weight = forecasts.p, forecasts.y, forecasts.weight
    size, error = weight.sum(), (weight * np.square(p - y)).sum()
    brier, base_rate = error / size, (weight * y).sum() / size
    match metric:
        case "brier":
            return np.asarray(weight * (1 - 2 * p) / size / (brier * (1 - brier)))
        case "log_loss":
            clipped = np.clip(p, CLIP, 1 - CLIP)
            return np.asarray(weight * np.log((1 - clipped) / clipped) / (weight * log_loss(p, y)).sum())
        case "brier_skill":
            return np.asarray(weight / size * ((1 - 2 * p) / brier - (1 - 2 * base_rate) / (base_rate * (1 - base_rate))))
        case "skill_vs_market":
            market = np.nan_to_num(forecasts.market)
            priced = np.where(np.isnan(forecasts.market), 0.0, weight)
            ours, theirs = ((priced * np.square(p_of - y)).sum() for p_of in (p, market))
            return np.asarray(priced * ((1 - 2 * p) / ours - (1 - 2 * market) / theirs))
    return None
