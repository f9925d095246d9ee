"""Decompositions of the Brier score into terms that add up to it exactly.

Murphy (J. Appl. Meteorol. 12, 1973) over the ten bins, exact with the within-bin terms of Stephenson, Coelho & Jolliffe
(Weather and Forecasting 23, 2008):

    brier = reliability - resolution + uncertainty + within-bin variance - within-bin covariance

Yates' covariance decomposition (Organizational Behavior and Human Performance 30, 1982):

    brier = uncertainty + bias^2 + min variance + excess variance - 2 covariance

CORP (Dimitriadis, Gneiting & Jordan, PNAS 118, 2021), with the forecasts' own isotonic recalibration in place of bins:

    brier = miscalibration - discrimination + uncertainty

Uncertainty is the variance of the outcomes in all three. If all outcomes agree it is 0, and so is every term that distinguishes outcomes.

Reliability and resolution are biased upwards: chance alone makes them positive. Ferro and Fricker (Q. J. R. Meteorol. Soc. 138, 2012) subtract
the variance of independent outcomes. Here the squares of the bins are averaged over pairs of forecasts from different clusters instead.
This leaves no bias, whatever the dependence inside clusters. It equals their estimate if each forecast is a cluster and the forecasts of a bin
are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.clusters import Clusters, Grouping, Labels
from bellwether.calibration.forecasts import Bins, Floats, Forecasts, Ints
from bellwether.calibration.sorted_forecasts import SortedForecasts, sum_explained_squares
from bellwether.calibration.sufficient_statistics import Sums, ratio, total_sums

#: Maximum of a variance that is 0 except for rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Murphy:
    """Murphy's terms: `brier = reliability - resolution + uncertainty + within_bin_variance - within_bin_covariance`; None without a forecast."""

    brier: float | None
    reliability: float | None
    reliability_debiased: float | None
    resolution: float | None
    resolution_debiased: float | None
    uncertainty: float | None
    within_bin_variance: float | None
    within_bin_covariance: float | None


@dataclass(frozen=True, slots=True)
class Yates:
    """Yates' terms: `brier = uncertainty + bias_squared + min_variance + excess_variance - 2 covariance`; None without a forecast."""

    brier: float | None
    uncertainty: float | None
    bias_squared: float | None
    min_variance: float | None
    excess_variance: float | None
    covariance: float | None


@dataclass(frozen=True, slots=True)
class Corp:
    """CORP's terms: `brier = miscalibration - discrimination + uncertainty`; None without a forecast."""

    brier: float | None
    miscalibration: float | None
    discrimination: float | None
    uncertainty: float | None


def murphy(
    p: ArrayLike, y: ArrayLike, clusters: Labels | None = None, *, weights: ArrayLike | None = None, bins: int | ArrayLike = 10
) -> Murphy:
    """Compute Murphy's decomposition of forecasts `p` of yes on outcomes `y`.

    clusters: as in `evaluate`; the debiased terms count only pairs of different clusters. Without clusters, each forecast is one.
    bins: number of equal-width bins, or their edges. Raises `ScoringError` for invalid input.
    """
    forecasts = Forecasts.of(p, y, weights=weights)
    binning = Bins.of(bins)
    sums = total_sums(forecasts, binning)
    grouped = None if clusters is None else Clusters.of(clusters, len(forecasts))
    return Murphy(**_fields(Murphy, "murphy", sums, murphy_terms(sums) | debiased_terms(forecasts, grouped, binning)))


def yates(p: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> Yates:
    """Compute Yates' covariance decomposition of forecasts `p` of yes on outcomes `y`. Raises `ScoringError` for invalid input."""
    sums = total_sums(Forecasts.of(p, y, weights=weights))
    return Yates(**_fields(Yates, "yates", sums, yates_terms(sums)))


def corp(p: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> Corp:
    """Compute the CORP decomposition of forecasts `p` of yes on outcomes `y`. Raises `ScoringError` for invalid input."""
    forecasts = Forecasts.of(p, y, weights=weights)
    sums = total_sums(forecasts)
    return Corp(**_fields(Corp, "corp", sums, corp_terms(sums, sum_explained_squares(*SortedForecasts.of(forecasts).tally()))))


def variance_of_outcomes(sums: Sums) -> Floats:
    """Return the variance of the outcomes. Without fractional outcomes it is b (1 - b), where b is the share of yes."""
    variance = ratio(sums["yes_squared"], sums["n"]) - np.square(ratio(sums["yes"], sums["n"]))
    return np.where(np.abs(variance) <= _ROUNDING, 0.0, variance)


def murphy_terms(sums: Sums) -> dict[str, Floats]:
    """Compute Murphy's terms by name of the metric. Sums of shape (..., width) give arrays of shape (...)."""
    n, count = sums["n"], sums["bin_n"]
    forecast, yes = (_per_forecast(sums[name], count) for name in ("bin_p", "bin_yes"))
    base_rate = ratio(sums["yes"], n)
    return {
        "murphy_reliability": ratio((count * np.square(forecast - yes)).sum(axis=-1), n),
        "murphy_resolution": ratio((count * np.square(yes - base_rate[..., None])).sum(axis=-1), n),
        "within_bin_variance": _clip_negative(ratio(sums["p_squared"] - (count * np.square(forecast)).sum(axis=-1), n)),
        "within_bin_covariance": 2 * ratio(sums["p_yes"] - (count * forecast * yes).sum(axis=-1), n),
    }


def debiased_terms(forecasts: Forecasts, clusters: Clusters | None, bins: Bins) -> dict[str, Floats]:
    """Compute Murphy's reliability and resolution without their upward bias, by name of the metric; NaN if no bin has forecasts of two
    clusters.

    The squared mean of a bin is the mean product over pairs of its forecasts from different clusters. Two-way clusters exclude pairs that share
    either. Without clusters each forecast is one.
    """
    sums = total_sums(forecasts, bins)
    n = sums["n"]
    base_rate = ratio(sums["yes"], n)
    gap, deviation = sums["bin_p"] - sums["bin_yes"], sums["bin_yes"] - base_rate * sums["bin_n"]
    parts = _dependent_sums(forecasts, clusters, bins, base_rate)
    pairs = np.square(sums["bin_n"]) - parts["n"]
    # A bin with one cluster has no pairs, whatever remains by rounding.
    has_pairs = pairs > _ROUNDING * np.square(sums["bin_n"])
    if not has_pairs.any():
        return dict.fromkeys(("murphy_reliability_debiased", "murphy_resolution_debiased"), np.asarray(np.nan))
    weight = np.where(has_pairs, sums["bin_n"], 0.0)
    means = [
        np.divide(np.square(whole) - part, pairs, out=np.zeros(len(pairs)), where=has_pairs)
        for whole, part in ((gap, parts["gap"]), (deviation, parts["apart"]))
    ]
    return {
        "murphy_reliability_debiased": np.asarray((weight * means[0]).sum() / n),
        "murphy_resolution_debiased": np.asarray((weight * means[1]).sum() / n + parts["base_rate"]),
    }


def _dependent_sums(forecasts: Forecasts, clusters: Clusters | None, bins: Bins, base_rate: Floats) -> dict[str, Floats]:
    """Return by bin the sums over pairs of forecasts from the same cluster (a forecast also pairs with itself), and the variance of the
    base rate.
    """
    single = Grouping(np.arange(len(forecasts)), len(forecasts))
    ways = [(1.0, way) for way in ([single] if clusters is None else clusters.ways)]
    if clusters is not None and clusters.both is not None:
        ways.append((-1.0, clusters.both))
    weight, index = forecasts.weight, bins.index(forecasts.p)
    terms = {"n": weight, "gap": weight * (forecasts.p - forecasts.y), "apart": weight * (forecasts.y - base_rate)}
    totals = {name: np.zeros(bins.count) for name in terms} | {"base_rate": np.zeros(())}
    for sign, way in ways:
        for name, term in terms.items():
            totals[name] += sign * _squared_sums(term, way, index, bins.count)
        share, residual = way.sums(weight) / weight.sum(), way.sums(terms["apart"]) / weight.sum()
        totals["base_rate"] += sign * (np.square(residual) / np.where(share < 1, 1 - share, np.inf)).sum()
    return totals


def _squared_sums(term: Floats, way: Grouping, index: Ints, bins: int) -> Floats:
    """Sum `term` by cluster and bin; return for each bin the sum of the squares, float64 (bins,). way: the clusters. index: bin of each
    forecast.
    """
    if way.count == len(term):
        return Grouping(index, bins).sums(np.square(term))
    return np.asarray(np.square(way.bin_sums(index, bins, term)).sum(axis=0))


def yates_terms(sums: Sums) -> dict[str, Floats]:
    """Compute Yates' terms by name of the metric. Sums of shape (..., width) give arrays of shape (...)."""
    n, yes = sums["n"], sums["yes"]
    mean, base_rate = ratio(sums["p"], n), ratio(yes, n)
    covariance = ratio(sums["p_yes"], n) - mean * base_rate
    variance = ratio(sums["p_squared"], n) - np.square(mean)
    # slope^2 times the variance of y, where slope = covariance / variance of y; without both outcomes the forecasts need not vary
    minimum = np.where(n > 0, np.nan_to_num(ratio(np.square(covariance), variance_of_outcomes(sums))), np.nan)
    return {
        "yates_bias_squared": np.square(mean - base_rate),
        "yates_min_variance": minimum,
        "yates_excess_variance": _clip_negative(variance - minimum),
        "yates_covariance": covariance,
    }


def corp_terms(sums: Sums, isotonic: float) -> dict[str, Floats]:
    """Compute CORP's terms by name of the metric. isotonic: sum of squares of the recalibrated forecasts.

    The Brier score of the isotonic recalibration is (sum of y^2 - isotonic) / n.
    """
    n = sums["n"]
    return {
        "corp_miscalibration": _clip_negative(ratio(sums["squared_error"] - sums["yes_squared"] + isotonic, n)),
        "corp_discrimination": _clip_negative(ratio(np.asarray(isotonic), n) - np.square(ratio(sums["yes"], n))),
    }


def _per_forecast(bin_sum: Floats, count: Floats) -> Floats:
    """Divide the sum of each bin by the bin's count of forecasts; 0 for an empty bin."""
    return np.divide(bin_sum, count, out=np.zeros(bin_sum.shape), where=count > 0)


def _clip_negative(value: Floats) -> Floats:
    """Replace negative values by 0, in a term that only rounding can make negative."""
    return np.maximum(value, 0.0)


def _fields(kind: type, prefix: str, sums: Sums, terms: Mapping[str, Floats]) -> dict[str, float | None]:
    """Return the values of the fields of `kind` (Murphy, Yates or Corp); None where undefined. prefix: beginning of the metrics' names,
    such as murphy in murphy_resolution.
    """
    named = {"brier": ratio(sums["squared_error"], sums["n"]), "uncertainty": variance_of_outcomes(sums), **terms}
    values = {field.name: float(named.get(field.name, named.get(f"{prefix}_{field.name}", np.nan))) for field in fields(kind)}
    return {name: None if np.isnan(value) else value for name, value in values.items()}
