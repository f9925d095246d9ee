"""Formulas of the metrics. Undefined metrics are NaN.

Two decompositions of the Brier score: Murphy's over the ten bins (J. Appl. Meteorol. 12, 1973), and CORP (Dimitriadis, Gneiting & Jordan, PNAS
118, 2021), which has the forecasts' own isotonic recalibration in place of bins and adds up exactly:

    brier = corp_miscalibration - corp_discrimination + uncertainty

Murphy's reliability and resolution are biased upwards: chance alone makes them positive. Ferro and Fricker (Q. J. R. Meteorol. Soc. 138, 2012)
subtract the variance of independent outcomes. Here the squares of the bins are averaged over pairs of forecasts from different clusters instead.
The result is unbiased under any dependence within clusters, and equals their estimate if every forecast is its own cluster and the forecasts of a
bin are equal.

ROC-AUC is the probability that a question resolved yes had a higher forecast than one resolved no, with ties counted half. Average precision
is the sum over thresholds of the gain in recall times the precision, as in scikit-learn, without interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.added_value import AddedValue
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import BINS, Bools, Floats, Forecasts, Ints, bin_index
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.smooth_calibration import smooth_error
from bellwether.calibration.sorted_forecasts import SortedForecasts, sum_explained_squares

#: Distance from 0 and 1 to which probabilities are clipped in a logarithm.
CLIP = 1e-15

#: Maximum of a variance that is 0 except for rounding.
_ROUNDING = 1e-12


def compute_metrics(forecasts: Forecasts, clusters: Clusters | None = None, added: AddedValue | None = None) -> dict[str, float]:
    """Compute every metric of `ESTIMATED`; NaN where undefined. clusters: used by debiased terms only. added: computed if left out."""
    values = dict.fromkeys(ESTIMATED, float("nan"))
    if not len(forecasts):
        return values
    ordered, sums, weight = SortedForecasts.of(forecasts), sum_bins(forecasts), forecasts.weight
    added = added or AddedValue.of(forecasts)
    for name, (numerator, denominator) in (metric_terms(forecasts, forecasts.y) | added.terms(forecasts.y)).items():
        whole = (weight * denominator).sum()
        if whole > 0:
            values[name] = float((weight * numerator).sum() / whole)
    values["macro_f1"] = (values["f1_yes"] + values["f1_no"]) / 2
    values["pool_gain"] = added.gain(values["pool_weight"])
    values["ece"] = float(np.abs(sums.p - sums.yes).sum() / weight.sum())
    values["smece"] = smooth_error(ordered)
    return (
        values
        | _ranks(ordered, forecasts)
        | _corp_terms(ordered, forecasts)
        | _murphy_terms(sums)
        | _debiased_terms(sums, forecasts, clusters)
    )


def metric_terms(forecasts: Forecasts, y: Floats) -> dict[str, tuple[Floats | Bools, Floats | Bools]]:
    """Return numerator and denominator of each forecast, (N,) each, for the metrics that are ratios of weighted sums. The numerator
    of a skill is the loss of the reference minus that of the forecast.

    y: outcomes, float64 (N,); those of the forecasts, or possible other ones. Without binary outcomes, metrics of decisions are missing. The
    reference of `brier_skill` is the base rate of the forecasts' own outcomes.
    """
    p, weight, market = forecasts.p, forecasts.weight, forecasts.market
    everywhere = np.ones(len(p), dtype=bool)
    error = np.square(p - y)
    base_rate = (weight * forecasts.y).sum() / weight.sum() if len(p) else np.nan
    references = {
        "brier_skill": np.square(base_rate - y),
        "skill_vs_half": np.full(len(p), 0.25),
        "skill_vs_market": np.square(market - y),
    }
    confidence = np.maximum(p, 1 - p)
    terms: dict[str, tuple[Floats | Bools, Floats | Bools]] = {
        "brier": (error, everywhere),
        **{name: (np.nan_to_num(reference - error), np.nan_to_num(reference)) for name, reference in references.items()},
        "log_loss": (log_loss(p, y), everywhere),
        "average_confidence": (confidence, everywhere),
        "base_rate": (y, everywhere),
    }
    if not forecasts.is_binary:
        return terms
    yes, said_yes = y == 1, forecasts.decision
    right = yes == said_yes
    return terms | {
        "accuracy": (right, everywhere),
        "precision_yes": (yes & said_yes, said_yes),
        "recall_yes": (yes & said_yes, yes),
        "f1_yes": (2.0 * (yes & said_yes), yes + said_yes.astype(float)),
        "precision_no": (~yes & ~said_yes, ~said_yes),
        "recall_no": (~yes & ~said_yes, ~yes),
        "f1_no": (2.0 * (~yes & ~said_yes), 2.0 - yes - said_yes),
        "brier_yes": (error * yes, yes),
        "brier_no": (error * ~yes, ~yes),
        "confidence_when_correct": (confidence * right, right),
        "confidence_when_wrong": (confidence * ~right, ~right),
    }


def log_loss(p: Floats, y: Floats) -> Floats:
    """Return the logarithmic loss of each forecast, in nats, p clipped to [1e-15, 1 - 1e-15]."""
    yes, no = (-np.log(np.clip(probability, CLIP, 1 - CLIP)) for probability in (p, 1 - p))
    return np.where(y == 1, yes, np.where(y == 0, no, y * yes + (1 - y) * no))


@dataclass(frozen=True, slots=True, eq=False)
class BinSums:
    """Weighted sums by bin, float64 (BINS,) each: of 1 (`n`), of the forecasts (`p`) and of the outcomes (`yes`)."""

    n: Floats
    p: Floats
    yes: Floats


def sum_bins(forecasts: Forecasts) -> BinSums:
    """Sum the forecasts of each bin."""
    index, weight = bin_index(forecasts.p), forecasts.weight
    n, p, yes = (
        np.bincount(index, weight * column, BINS).astype(np.float64) for column in (np.ones(len(weight)), forecasts.p, forecasts.y)
    )
    return BinSums(n, p, yes)


def _ranks(ordered: SortedForecasts, forecasts: Forecasts) -> dict[str, float]:
    """Compute ROC-AUC and average precision; NaN if outcomes are fractional or all agree."""
    mass, yes = ordered.tally()
    no = mass - yes
    pairs = yes.sum() * no.sum()
    ranks = dict.fromkeys(("roc_auc", "average_precision"), float("nan"))
    if not forecasts.is_binary:
        return ranks
    if pairs:
        ranks["roc_auc"] = float((yes * (np.cumsum(no) - no + no / 2)).sum() / pairs)
    if yes.sum():
        mass, yes = mass[::-1], yes[::-1]
        ranks["average_precision"] = float((yes * np.cumsum(yes) / np.cumsum(mass)).sum() / yes.sum())
    return ranks


def _corp_terms(ordered: SortedForecasts, forecasts: Forecasts) -> dict[str, float]:
    """Compute CORP's terms: uncertainty is the variance of the outcomes; the Brier score of the recalibrated forecasts is (sum of y^2 -
    explained) / n.
    """
    p, y, weight = forecasts.p, forecasts.y, forecasts.weight
    n, explained = weight.sum(), sum_explained_squares(*ordered.tally())
    squares, base_rate = (weight * np.square(y)).sum(), (weight * y).sum() / n
    variance = squares / n - np.square(base_rate)
    # Only rounding makes a term negative.
    return {
        "uncertainty": 0.0 if abs(variance) <= _ROUNDING else float(variance),
        "corp_miscalibration": max(float(((weight * np.square(p - y)).sum() - squares + explained) / n), 0.0),
        "corp_discrimination": max(float(explained / n - np.square(base_rate)), 0.0),
    }


def _murphy_terms(sums: BinSums) -> dict[str, float]:
    """Compute Murphy's reliability and resolution."""
    n, forecast, yes = sums.n.sum(), *(np.divide(part, sums.n, out=np.zeros(BINS), where=sums.n > 0) for part in (sums.p, sums.yes))
    return {
        "murphy_reliability": float((sums.n * np.square(forecast - yes)).sum() / n),
        "murphy_resolution": float((sums.n * np.square(yes - sums.yes.sum() / n)).sum() / n),
    }


def _debiased_terms(sums: BinSums, forecasts: Forecasts, clusters: Clusters | None) -> dict[str, float]:
    """Compute Murphy's reliability and resolution without their upward bias; NaN if no bin has forecasts of two clusters.

    The squared mean of a bin is the mean product over pairs of its forecasts from different clusters. Two-way clusters exclude pairs that share
    either. Without clusters each forecast is one.
    """
    n = forecasts.weight.sum()
    base_rate = (forecasts.weight * forecasts.y).sum() / n
    gap, deviation = sums.p - sums.yes, sums.yes - base_rate * sums.n
    parts = _dependent_sums(forecasts, clusters, base_rate)
    pairs = np.square(sums.n) - parts["n"]
    # A bin with one cluster has no pairs; rounding may leave a small sum.
    has_pairs = pairs > _ROUNDING * np.square(sums.n)
    if not has_pairs.any():
        return dict.fromkeys(("murphy_reliability_debiased", "murphy_resolution_debiased"), float("nan"))
    weight = np.where(has_pairs, sums.n, 0.0)
    reliability, resolution = (
        float((weight * np.divide(np.square(whole) - part, pairs, out=np.zeros(BINS), where=has_pairs)).sum() / n)
        for whole, part in ((gap, parts["gap"]), (deviation, parts["apart"]))
    )
    return {"murphy_reliability_debiased": reliability, "murphy_resolution_debiased": resolution + float(parts["base_rate"])}


def _dependent_sums(forecasts: Forecasts, clusters: Clusters | None, base_rate: float) -> dict[str, Floats]:
    """Return by bin the sums over pairs of forecasts from the same cluster (a forecast also pairs with itself), and the variance of the
    base rate.
    """
    single = Grouping(np.arange(len(forecasts)), len(forecasts))
    ways = [(1.0, way) for way in ([single] if clusters is None else clusters.ways)]
    if clusters is not None and clusters.both is not None:
        ways.append((-1.0, clusters.both))
    weight, index = forecasts.weight, bin_index(forecasts.p)
    terms = {"n": weight, "gap": weight * (forecasts.p - forecasts.y), "apart": weight * (forecasts.y - base_rate)}
    totals = {name: np.zeros(BINS) for name in terms} | {"base_rate": np.zeros(())}
    for sign, way in ways:
        for name, term in terms.items():
            totals[name] += sign * _squared_sums(term, way, index)
        share, residual = way.sums(weight) / weight.sum(), way.sums(terms["apart"]) / weight.sum()
        totals["base_rate"] += sign * (np.square(residual) / np.where(share < 1, 1 - share, np.inf)).sum()
    return totals


def _squared_sums(term: Floats, way: Grouping, index: Ints) -> Floats:
    """Sum `term` by cluster and bin; return for each bin the sum of the squares, float64 (BINS,). index: bin of each forecast."""
    if way.count == len(term):  # a table of clusters by bins would be large
        return Grouping(index, BINS).sums(np.square(term))
    cells = np.bincount(way.index * BINS + index, term, way.count * BINS)
    return np.asarray(np.square(cells.reshape(way.count, BINS)).sum(axis=0))
